"""Plugins discard their cached results: for single nodes, for all nodes, or after some time."""

from collections import Counter
from collections.abc import Hashable, MutableMapping
from typing import Any

import pytest
from tests.support.engine import build_runner, feasible_nodes

from moorage.common.clock import VirtualClock
from moorage.common.errors import ConfigError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cached_results.result_cache import MANY_NODES, MAX_RENEWALS
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.reference import CrossCheckError
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, ScorePlugin
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.framework.status import Status
from moorage.testing import make_node, make_pod

FULL = Status.unschedulable("node(s) had no free seats")


class Seats(FilterPlugin, ScorePlugin):
    """Has its own state for each node: the number of free seats."""

    def __init__(self, *, handle: Handle) -> None:
        self.handle = handle
        self.free: Counter[str] = Counter()
        self.filtered: list[str] = []
        self.version = 0

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def filter(self, cycle: Any, pod: Pod, node: NodeInfo) -> Status | None:
        self.filtered.append(node.name)
        return None if self.free[node.name] else FULL

    def score(self, cycle: Any, pod: Pod, node: NodeInfo) -> int:
        return self.free[node.name]


class SeatsByNode(Seats):
    depends_on = DependsOn.NODE


class SeatsByRequests(Seats):
    depends_on = DependsOn.REQUESTS


class SeatsByEpoch(Seats):
    def epoch(self) -> Hashable:
        return self.version


class SeatsForAMinute(Seats):
    valid_for = 60.0


def runner_with(plugin: type[Seats], **options: Any) -> tuple[ProfileRunner, Seats]:
    runner = build_runner(*(make_node(name) for name in "abc"), plugins=[plugin], **options)
    seats = runner.profile.plugins[plugin.name]
    assert isinstance(seats, Seats)
    seats.free.update("abc")
    return runner, seats


def feasible(runner: ProfileRunner, pod: str = "p") -> list[str]:
    result = runner.find(make_pod(pod))
    return feasible_nodes(runner, result)


@pytest.mark.parametrize("plugin", [Seats, SeatsByNode, SeatsByRequests])
def test_only_invalidated_nodes_are_re_evaluated(plugin: type[Seats]) -> None:
    runner, seats = runner_with(plugin, cross_check=False)
    first = runner.find(make_pod("p"))
    assert feasible_nodes(runner, first) == ["a", "b", "c"]
    runner.choose(first)
    seats.filtered.clear()
    seats.free.update({"a": 4, "b": -1, "c": 8})
    seats.handle.invalidate("a", "b", "unknown")
    result = runner.find(make_pod("q"))
    assert feasible_nodes(runner, result) == ["a", "c"]
    assert seats.filtered == ["a", "b"]
    # The new score of node a wins: that of node c was not invalidated.
    assert runner.choose(result).node.name == "a"


def test_cross_checks_find_nodes_that_were_not_invalidated() -> None:
    runner, seats = runner_with(Seats)
    feasible(runner)
    seats.free["b"] = 0
    with pytest.raises(CrossCheckError, match="p on b"):
        feasible(runner)
    seats.handle.invalidate("b")
    assert feasible(runner) == ["a", "c"]


def test_invalidation_in_a_constructor_has_no_effect() -> None:
    class Early(Seats):
        def __init__(self, *, handle: Handle) -> None:
            super().__init__(handle=handle)
            handle.invalidate("a")

    runner, _ = runner_with(Early)
    assert feasible(runner) == ["a", "b", "c"]


def test_invalidation_does_not_change_the_version_of_nodes() -> None:
    runner, seats = runner_with(SeatsByNode)
    version = runner.cache.nodes.nodes_version
    seats.handle.invalidate("a")
    assert runner.cache.nodes.nodes_version == version


def test_an_epoch_that_changes_for_each_pod_is_reported_once(logged: list[MutableMapping[str, Any]]) -> None:
    runner, seats = runner_with(SeatsByEpoch)
    for number in range(3 * MAX_RENEWALS):
        seats.version += 1
        feasible(runner, f"p{number}")
    [line] = [line for line in logged if line["log_level"] == "warning"]
    assert line["plugin"] == "SeatsByEpoch"
    assert "handle.invalidate" in line["hint"]


def test_an_epoch_that_changes_for_every_second_pod_is_not_reported(logged: list[MutableMapping[str, Any]]) -> None:
    runner, seats = runner_with(SeatsByEpoch)
    for number in range(3 * MAX_RENEWALS):
        seats.version += number % 2
        feasible(runner, f"p{number}")
    assert not [line for line in logged if line["log_level"] == "warning"]


def test_results_expire_after_the_declared_time() -> None:
    clock = VirtualClock()
    runner, seats = runner_with(SeatsForAMinute, clock=clock)
    assert feasible(runner) == ["a", "b", "c"]
    seats.free["b"] = 0
    clock.advance(59)
    # The cross-check accepts a result that has not expired, although a new one differs.
    result = runner.find(make_pod("q"))
    assert feasible_nodes(runner, result) == ["a", "b", "c"]
    seats.free["a"] = 9
    runner.choose(result)
    clock.advance(1)
    assert feasible(runner, "r") == ["a", "c"]


@pytest.mark.parametrize("seconds", [0, -1, "60"])
def test_times_that_are_not_positive_are_rejected(seconds: Any) -> None:
    wrong = type("Wrong", (Seats,), {"valid_for": seconds})
    with pytest.raises(ConfigError, match=r"Wrong\.valid_for is .*\n  hint: write a number"):
        Registry([wrong])


class UnsignedByDefault(FilterPlugin):
    def filter(self, cycle: Any, pod: Pod, node: NodeInfo) -> Status | None:
        return None


@pytest.mark.parametrize(("plugin", "nodes", "is_reported"), [
    (UnsignedByDefault, MANY_NODES, True), (UnsignedByDefault, MANY_NODES - 1, False), (Seats, MANY_NODES, False),
])  # fmt: skip
def test_plugins_called_for_each_pod_and_node_are_reported_once_on_large_clusters(
    plugin: type[FilterPlugin], nodes: int, is_reported: bool, logged: list[MutableMapping[str, Any]]
) -> None:
    runner = build_runner(*(make_node(f"n{number}") for number in range(nodes)), plugins=[plugin], cross_check=False)
    runner.find(make_pod("p"))
    runner.cache.add_node(make_node("another") if nodes >= MANY_NODES else make_node("n0"))
    runner.find(make_pod("q"))
    lines = [line for line in logged if line["log_level"] == "warning"]
    assert [line["plugins"] for line in lines] == (["UnsignedByDefault"] if is_reported else [])
