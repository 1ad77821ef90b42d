"""Random histories in virtual time: whatever happens to a cluster, the scheduler keeps its promises."""

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

from moorage.api.affinity import Affinity, PodAffinityTerm, PodAntiAffinity, Taint, TopologySpreadConstraint
from moorage.api.meta import KubeObject
from moorage.api.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from moorage.api.pod import Pod, SchedulingGate
from moorage.api.selectors import LabelSelector
from moorage.clock import VirtualClock
from moorage.config import default_config
from moorage.errors import ApiError, Conflict
from moorage.features import FeatureGates
from moorage.framework.nodetable import NodeTable
from moorage.framework.registry import Registry
from moorage.plugins.catalogue import IN_TREE
from moorage.simulator.loop import run_virtual
from moorage.simulator.simulation import Simulation
from moorage.simulator.world import World
from moorage.state.cache import Cache
from moorage.testing import make_node, make_pod

HISTORIES = 1_000
BATCHES = 20
APPS = ("web", "db", "job")


class History:
    """One random history of one cluster."""

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.random = random.Random(seed)
        self.clock = clock
        self.numbers = Counter[str]()
        self.faults_left = self.random.choice((0, 0, 3))
        self.world = World(clock, fault=self.fault)
        self.simulation = Simulation(
            self.world, default_config(), Registry(IN_TREE), features=FeatureGates(), cross_check=True
        )
        self.simulation.load([self.node() for _ in range(self.random.randint(1, 4))])

    def fault(self, verb: str, thing: KubeObject) -> ApiError | None:
        if self.faults_left and verb in ("bind", "patch") and self.random.random() < 0.3:
            self.faults_left -= 1
            return ApiError(f"{verb} of {thing.key}: the server is not well")
        return None

    def name(self, kind: str) -> str:
        self.numbers[kind] += 1
        return f"{kind}-{self.numbers[kind]}"

    def node(self) -> Node:
        taints = [Taint(key="spot", effect="NoSchedule")] if self.random.random() < 0.2 else []
        zone = self.random.choice(("a", "b", ""))
        shape = {"cpu": self.random.choice((1, 2, 4)), "memory": "4Gi", "pods": self.random.choice((3, 10))}
        return make_node(self.name("node"), zone=zone, allocatable=shape, taints=taints)

    def pod(self) -> Pod:
        app = self.random.choice(APPS)
        return make_pod(
            self.name("pod"),
            labels={"app": app},
            requests={"cpu": f"{self.random.choice((0, 250, 500, 1500))}m", "memory": "256Mi"},
            priority=self.random.choice((None, 0, 10, 100)),
            tolerates=["spot"] if self.random.random() < 0.3 else (),
            host_ports=[8080] if self.random.random() < 0.1 else (),
            **self.wishes(LabelSelector(match_labels={"app": app})),
        )

    def wishes(self, selector: LabelSelector) -> dict[str, Any]:
        """Give some pods a wish that depends on others, or on the node."""
        roll = self.random.random()
        if roll < 0.15:
            term = PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=selector)
            return {"affinity": Affinity(pod_anti_affinity=PodAntiAffinity(required=(term,)))}
        if roll < 0.3:
            how = self.random.choice(("DoNotSchedule", "ScheduleAnyway"))
            constraint = TopologySpreadConstraint(
                max_skew=1, topology_key=ZONE_LABEL, when_unsatisfiable=how, label_selector=selector
            )
            return {"topology_spread_constraints": (constraint,)}
        if roll < 0.4:
            return {"node_selector": {ZONE_LABEL: self.random.choice(("a", "b", "c"))}}
        if roll < 0.45:
            return {"scheduling_gates": (SchedulingGate("later"),)}
        return {}

    async def run(self) -> None:
        for _ in range(self.random.randint(3, 8)):
            for _ in range(self.random.randint(1, 5)):
                self.happen()
            if self.random.random() < 0.5:
                await self.simulation.run_until_quiet(most_seconds=self.random.choice((0.01, 3.0, 1000.0)))
        await self.simulation.run_until_quiet(most_seconds=5000.0)
        self.check()

    def happen(self) -> None:
        """Let one thing happen, as users and controllers would make it."""
        store = self.world.store
        pods, nodes = list(store.list(Pod)), list(store.list(Node))
        roll = self.random.random()
        if roll < 0.6:
            self.world.add(self.pod())
        elif roll < 0.7:
            self.world.add(self.node())
        elif roll < 0.85 and pods:
            self.world.remove(self.random.choice(pods))
        elif nodes:
            self.change_node(self.random.choice(nodes))

    def change_node(self, node: Node) -> None:
        if self.random.random() < 0.3:
            self.world.remove(node)
        else:
            spec = replace(node.spec, unschedulable=not node.spec.unschedulable)
            self.world.store.update(replace(node, spec=spec))

    def check(self) -> None:
        """Check every promise on the cluster as it is now."""
        self.simulation.scheduler.queue.check_invariants()
        self.check_capacity()
        self.check_nothing_lost()
        self.check_columns()
        self.check_reasons()

    def check_capacity(self) -> None:
        pods = [pod for pod in self.world.store.list(Pod) if not pod.is_finished]
        for node in self.world.store.list(Node):
            there = [pod for pod in pods if pod.node_name == node.name]
            assert len(there) <= node.allocatable["pods"], f"{node.name} runs {len(there)} pods"
            for resource in ("cpu", "memory"):
                used = sum(pod.requests.get(resource, 0) for pod in there)
                assert used <= node.allocatable[resource], f"{node.name} gives {used} of {resource}"
            ports = Counter(port for pod in there for port in pod.host_ports)
            assert all(count == 1 for count in ports.values()), f"{node.name} gives a port twice"

    def check_nothing_lost(self) -> None:
        queue = self.simulation.scheduler.queue
        for pod in self.world.store.list(Pod):
            where = queue.where(pod)
            if pod.node_name:
                assert where is None, f"{pod.key} is bound and still waits in {where}"
            else:
                assert where in ("unschedulable", "gated", "backoff"), f"{pod.key} is lost: {where}"
        assert self.simulation.scheduler.cache.assumed_count == 0

    def check_columns(self) -> None:
        """Compare the cache with one that is built from nothing."""
        kept, fresh = self.simulation.scheduler.cache, Cache()
        for node in self.world.store.list(Node):
            fresh.add_node(node)
        for pod in self.world.store.list(Pod):
            if pod.node_name and not pod.is_finished:
                fresh.add_pod(pod)
        assert sorted(kept.nodes.names) == sorted(fresh.nodes.names)
        rows = [kept.columns.row_of[name] for name in fresh.nodes.names]
        window = kept.nodes.take(np.array(rows, dtype=np.int64))
        for (name, found), (_, want) in zip(columns(window), columns(fresh.nodes), strict=True):
            assert found == want, f"column {name}: kept {found}, from nothing {want}"
        assert kept.pod_count == fresh.pod_count

    def check_reasons(self) -> None:
        """Check that a pod which is parked still fits nowhere."""
        scheduler = self.simulation.scheduler
        for queued in scheduler.queue:
            if not queued.is_gated and queued.rejectors:
                found = scheduler.placements[queued.scheduler_name].find(queued.pod)
                assert found.count == 0, f"{queued.key} waits for {queued.rejectors} but fits"


def columns(nodes: NodeTable) -> Iterator[tuple[str, list[Any]]]:
    for resource in ("cpu", "memory"):
        yield f"requested {resource}", nodes.requested[resource].tolist()
        yield f"allocatable {resource}", nodes.allocatable[resource].tolist()
        yield f"nonzero {resource}", nodes.nonzero_requested[resource].tolist()
    yield "pod count", nodes.pod_count.tolist()
    yield "cordoned", nodes.unschedulable.tolist()
    yield "taints", [nodes.taints[row] for row in range(len(nodes))]
    yield "ports", [nodes.host_ports[row] for row in range(len(nodes))]
    yield "zone", [nodes.label(ZONE_LABEL)[row] for row in range(len(nodes))]


def play(seed: int) -> History:
    clock = VirtualClock()

    async def run() -> History:
        history = History(seed, clock)
        await history.run()
        return history

    return run_virtual(run(), clock)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_histories_keep_every_promise(batch: int) -> None:
    for seed in range(batch, HISTORIES, BATCHES):
        try:
            play(seed)
        except Exception as error:
            error.add_note(f"history {seed}")
            raise


def test_the_same_seed_gives_the_same_history() -> None:
    def bound(seed: int) -> list[tuple[str, str]]:
        return [(pod.key, pod.node_name) for pod in play(seed).world.store.list(Pod)]

    assert bound(7) == bound(7)


def test_a_pod_is_bound_only_once() -> None:
    clock = VirtualClock()

    async def run() -> None:
        world = World(clock)
        world.add(make_node("a"), make_pod("p"))
        pod = next(world.store.list(Pod))
        await world.bind(pod, "a")
        with pytest.raises(Conflict):
            await world.bind(pod, "b")

    run_virtual(run(), clock)
