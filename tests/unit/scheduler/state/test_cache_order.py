"""The order in which nodes are visited: one of each zone in turn."""

from collections.abc import Callable

import pytest

from moorage.scheduler.state.cache import NodeTree
from moorage.testing import make_node

CASES: dict[str, tuple[list[tuple[str, str]], Callable[[NodeTree], None], list[str]]] = {
    "no node": ([], lambda _: None, []),
    "one zone: as they came": ([("c", "z"), ("a", "z"), ("b", "z")], lambda _: None, ["c", "a", "b"]),
    "zones take turns": (
        [("a1", "a"), ("a2", "a"), ("b1", "b"), ("a3", "a"), ("b2", "b"), ("c1", "c")],
        lambda _: None,
        ["a1", "b1", "c1", "a2", "b2", "a3"],
    ),
    "nodes without a zone are a zone": (
        [("n1", ""), ("a1", "a"), ("n2", "")],
        lambda _: None,
        ["n1", "a1", "n2"],
    ),
    "an emptied zone loses its turn": (
        [("a1", "a"), ("b1", "b"), ("b2", "b")],
        lambda tree: (tree.remove("a1"), tree.add(make_node("a2", zone="a")))[0],
        ["b1", "a2", "b2"],
    ),
    "a node that moves goes to the end of its new zone": (
        [("a1", "a"), ("a2", "a"), ("b1", "b")],
        lambda tree: tree.update(make_node("a1", zone="b")),
        ["a2", "b1", "a1"],
    ),
    "a node that stays keeps its place": (
        [("a1", "a"), ("a2", "a")],
        lambda tree: tree.update(make_node("a1", zone="a")),
        ["a1", "a2"],
    ),
}


@pytest.mark.parametrize(("nodes", "change", "order"), CASES.values(), ids=CASES)
def test_visiting_order(nodes: list[tuple[str, str]], change: Callable[[NodeTree], None], order: list[str]) -> None:
    tree = NodeTree()
    for name, zone in nodes:
        tree.add(make_node(name, zone=zone))
    change(tree)
    assert tree.names() == order
