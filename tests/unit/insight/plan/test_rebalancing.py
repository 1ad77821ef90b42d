"""Rebalancing: misplaced pods, duplicates and hot nodes move to better nodes, and only there."""

from typing import Any

import pytest
from tests.unit.insight.explain.clusters import Object, node, session
from tests.unit.insight.explain.clusters import pod as bare_pod
from tests.unit.insight.plan.plan_clusters import budget, owned

from moorage.common.errors import InputError
from moorage.insight.plan.mobility import Constraints
from moorage.insight.plan.plan_model import Plan
from moorage.insight.plan.rebalancing import plan_rebalance

WEB = {"app": "web"}
TAINT = [{"key": "dedicated", "value": "db", "effect": "NoSchedule"}]
SPREAD = [
    {
        "maxSkew": 1,
        "topologyKey": "topology.kubernetes.io/zone",
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": WEB},
    }
]
APART = {
    "podAntiAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": WEB}}
        ]
    }
}


def rebalanced(*objects: Object, **more: Any) -> Plan:
    with session(*objects) as opened:
        before = sorted((row["pod"], row["node"]) for row in opened.pods())
        plan = plan_rebalance(opened, **more)
        assert sorted((row["pod"], row["node"]) for row in opened.pods()) == before, "the session is unchanged"
    return plan


def moves(plan: Plan) -> list[tuple[str, str]]:
    return [(item.pod.removeprefix("default/"), item.node) for step in plan.steps for item in step.evict]


@pytest.mark.parametrize(
    ("objects", "moved", "reason"),
    {
        "an untolerated taint": ([node("n1", taints=TAINT), node("n2"), owned("p", on="n1")], 1, "taints"),
        "a label that no longer matches": (
            [node("n1"), node("n2", labels={"disk": "ssd"}), owned("p", on="n1", nodeSelector={"disk": "ssd"})],
            1,
            "selector",
        ),
        "anti-affinity": (
            [node("n1"), node("n2"), *(owned(name, on="n1", labels=WEB, affinity=APART) for name in "pq")],
            1,
            "anti-affinity",
        ),
        "spread over zones": (
            [
                node("n1", zone="a", cpu="8"),
                node("n2", zone="b", cpu="8"),
                *(owned(f"p{n}", on="n1", labels=WEB, topologySpreadConstraints=SPREAD) for n in range(4)),
            ],
            2,
            "topology spread",
        ),
        "duplicates": ([node("n1"), node("n2"), owned("p", on="n1"), owned("q", on="n1")], 1, "its controller"),
        "a hot node": (
            [node("n1"), node("n2"), *(owned(f"p{n}", on="n1", owner=f"o{n}") for n in range(4))],
            1,
            "is hot",
        ),
    }.values(),
)
def test_pods_move_to_better_nodes(objects: list[Object], moved: int, reason: str) -> None:
    plan = rebalanced(*objects)
    assert plan.feasible, plan.reason
    assert [where for _, where in moves(plan)] == ["n2"] * moved
    assert all(reason in item.text for step in plan.steps for item in step.evict)


def test_balanced_cluster_is_unchanged() -> None:
    plan = rebalanced(node("n1"), node("n2"), owned("p", on="n1"), owned("q", on="n2"))
    assert (plan.feasible, plan.steps) == (True, ())


def test_duplicates_remain_if_every_node_has_one() -> None:
    plan = rebalanced(
        node("n1"), node("n2"), *(owned(name, on=on) for name, on in (("p", "n1"), ("q", "n1"), ("r", "n2")))
    )
    assert plan.steps == ()
    assert plan.feasible, "duplicates that cannot be avoided are no fault"


@pytest.mark.parametrize(
    ("objects", "reason"),
    {
        "no controller": ([bare_pod("p", on="n1")], "no controller"),
        "no room": ([owned("p", on="n1", requests={"cpu": "3"}), owned("q", on="n2", requests={"cpu": "3"})], "cpu"),
        "no disruption": ([owned("p", on="n1", labels=WEB), budget("web", allowed=0)], "allows no disruption"),
    }.values(),
)
def test_pods_that_cannot_move_are_explained(objects: list[Object], reason: str) -> None:
    plan = rebalanced(node("n1", taints=TAINT), node("n2"), *objects)
    assert not plan.feasible
    assert plan.steps == ()
    assert plan.cannot_move[0].pod == "default/p"
    assert reason in plan.reason


def test_the_limit_of_moves_holds() -> None:
    pods = [owned(f"p{n}", on="n1", owner=f"o{n}") for n in range(4)]
    plan = rebalanced(node("n1", taints=TAINT), node("n2"), *pods, constraints=Constraints(max_moves=2))
    assert len(moves(plan)) == 2
    assert "--max-moves 2" in plan.reason


def test_invalid_shares_are_rejected() -> None:
    with pytest.raises(InputError):
        rebalanced(node("n1"), hot=80)


def prefer(*weights: tuple[str, int]) -> Object:
    terms = [
        {"weight": weight, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": [disk]}]}}
        for disk, weight in weights
    ]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


@pytest.mark.parametrize(
    ("preferences", "capacity", "moved"),
    {
        "another node is favored": ([("ssd", 10)], "4", [("p", "ssd")]),
        "the larger weight decides": ([("ssd", 10), ("hdd", 20)], "4", []),
        "the favored node is full": ([("ssd", 10)], "500m", []),
        "no node is favored": ([("tape", 10)], "4", []),
        "an invalid preference": ([("no label value!", 10)], "4", []),
    }.values(),
)
def test_preferred_node_affinity_is_an_option(
    preferences: list[tuple[str, int]], capacity: str, moved: list[tuple[str, str]]
) -> None:
    nodes = [
        node("hdd", labels={"disk": "hdd"}),
        node("other"),
        node("ssd", cpu=capacity, labels={"disk": "ssd"}),
    ]
    subject = owned("p", on="hdd", affinity=prefer(*preferences))
    assert moves(rebalanced(*nodes, subject)) == []
    plan = rebalanced(*nodes, subject, preferred=True)
    assert plan.feasible, "a preference is no obligation"
    assert moves(plan) == moved
    for step in plan.steps:
        assert step.evict[0].reason == "its preferred node affinity favors another node"
