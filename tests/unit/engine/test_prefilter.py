"""Pre-filters: who narrows, who rejects, and in which words."""

from typing import Any

import pytest
from tests.support.engine import cycle_over, feasible_nodes

from moorage.engine.cycle.found import Found, NoNode
from moorage.framework.plugin import FilterPlugin, NodeNames, Plugin, PreFilterPlugin
from moorage.framework.status import Code, Status
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


def find(*plugins: type[Plugin]) -> Found:
    return cycle_over(*NODES, plugins=plugins).find(make_pod("p"))


def feasible(found: Found) -> list[str]:
    return feasible_nodes(cycle_over(*NODES), found)


def test_narrowed_sets_are_intersected_and_other_nodes_say_so() -> None:
    found = find(OnlyAB, OnlyBC)
    assert feasible(found) == ["b"]
    assert found.diagnosis.statuses["a"] == Status.unresolvable("node(s) didn't satisfy plugin(s) [OnlyAB OnlyBC]")
    assert found.diagnosis.unschedulable_plugins == {"OnlyAB", "OnlyBC"}


EMPTY = {
    "two that exclude each other": (
        (OnlyAB, OnlyC),
        "0/3 nodes are available: node(s) didn't satisfy plugin(s) [OnlyAB OnlyC] simultaneously.",
        {"OnlyAB", "OnlyC"},
    ),
    "a rejection for good ends it at once": ((Never, OnlyAB), "0/3 nodes are available: not this pod.", {"Never"}),
    "a rejection for now lets the others run, and the last one counts": (
        (NotNow, LaterNotNow),
        "0/3 nodes are available: later, perhaps.",
        {"LaterNotNow"},
    ),
    "a later rejection for good goes before one for now": (
        (NotNow, Never),
        "0/3 nodes are available: not this pod.",
        {"Never"},
    ),
}


@pytest.mark.parametrize(("plugins", "message", "blamed"), EMPTY.values(), ids=EMPTY)
def test_rejections(plugins: tuple[type[Plugin], ...], message: str, blamed: set[str]) -> None:
    found = find(*plugins)
    assert isinstance(found, NoNode)
    assert found.diagnosis.message == message
    assert found.diagnosis.unschedulable_plugins == blamed


def test_every_node_gets_the_status_of_the_pre_filter() -> None:
    assert {find(NotNow).diagnosis.statuses[name].code for name in "abc"} == {Code.UNSCHEDULABLE}


def test_a_plugin_that_skips_is_not_asked_to_filter() -> None:
    assert feasible(find(Skips)) == ["a", "b", "c"]
