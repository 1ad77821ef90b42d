"""Consolidation: emptied nodes, proven bounds, prices, and pods that keep their nodes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.insight.explain.clusters import Object, node, session
from tests.unit.insight.explain.clusters import pod as bare_pod
from tests.unit.insight.plan.plan_clusters import budget, owned

from moorage.insight.plan.consolidation import PRICE, plan_consolidate
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.plan_model import Plan


def consolidated(*objects: Object, **more: Any) -> Plan:
    with session(*objects) as opened:
        before = sorted((row["pod"], row["node"]) for row in opened.pods())
        plan = plan_consolidate(opened, **more)
        assert sorted((row["pod"], row["node"]) for row in opened.pods()) == before, "the session is unchanged"
    return plan


def priced(name: str, price: float, **more: Any) -> Object:
    content = node(name, **more)
    content["metadata"]["annotations"] = {PRICE: str(price)}
    return content


def test_emptied_nodes_remain_cordoned() -> None:
    plan = consolidated(*(node(f"n{n}", cpu="2") for n in range(4)), *(owned(f"p{n}", on=f"n{n}") for n in range(4)))
    assert plan.feasible
    assert len(plan.summary.nodes_emptied) == 2
    assert sorted(name for step in plan.steps for name in step.cordon) == sorted(plan.summary.nodes_emptied)
    assert all(not step.uncordon for step in plan.steps)
    assert plan.bound is not None
    assert (plan.bound.value, plan.bound.unit, plan.bound.proven) == (2, "nodes", True)


def test_empty_nodes_are_not_filled() -> None:
    plan = consolidated(node("a"), node("b"), node("empty"), owned("p", on="a"), owned("q", on="b"))
    assert {item.node for step in plan.steps for item in step.evict} <= {"a", "b"}
    assert plan.steps[0].evict, "a cordon alone is no step of its own"
    assert len(plan.summary.nodes_emptied) == 2


def test_an_optimal_assignment_is_reached_by_steering() -> None:
    """No node can be emptied into the others; 6+4, 6+4 and 5+5 leave one of the four nodes empty."""
    pytest.importorskip("ortools", reason="needs moorage[solver]")
    sizes = (("6",), ("6",), ("5", "4"), ("5", "4"))
    plan = consolidated(
        *(node(f"n{number}", cpu="10") for number in range(4)),
        *(
            owned(f"p{number}-{at}", on=f"n{number}", requests={"cpu": cpu})
            for number, own in enumerate(sizes)
            for at, cpu in enumerate(own)
        ),
    )
    assert plan.bound is not None
    assert (plan.bound.value, plan.bound.proven, plan.bound.by) == (3, True, "cp-sat")


def test_expensive_nodes_are_emptied_first() -> None:
    nodes = [priced("cheap", 1, cpu="4"), priced("dear", 5, cpu="4")]
    plan = consolidated(*nodes, owned("p", on="cheap"), owned("q", on="dear"), owned("r", on="dear"))
    assert plan.summary.nodes_emptied == ("dear",)
    assert plan.summary.price_saved == 5


def test_the_bound_respects_the_limit_of_moves() -> None:
    pytest.importorskip("ortools", reason="needs moorage[solver]")
    pods = [owned(f"p{number}", on=f"n{number}") for number in range(3)]
    plan = consolidated(*(node(f"n{number}") for number in range(3)), *pods, constraints=Constraints(max_moves=1))
    assert plan.summary.moves == 1
    assert plan.bound is not None
    assert (plan.bound.value, plan.bound.proven) == (2, True)


def test_pods_move_once_if_nodes_are_emptied_together() -> None:
    """One node after another, the pods of n1 would move to n2 first: it has the most free capacity."""
    nodes = [node("n1"), node("n2", cpu="8"), node("n3", cpu="8")]
    stays = bare_pod("stays", on="n3", requests={"cpu": "4"})
    pods = [owned("p", on="n1"), owned("q", on="n2", owner="q", requests={"cpu": "2"}), stays]
    plan = consolidated(*nodes, *pods)
    assert set(plan.summary.nodes_emptied) == {"n1", "n2"}
    assert plan.summary.moves == 2


@pytest.mark.parametrize(
    "stays",
    {
        "no controller": [bare_pod("p", on="n1")],
        "no disruption is allowed": [owned("p", on="n1", labels={"app": "web"}), budget("web", allowed=0)],
        "kept": [owned("p", on="n1", labels={"keep": "me"})],
    }.values(),
)
def test_nodes_with_immovable_pods_are_not_emptied(stays: list[Object]) -> None:
    limits = Constraints(keep=("keep=me",))
    plan = consolidated(node("n1"), node("n2"), *stays, owned("q", on="n2"), constraints=limits)
    assert plan.summary.nodes_emptied == ("n2",)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.lists(st.integers(1, 9), max_size=3), min_size=2, max_size=4))
def test_the_plan_never_beats_its_bound(sizes: list[list[int]]) -> None:
    plan = consolidated(
        *(node(f"n{number}", cpu="27") for number in range(len(sizes))),
        *(
            owned(f"p{number}-{at}", on=f"n{number}", requests={"cpu": str(cpu)})
            for number, own in enumerate(sizes)
            for at, cpu in enumerate(own)
        ),
    )
    used = sum(item.pods_after > 0 for item in plan.nodes)
    assert plan.bound is not None
    assert used >= plan.bound.value
    assert not plan.pending
