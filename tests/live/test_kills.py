"""The scheduler is killed fifty times under load, also in the middle of binding volumes and devices."""

import asyncio
import os
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random
from typing import Any, Final

import pytest

from moorage.api.claims import SELECTED_NODE
from moorage.api.pod import Pod
from moorage.errors import NotFound
from tests.live.cluster import PATIENCE, LiveCluster
from tests.live.conftest import Story
from tests.live.devices import CLAIMS, Attacher, add_cards, add_template
from tests.live.invariants import check, check_any_time
from tests.live.replicas import Replicas, all_bound
from tests.live.storage import (
    LOCAL,
    PROVISIONED,
    Provisioner,
    add_claims,
    add_classes,
    add_local_volumes,
    claim_volume,
    claims_of,
    ephemeral_volume,
)
from tests.support.control_plane import ControlPlane

Live = Callable[[Story], None]

pytestmark = pytest.mark.usefixtures("controllers")

KILLS: Final = int(os.environ.get("MOORAGE_KILLS", "50"))
PLAIN: Final = 30
"""Plain pods for each kill. They fill a node of their own: one counted twice, or not at all, shows."""
SEED: Final = int(os.environ.get("MOORAGE_SEED", "1"))
DEVICE: Final = "device"
MADE: Final = "volume to be made"
THERE: Final = "volume that is there"
RICH_NODES: Final = ("rich-0", "rich-1", "rich-2")
RICH: Final = {"key": "rich", "effect": "NoSchedule"}
NOBODY: Final = "nobody led"
REFUSALS: Final = 4
SLOWEST: Final = 1.5
"""Seconds that a volume may take to be made, or a card to be attached, in which the pod is in PreBind."""


async def make_room(cluster: LiveCluster) -> None:
    """Make just enough room for plain pods, and plenty for rich ones: a pod that was half bound can only go there."""
    await add_classes(cluster)
    await add_template(cluster)
    await cluster.add_nodes(*(f"node-{number}" for number in range(KILLS)), cpu="3")
    await cluster.add_nodes(*RICH_NODES, cpu="64", taints=[RICH])
    for node in RICH_NODES:
        await add_cards(cluster, node, KILLS + 3, to_be_attached=node == RICH_NODES[0])
        await add_local_volumes(cluster, node, KILLS + 3)


async def add_rich_pods(cluster: LiveCluster, number: int) -> None:
    """Create pods with a card each, and a volume to be made, one that is there, or both."""
    made = [ephemeral_volume(PROVISIONED)]
    await add_claims(cluster, f"local-{number}", f"both-{number}", storage_class=LOCAL)
    volumes: dict[str, list[dict[str, Any]]] = {
        f"made-{number}": made,
        f"local-{number}": [claim_volume(f"local-{number}")],
        f"both-{number}": [claim_volume(f"both-{number}"), *made],
    }
    for name, own in volumes.items():
        await cluster.add_pods(name, volumes=own, resourceClaims=CLAIMS, tolerations=[RICH])


def half_done(cluster: LiveCluster) -> set[str]:
    """Name what was written for pods that are not bound yet."""
    now = cluster.witness
    waiting = {pod.uid: pod for pod in now.pods.values() if not pod.node_name}
    reserved = (consumer.uid for claim in now.device_claims.values() for consumer in claim.status.reserved_for)
    found = {DEVICE} if any(uid in waiting for uid in reserved) else set()
    claimed = {volume.spec.claim_ref.uid for volume in now.volumes.values() if volume.spec.claim_ref is not None}
    for pod in waiting.values():
        for claim in (now.claims.get(f"{pod.namespace}/{name}") for name in claims_of(pod)):
            if claim is not None and SELECTED_NODE in claim.annotations:
                found.add(MADE)
            elif claim is not None and claim.uid in claimed:
                found.add(THERE)
    return found


class Killer:
    """Kills who leads: while it binds, in the middle of PreBind, or at any moment, in turn."""

    def __init__(self, cluster: LiveCluster, replicas: Replicas, chance: Random) -> None:
        self.seen: set[str] = set()
        self.killed: Counter[str] = Counter()
        self._cluster = cluster
        self._replicas = replicas
        self._chance = chance
        self._moments = {"binding": self._binding, "pre-binding": self._pre_binding, "any moment": self._any_moment}

    async def run(self) -> None:
        """Bring load and kill, again and again; what may never be is looked for after every tenth kill."""
        for number in range(KILLS):
            name, moment = list(self._moments.items())[number % len(self._moments)]
            await self._cluster.add_pods(*(f"web-{number}-{index}" for index in range(PLAIN)))
            if moment == self._pre_binding:
                await add_rich_pods(self._cluster, number)
            await moment()
            self.killed[name if self._replicas.kill_leader() else NOBODY] += 1
            self.seen |= half_done(self._cluster)
            await self._delete_one()
            if number % 10 == 9:
                await check_any_time(self._cluster)

    async def _binding(self) -> None:
        before = self._cluster.witness.bound
        await self._until(lambda: self._cluster.witness.bound > before or self._is_idle())
        await asyncio.sleep(self._chance.uniform(0.0, 0.05))

    async def _pre_binding(self) -> None:
        # What its predecessor left half done is there before it leads: only then is it the one who does it.
        await self._until(lambda: bool(self._replicas.leading()))
        await self._until(lambda: bool(half_done(self._cluster)) or self._is_idle())
        await asyncio.sleep(self._chance.uniform(0.0, 0.5))

    async def _any_moment(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, 5.0))

    def _is_idle(self) -> bool:
        return all(pod.node_name for pod in self._cluster.witness.pods.values())

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, "nothing is ever bound"
            self._replicas.keep_up()
            await asyncio.sleep(0.01)

    async def _delete_one(self) -> None:
        """Delete a pod: what it had, or was promised, must be given back."""
        pods: list[Pod] = sorted(self._cluster.witness.pods.values(), key=lambda pod: pod.name)
        try:
            await self._cluster.client.delete(self._chance.choice(pods))
        except NotFound:
            return


@asynccontextmanager
async def drivers(cluster: LiveCluster) -> AsyncIterator[None]:
    """Make volumes and attach cards for as long as the block lasts."""
    provisioner = Provisioner(cluster.client, refusals=REFUSALS, slowest=SLOWEST, chance=Random(SEED))
    tasks = [asyncio.create_task(driver.run()) for driver in (provisioner, Attacher(cluster.client, SLOWEST))]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def test_fifty_kills(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await make_room(cluster)
        async with drivers(cluster):
            with Replicas(plane.kubeconfig()).running() as replicas:
                killer = Killer(cluster, replicas, Random(SEED))
                await killer.run()
                await cluster.wait_for("all pods are bound", all_bound(replicas))
            assert killer.killed[NOBODY] <= KILLS // 3, f"who leads is to be killed, not who waits: {killer.killed}"
            assert killer.seen == {DEVICE, MADE, THERE}, f"the kills came at moments that tell nothing: {killer.seen}"
            await check(cluster)

    live(story)
