"""Kill -9 the scheduler repeatedly under load, also while it binds volumes and devices.

``python -m tests.live.kills --kills 1000`` runs it in rounds, each on an empty cluster, and prints a table.
Every kill hits one of the two processes of the leader: the supervisor or the scheduler.
"""

import argparse
import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from random import Random
from typing import Any, Final

from rich.console import Console
from rich.table import Table

from moorage.common.errors import NotFound
from moorage.kube.api.claims import SELECTED_NODE
from moorage.kube.api.pod import Pod
from moorage.kube.client.rest import ApiClient
from tests.live.cluster import PATIENCE, Kubelets, LiveCluster, patiently
from tests.live.controllers import controller_manager
from tests.live.devices import CLAIMS, Attacher, add_cards, add_template, clear_devices
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
    clear_storage,
    ephemeral_volume,
    list_claim_names,
)
from tests.support.control_plane import ControlPlane, control_plane

DEVICE: Final = "device"
MADE: Final = "volume to be made"
THERE: Final = "volume that is there"
RICH_NODES: Final = ("rich-0", "rich-1", "rich-2")
RICH: Final = {"key": "rich", "effect": "NoSchedule"}
NO_LEADER: Final = "no leader"
PROCESSES: Final = ("supervisor", "scheduler")
REFUSALS: Final = 4
SLOWEST: Final = 1.5
"""Seconds for the provisioning of a volume or the attachment of a card; the pod is in PreBind."""


@dataclass(frozen=True)
class Round:
    """The number of kills on one cluster, the plain pods per kill, and the maximum random wait before a kill."""

    kills: int
    plain: int = 30
    longest: float = 5.0
    seed: int = 1

    async def make_room(self, cluster: LiveCluster) -> None:
        """Add just enough capacity for plain pods, to detect pods that are counted twice or never.

        There is plenty for rich ones: a partially bound pod can only go to the node of its volume or card.
        """
        await add_classes(cluster)
        await add_template(cluster)
        await cluster.add_nodes(*(f"node-{number}" for number in range(self.kills)), cpu=f"{100 * self.plain}m")
        await cluster.add_nodes(*RICH_NODES, cpu="64", taints=[RICH])
        for node in RICH_NODES:
            await add_cards(cluster, node, self.kills + 3, to_be_attached=node == RICH_NODES[0])
            await add_local_volumes(cluster, node, self.kills + 3)

    async def run(self, cluster: LiveCluster, plane: ControlPlane, tally: "Tally", deadline: float) -> None:
        """Kill, wait until all pods are bound, and check the invariants."""
        await self.make_room(cluster)
        async with drivers(cluster, self.seed):
            with Replicas(plane.kubeconfig()).running() as replicas:
                await Killer(self, cluster, replicas, tally).run(deadline)
                await cluster.wait_for("all pods are bound", all_bound(replicas))
            await check(cluster)
        tally.bound += cluster.witness.bound
        tally.losses += replicas.losses
        tally.rounds += 1


@dataclass
class Tally:
    """The kills with their times, the partial bindings at those times, and the number of bound pods."""

    killed: Counter[tuple[str, str]] = field(default_factory=Counter)
    half_done: Counter[str] = field(default_factory=Counter)
    bound: int = 0
    losses: int = 0
    rounds: int = 0

    @property
    def kills(self) -> int:
        """The number of kills."""
        return self.killed.total()

    @property
    def leaderless(self) -> int:
        """The number of kills without a leader, which prove less."""
        return sum(count for (moment, _), count in self.killed.items() if moment == NO_LEADER)

    def __iadd__(self, more: "Tally") -> "Tally":
        self.killed += more.killed
        self.half_done += more.half_done
        self.bound += more.bound
        self.losses += more.losses
        self.rounds += more.rounds
        return self

    def table(self) -> Table:
        """Format the tally."""
        table = Table("killed while", *(f"the {process}" for process in PROCESSES), "in all")
        for moment in dict.fromkeys(moment for moment, _ in self.killed):
            counts = [self.killed[moment, process] for process in PROCESSES]
            table.add_row(moment, *map(str, counts), str(sum(counts)))
        table.add_section()
        totals = [sum(count for (_, own), count in self.killed.items() if own == process) for process in PROCESSES]
        table.add_row("in all", *map(str, totals), str(self.kills))
        return table

    def __str__(self) -> str:
        half_done = ", ".join(f"{description} {count}" for description, count in sorted(self.half_done.items()))
        return (
            f"{self.kills} kills in {self.rounds} rounds, {self.bound} pods bound, {self.losses} leases run out, "
            f"kills that left something half done: {half_done or 'none'}"
        )


async def add_rich_pods(cluster: LiveCluster, number: int) -> None:
    """Create pods with a card each, and a volume to provision, an existing volume, or both."""
    created = [ephemeral_volume(PROVISIONED)]
    await add_claims(cluster, f"local-{number}", f"both-{number}", storage_class=LOCAL)
    volumes: dict[str, list[dict[str, Any]]] = {
        f"made-{number}": created,
        f"local-{number}": [claim_volume(f"local-{number}")],
        f"both-{number}": [claim_volume(f"both-{number}"), *created],
    }
    for name, own in volumes.items():
        await cluster.add_pods(name, volumes=own, resourceClaims=CLAIMS, tolerations=[RICH])


def half_done(cluster: LiveCluster) -> set[str]:
    """Return the partial writes for pods that are not bound yet."""
    now = cluster.witness
    waiting = {pod.uid: pod for pod in now.pods.values() if not pod.node_name}
    reserved = (consumer.uid for claim in now.device_claims.values() for consumer in claim.status.reserved_for)
    result = {DEVICE} if any(uid in waiting for uid in reserved) else set()
    claimed = {volume.spec.claim_ref.uid for volume in now.volumes.values() if volume.spec.claim_ref is not None}
    for pod in waiting.values():
        for claim in (now.claims.get(f"{pod.namespace}/{name}") for name in list_claim_names(pod)):
            if claim is not None and SELECTED_NODE in claim.annotations:
                result.add(MADE)
            elif claim is not None and claim.uid in claimed:
                result.add(THERE)
    return result


class Killer:
    """Kills the leader: during a bind, in PreBind, or at a random moment, in turn."""

    def __init__(self, plan: Round, cluster: LiveCluster, replicas: Replicas, tally: Tally) -> None:
        self._asked = plan
        self._cluster = cluster
        self._replicas = replicas
        self._tally = tally
        self._chance = Random(plan.seed)
        self._moments = {"binding": self._binding, "pre-binding": self._pre_binding, "any moment": self._any_moment}

    async def run(self, deadline: float) -> None:
        """Create load and kill repeatedly; check the invariants after every tenth kill."""
        for number in range(self._asked.kills):
            if time.monotonic() > deadline:
                return
            name, moment = list(self._moments.items())[number % len(self._moments)]
            await self._cluster.add_pods(*(f"web-{number}-{index}" for index in range(self._asked.plain)))
            if moment == self._pre_binding:
                await add_rich_pods(self._cluster, number)
            await moment()
            process = self._chance.choice(PROCESSES)
            one_led = self._replicas.kill_leader(only_child=process == "scheduler")
            self._tally.killed[name if one_led else NO_LEADER, process] += 1
            self._tally.half_done.update(half_done(self._cluster))
            await self._delete_one()
            if number % 10 == 9:
                await check_any_time(self._cluster)

    async def _binding(self) -> None:
        before = self._cluster.witness.bound
        await self._until(lambda: self._cluster.witness.bound > before or self._is_idle())
        await asyncio.sleep(self._chance.uniform(0.0, 0.05))

    async def _pre_binding(self) -> None:
        # The partial work of its predecessor exists before the next replica leads: only then does it complete it.
        await self._until(lambda: bool(self._replicas.leading()))
        await self._until(lambda: bool(half_done(self._cluster)) or self._is_idle())
        await asyncio.sleep(self._chance.uniform(0.0, 0.5))

    async def _any_moment(self) -> None:
        await asyncio.sleep(self._chance.uniform(0.0, self._asked.longest))

    def _is_idle(self) -> bool:
        return all(pod.node_name for pod in self._cluster.witness.pods.values())

    async def _until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, "no pod was bound"
            self._replicas.keep_up()
            await asyncio.sleep(0.01)

    async def _delete_one(self) -> None:
        """Delete a pod: its resources and its nomination must be released."""
        pods: list[Pod] = sorted(self._cluster.witness.pods.values(), key=lambda pod: pod.name)
        try:
            await self._cluster.client.delete(self._chance.choice(pods))
        except NotFound:
            return


@asynccontextmanager
async def drivers(cluster: LiveCluster, seed: int) -> AsyncIterator[None]:
    """Provision volumes and attach cards for the duration of the block."""
    provisioner = Provisioner(cluster.client, refusals=REFUSALS, slowest=SLOWEST, chance=Random(seed))
    async with run_in_background(provisioner.run(), Attacher(cluster.client, SLOWEST).run()):
        yield


@asynccontextmanager
async def run_in_background(*work: Any) -> AsyncIterator[None]:
    """Run work in parallel to the block."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def one_round(plane: ControlPlane, plan: Round, deadline: float) -> Tally:
    """Kill on an empty cluster, check the invariants, and leave it empty."""
    tally = Tally()
    async with ApiClient(plane.connection()) as client:
        cluster = LiveCluster(client)
        async with run_in_background(Kubelets(client).run(), cluster.witness.run()):
            await plan.run(cluster, plane, tally, deadline)
        # A busy server may close the connection of a large deletion.
        await patiently(lambda: clear_storage(cluster))
        await patiently(lambda: clear_devices(cluster))
        await patiently(cluster.clear)
    return tally


def main() -> int:
    """Kill until the number or the time is reached; the exit code is 0 if all invariants held."""
    parser = argparse.ArgumentParser(prog="python -m tests.live.kills", description=__doc__)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--per-round", type=int, default=50)
    parser.add_argument("--plain", type=int, default=10, help="plain pods for each kill")
    parser.add_argument("--minutes", type=float, default=120.0)
    parser.add_argument("--seed", type=int, default=int(os.environ.get("MOORAGE_SEED", "1")))
    options = parser.parse_args()
    console, tally = Console(), Tally()
    deadline = time.monotonic() + 60 * options.minutes
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # always stop the started processes
    try:
        with control_plane() as plane, controller_manager(plane):
            while tally.kills < options.kills and time.monotonic() < deadline:
                kills = min(options.per_round, options.kills - tally.kills)
                plan = Round(kills, options.plain, longest=3.0, seed=options.seed + tally.rounds)
                tally += asyncio.run(one_round(plane, plan, deadline))
                console.print(f"{time.strftime('%H:%M:%S')} {tally}", soft_wrap=True)
    finally:
        console.print(tally.table(), "Only rounds that were checked at their end are counted.")
    return 0 if tally.kills >= options.kills else 1


if __name__ == "__main__":
    raise SystemExit(main())
