"""Creates and deletes pods and nodes, some pods with volumes and devices, on a server that may be down."""

import asyncio
from collections import deque
from contextlib import suppress
from random import Random
from typing import Any, Final

from moorage.common.errors import AlreadyExists, ApiError, NotFound
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from tests.live.cluster import NAMESPACE, PATIENCE, LiveCluster, patiently
from tests.live.devices import CLAIMS, add_cards, add_template
from tests.live.kills import RICH, RICH_NODES
from tests.live.storage import (
    LOCAL,
    PROVISIONED,
    add_claims,
    add_classes,
    claim_volume,
    ephemeral_volume,
    volume_spec,
)

STEADY_NODES: Final = 12
EXTRA_NODES: Final = 4
PLAIN_PODS: Final = 150
RICH_PODS: Final = 18
CARDS: Final = 16
PLAIN_SECONDS: Final = 0.3
RICH_SECONDS: Final = 2.0
NODE_SECONDS: Final = 8.0
SWEEP_SECONDS: Final = 5.0


class Churn:
    """Keeps the number of pods and nodes constant, each for a limited time."""

    def __init__(self, cluster: LiveCluster, chance: Random) -> None:
        self.created = 0
        self.nodes_gone = 0
        self._cluster = cluster
        self._chance = chance

    async def make_room(self) -> None:
        """Create permanent objects: most nodes, cards, classes."""
        await add_classes(self._cluster)
        await add_template(self._cluster)
        await self._cluster.add_nodes(*(f"steady-{number}" for number in range(STEADY_NODES)), cpu="2")
        await self._cluster.add_nodes(*RICH_NODES, cpu="64", taints=[RICH])
        for node in RICH_NODES:
            await add_cards(self._cluster, node, CARDS, to_be_attached=node == RICH_NODES[0])

    async def run(self) -> None:
        """Create and delete objects until cancelled."""
        await asyncio.gather(self._plain(), self._rich(), self._nodes(), self._relabelling(), self._sweeping())

    async def _plain(self) -> None:
        alive: deque[str] = deque()
        while True:
            alive.append(name := f"plain-{self.created}")
            await self._add(name)
            if len(alive) > PLAIN_PODS:
                await self._delete(BY_TYPE[Pod].path(alive.popleft(), NAMESPACE))
                await asyncio.sleep(PLAIN_SECONDS)

    async def _rich(self) -> None:
        """Create pods with a card each, and an existing volume, a volume to provision, or both."""
        alive: deque[str] = deque()
        while True:
            alive.append(name := f"rich-{self.created}")
            volumes = [ephemeral_volume(PROVISIONED)] if self.created % 3 != 0 else []
            if self.created % 3 != 1:
                await patiently(lambda name=name: self._add_disk(name))  # type: ignore[misc]
                volumes.append(claim_volume(name))
            await self._add(name, volumes=volumes, resourceClaims=CLAIMS, tolerations=[RICH])
            if len(alive) > RICH_PODS:
                oldest = alive.popleft()
                await self._delete(BY_TYPE[Pod].path(oldest, NAMESPACE))
                await self._delete(BY_TYPE[PersistentVolumeClaim].path(oldest, NAMESPACE))
            await asyncio.sleep(RICH_SECONDS)

    async def _add(self, name: str, **spec: Any) -> None:
        with suppress(AlreadyExists):  # only the response was lost
            await patiently(lambda: self._cluster.add_pods(name, **spec))
        self.created += 1

    async def _add_disk(self, name: str) -> None:
        node = self._chance.choice(RICH_NODES)
        spec = volume_spec(node) | {"local": {"path": f"/disks/{name}"}, "storageClassName": LOCAL}
        await self._cluster.create(BY_TYPE[PersistentVolume].path(), {"metadata": {"name": name}, "spec": spec})
        await add_claims(self._cluster, name, storage_class=LOCAL)

    async def _delete(self, path: str) -> None:
        try:
            await patiently(lambda: self._cluster.client.request("DELETE", path))
        except NotFound:
            return

    async def _nodes(self) -> None:
        """Add nodes, and delete them after draining."""
        alive: deque[str] = deque()
        number = 0
        while True:
            number += 1
            alive.append(name := f"extra-{number}")
            with suppress(AlreadyExists):
                await patiently(lambda name=name: self._cluster.add_nodes(name, cpu="2"))  # type: ignore[misc]
            if len(alive) > EXTRA_NODES:
                await self._drain(alive.popleft())
            await asyncio.sleep(NODE_SECONDS)

    async def _drain(self, name: str) -> None:
        path = BY_TYPE[Node].path(name)
        await patiently(lambda: self._cluster.merge(path, {"spec": {"unschedulable": True}}))
        for pod in [pod for pod in self._cluster.witness.pods.values() if pod.node_name == name]:
            await self._delete(BY_TYPE[Pod].path(pod.name, NAMESPACE))
        await self._delete(path)
        self.nodes_gone += 1

    async def _relabelling(self) -> None:
        while True:
            await patiently(self._relabel)
            await asyncio.sleep(1.0)

    async def _relabel(self) -> None:
        node = f"steady-{self._chance.randrange(STEADY_NODES)}"
        labels = {"shade": str(self._chance.randrange(4))}
        await self._cluster.merge(BY_TYPE[Node].path(node), {"metadata": {"labels": labels}})

    async def _sweeping(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            try:
                await self.sweep()
            except ApiError:
                continue  # the server is down

    async def sweep(self) -> int:
        """Remove pods on deleted nodes, and volumes without a claim; return their number."""
        pods = await self._cluster.client.list(Pod, NAMESPACE)
        nodes = {node.name for node in await self._cluster.client.list(Node)}
        remaining = [pod for pod in pods if pod.node_name and pod.node_name not in nodes]
        for pod in remaining:
            await self._delete(f"{BY_TYPE[Pod].path(pod.name, NAMESPACE)}?gracePeriodSeconds=0")
        volumes = await self._cluster.client.list(PersistentVolume)
        free = [volume for volume in volumes if volume.status.phase == "Released"]
        for volume in free:
            await self._delete(BY_TYPE[PersistentVolume].path(volume.name))
        return len(remaining)

    async def settle(self) -> None:
        """Sweep until no pod is on a deleted node."""
        async with asyncio.timeout(PATIENCE):
            while await patiently(self.sweep):
                await asyncio.sleep(1.0)
