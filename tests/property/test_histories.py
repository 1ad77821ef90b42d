"""Random histories in virtual time: the scheduler keeps its invariants."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.property.history import History
from tests.support.stranded import stranded

from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.common.clock import VirtualClock
from moorage.common.errors import Conflict
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.node import ZONE_LABEL, Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.state.cache import Cache
from moorage.testing import make_node, make_pod

HISTORIES = 1_000
BATCHES = 20


class Checked(History):
    """A history with a check at its end."""

    def check(self) -> None:
        """Check all invariants on the current cluster."""
        self.simulation.scheduler.queue.check_invariants()
        self.check_capacity()
        self.check_nothing_lost()
        self.check_columns()
        assert not (waiting := stranded(self.simulation.scheduler)), f"pending without a reason: {waiting}"

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
        """Compare the cache with a rebuilt one."""
        stored, fresh = self.simulation.scheduler.cache, Cache()
        for node in self.world.store.list(Node):
            fresh.add_node(node)
        for pod in self.world.store.list(Pod):
            if pod.node_name and not pod.is_finished:
                fresh.add_pod(pod)
        assert sorted(stored.nodes.names) == sorted(fresh.nodes.names)
        rows = [stored.columns.row_of[name] for name in fresh.nodes.names]
        window = stored.nodes.take(np.array(rows, dtype=np.int64))
        for (name, result), (_, want) in zip(columns(window), columns(fresh.nodes), strict=True):
            assert result == want, f"column {name}: cached {result}, rebuilt {want}"
        assert stored.pod_count == fresh.pod_count


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


def play(seed: int) -> Checked:
    clock = VirtualClock()

    async def run() -> Checked:
        history = Checked(seed, clock)
        await history.run()
        history.check()
        return history

    return run_virtual(run(), clock)


@pytest.mark.parametrize("batch", range(BATCHES))
def test_random_histories_keep_all_invariants(batch: int) -> None:
    for seed in range(batch, HISTORIES, BATCHES):
        try:
            play(seed)
        except Exception as error:
            error.add_note(f"history {seed}")
            raise


def test_same_seed_gives_the_same_history() -> None:
    def bound(seed: int) -> list[tuple[str, str]]:
        return [(pod.key, pod.node_name) for pod in play(seed).world.store.list(Pod)]

    assert bound(7) == bound(7)


def test_pod_is_bound_only_once() -> None:
    clock = VirtualClock()

    async def run() -> None:
        world = SimulatedCluster(clock)
        world.add(make_node("a"), make_pod("p"))
        pod = next(world.store.list(Pod))
        await world.cluster.bind(pod, "a")
        with pytest.raises(Conflict):
            await world.cluster.bind(pod, "b")

    run_virtual(run(), clock)
