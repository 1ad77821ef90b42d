"""Pre-filters: who narrows, who rejects, and in which words."""

from collections.abc import Hashable
from contextlib import suppress
from typing import Any, ClassVar

import pytest
from tests.support.engine import build_runner, feasible_nodes

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.cycle.filter import Rotation
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import NoNode, SearchResult, SeveralNodes
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, NodeNames, Plugin, PreFilterPlugin
from moorage.scheduler.framework.status import Code, Status
from moorage.testing import make_node, make_pod

NODES = tuple(make_node(name) for name in "abc")


class OnlyAB(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> NodeNames:
        return NodeNames(frozenset("ab"))


class OnlyBC(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> NodeNames:
        return NodeNames(frozenset("bc"))


class OnlyC(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> NodeNames:
        return NodeNames(frozenset("c"))


class Never(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> Status:
        return Status.unresolvable("not this pod")


class NotNow(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> Status:
        return Status.unschedulable("not now")


class LaterNotNow(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> Status:
        return Status.unschedulable("later, perhaps")


class Skips(PreFilterPlugin, FilterPlugin):
    def pre_filter(self, *_: Any) -> Status:
        return Status.skip()

    def filter(self, *_: Any) -> Status:
        raise AssertionError("a plugin that skipped is not asked")


def find(*plugins: type[Plugin]) -> SearchResult:
    return build_runner(*NODES, plugins=plugins).find(make_pod("p"))


def feasible(result: SearchResult) -> list[str]:
    return feasible_nodes(build_runner(*NODES), result)


def test_narrowed_sets_are_intersected_and_other_nodes_are_rejected() -> None:
    result = find(OnlyAB, OnlyBC)
    assert feasible(result) == ["b"]
    assert result.diagnosis.statuses["a"] == Status.unresolvable("node(s) didn't satisfy plugin(s) [OnlyAB OnlyBC]")
    assert result.diagnosis.unschedulable_plugins == {"OnlyAB", "OnlyBC"}


class OnlyOne(FilterPlugin):
    """Rejects one node, and narrows the search to the named nodes."""

    refused: ClassVar[str] = ""

    def filter(self, _cycle: CycleState, _pod: Pod, node: NodeInfo) -> Status | None:
        assert node.name == "c", "no other node was named"
        return Status.unschedulable("no room") if node.name == self.refused else None


class FullC(OnlyOne):
    refused = "c"


class OnlyGone(PreFilterPlugin):
    def pre_filter(self, *_: Any) -> NodeNames:
        return NodeNames(frozenset({"gone"}))


ONE_NAMED = {
    "it will do": ((OnlyC, OnlyOne), ["c"], {"OnlyC"}, "0/3 nodes are available: 3 {}."),
    "it is full": ((OnlyC, FullC), [], {"OnlyC", "FullC"}, "0/3 nodes are available: 1 no room, 2 {}."),
    "it is not there": ((OnlyGone, OnlyOne), [], {"OnlyGone"}, "0/3 nodes are available: 3 {}."),
}


@pytest.mark.parametrize(("plugins", "names", "blamed", "message"), ONE_NAMED.values(), ids=ONE_NAMED)
def test_pod_with_one_named_node_checks_only_that_node(
    plugins: tuple[type[Plugin], ...], names: list[str], blamed: set[str], message: str
) -> None:
    runner = build_runner(*NODES, plugins=plugins)
    for turn in (1, 2):
        result = runner.find(make_pod(f"p{turn}"))
        assert feasible_nodes(runner, result) == names
        assert result.diagnosis.unschedulable_plugins == blamed
        absent = f"node(s) didn't satisfy plugin(s) [{plugins[0].__name__}]"
        assert result.diagnosis.message == message.format(absent)
    examined = 0 if plugins[0] is OnlyGone else 2
    assert runner.filtering.rotation.start == examined, "the next search goes on behind the nodes that were looked at"


EMPTY = {
    "two that exclude each other": (
        (OnlyAB, OnlyC),
        "0/3 nodes are available: node(s) didn't satisfy plugin(s) [OnlyAB OnlyC] simultaneously.",
        {"OnlyAB", "OnlyC"},
    ),
    "an unresolvable rejection ends it": (
        (Never, OnlyAB),
        "0/3 nodes are available: not this pod.",
        {"Never"},
    ),
    "a rejection for now lets the others run, and the last one counts": (
        (NotNow, LaterNotNow),
        "0/3 nodes are available: later, perhaps.",
        {"LaterNotNow"},
    ),
    "an unresolvable rejection precedes an earlier unschedulable one": (
        (NotNow, Never),
        "0/3 nodes are available: not this pod.",
        {"Never"},
    ),
}


@pytest.mark.parametrize(("plugins", "message", "blamed"), EMPTY.values(), ids=EMPTY)
def test_rejections(plugins: tuple[type[Plugin], ...], message: str, blamed: set[str]) -> None:
    result = find(*plugins)
    assert isinstance(result, NoNode)
    assert result.diagnosis.message == message
    assert result.diagnosis.unschedulable_plugins == blamed


def test_every_node_gets_the_status_of_the_pre_filter() -> None:
    assert {find(NotNow).diagnosis.statuses[name].code for name in "abc"} == {Code.UNSCHEDULABLE}


def test_filter_is_not_called_after_pre_filter_skips() -> None:
    assert feasible(find(Skips)) == ["a", "b", "c"]


class Records(PreFilterPlugin, FilterPlugin):
    """Records its calls, and stores a value."""

    calls: ClassVar[list[str]] = []
    key: ClassVar[StateKey[str]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.key = StateKey(cls.__name__)

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: Any) -> Any:
        self.calls.append(self.name)
        cycle[self.key] = self.name
        return None

    def filter(self, *_: Any) -> Status | None:
        return None


class Asked(Records):
    """Has no cached result: it is called for every pod."""


class Kept(Records):
    """Has a cached result."""

    def sign(self, pod: Pod) -> Hashable:
        return ()


class KeptToo(Kept):
    """Has a cached result too."""


class Refuses(Kept):
    """Rejects pods named so."""

    def sign(self, pod: Pod) -> Hashable:
        return pod.name

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: Any) -> Any:
        super().pre_filter(cycle, pod, nodes)
        return Status.unresolvable("not this one") if pod.name == "refused" else None


class FailsAfterwards(Records):
    """Fails at a node, so that nodes are filtered one by one."""

    def filter(self, *_: Any) -> Status | None:
        raise RuntimeError("no")


def asked(runner: ProfileRunner, pod: Pod) -> list[str]:
    Records.calls.clear()
    with suppress(PluginError):
        runner.find(pod)
    return list(Records.calls)


def test_pre_filters_are_called_once_per_cycle_in_profile_order() -> None:
    runner = build_runner(*NODES, plugins=[Kept, Asked, KeptToo], cross_check=False)
    assert asked(runner, make_pod("first")) == ["Kept", "Asked", "KeptToo"]
    assert asked(runner, make_pod("second")) == ["Asked"]


def test_filter_error_does_not_repeat_pre_filters() -> None:
    runner = build_runner(*NODES, plugins=[Kept, FailsAfterwards], cross_check=False)
    assert asked(runner, make_pod("first")) == ["Kept", "FailsAfterwards"]


def test_plugins_after_a_rejection_are_not_called_and_store_nothing() -> None:
    runner = build_runner(*NODES, plugins=[Kept, Refuses, Asked, KeptToo], cross_check=False)
    for name in ("refused", "welcome", "refused"):
        before = asked(runner, make_pod(name))
        state = runner.find(make_pod(name)).cycle
        stored = [plugin.__name__ for plugin in (Kept, Refuses, Asked, KeptToo) if plugin.key in state]
        if name == "refused":
            assert set(before) <= {"Kept", "Refuses"}
            assert stored == ["Kept", "Refuses"]
        else:
            assert stored == ["Kept", "Refuses", "Asked", "KeptToo"]


ADAPTIVE = dict(
    zip(
        (99, 100, 101, 250, 500, 1000, 2000, 5000, 5624, 5625, 6000, 10000, 15000),
        (99, 100, 100, 120, 230, 420, 680, 500, 337, 281, 300, 500, 750),
        strict=True,
    )
)


def placement(percentage: int | None, nodes: int = 0) -> ProfileRunner:
    return build_runner(*(make_node(f"n{i}") for i in range(nodes)), percentage=percentage)


def several(runner: ProfileRunner, pod: str) -> SeveralNodes:
    result = runner.find(make_pod(pod))
    assert isinstance(result, SeveralNodes)
    return result


@pytest.mark.parametrize(("nodes", "expected"), ADAPTIVE.items())
def test_zero_percent_is_adaptive(nodes: int, expected: int) -> None:
    assert placement(0).filtering.count_to_find(nodes) == expected


@pytest.mark.parametrize(("percentage", "expected"), {1: 100, 5: 100, 50: 500, 100: 1000}.items())
def test_a_written_percentage_counts_with_a_floor_of_100(percentage: int, expected: int) -> None:
    assert placement(percentage).filtering.count_to_find(1000) == expected


def test_default_percentage_evaluates_all_nodes() -> None:
    assert placement(None).filtering.count_to_find(5000) == 5000
    assert default_config().percentage_of_nodes_to_score is None


def test_next_search_starts_at_the_first_surplus_node() -> None:
    limited = placement(50, nodes=250)
    first, second = several(limited, "a"), several(limited, "b")
    assert (first.count, second.count) == (125, 125)
    assert (first.start, second.start) == (0, 125)


def test_looking_at_every_node_leaves_the_start_where_it_is() -> None:
    everything = placement(None, nodes=7)
    assert [several(everything, f"p{i}").start for i in range(3)] == [0, 0, 0]


def test_the_rotation_wraps_around() -> None:
    rotation = Rotation()
    rotation.advance(7, 5)
    assert rotation.start == 2
