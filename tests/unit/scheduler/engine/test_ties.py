"""Ties broken by lot or in an order of the nodes, for experiments that are repeated."""

from random import Random

import numpy as np

from moorage.scheduler.engine.ties import RandomTies, TiesInOrder
from moorage.testing import make_node
from moorage.testing.rig import Rig


def test_drawn_ties_choose_each_of_the_rows_and_repeat_with_the_seed() -> None:
    nodes, rows = Rig(*(make_node(f"n{i}") for i in range(5))).nodes, np.array([0, 2, 4])
    draws = [RandomTies(Random(3)) for _ in range(2)]
    selected = [[ties.choose(nodes, rows) for _ in range(50)] for ties in draws]
    assert selected[0] == selected[1]
    assert set(selected[0]) == {0, 2, 4}


def test_ties_select_the_first_name_after_node_changes() -> None:
    rig, ties = Rig(make_node("m"), make_node("z"), make_node("b")), TiesInOrder()

    def choose(*names: str) -> str:
        rows = [info.row for name in names if (info := rig.nodes.find(name)) is not None]
        return rig.nodes[ties.choose(rig.nodes, np.array(rows))].name

    assert (choose("z", "m"), choose("m", "b", "z"), choose("z")) == ("m", "b", "z")
    rig.add(make_node("a"))
    assert choose("z", "a", "b") == "a"
    rig.cache.remove_node("m")  # the last row takes its place
    assert choose("z", "a") == "a"


def test_ties_select_the_first_node_of_another_order() -> None:
    rig, ties = Rig(make_node("m"), make_node("z"), make_node("b")), TiesInOrder("zbm".index)
    assert rig.nodes[ties.choose(rig.nodes, np.arange(3))].name == "z"
    rig.cache.remove_node("z")
    assert rig.nodes[ties.choose(rig.nodes, np.arange(2))].name == "b"
