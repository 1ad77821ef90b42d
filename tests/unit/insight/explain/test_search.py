"""Combinations of changes, their order, and the limits of the search."""

import pytest
from tests.unit.insight.explain.clusters import (
    CLAIM,
    HARD,
    HOSTNAME,
    NEAR,
    PORT,
    TAINT,
    Object,
    check_changes,
    node,
    outcome,
    pod,
    session,
)

from moorage.insight.explain.pods import explain_pod


def test_scheduling_gate_is_removed() -> None:
    check_changes([node("n1"), pod("p", schedulingGates=[{"name": "example.com/quota"}])], ["gate"])


def test_two_obstacles_need_a_pair_of_changes() -> None:
    with session(node("n1", taints=[TAINT]), pod("p", requests={"cpu": "5"}, nodeSelector={HOSTNAME: "n1"})) as opened:
        (pair,) = explain_pod(opened, "default/p").changes
    assert pair.kind == "pair"
    assert pair.text == ("Tolerate gpu=only:NoSchedule. Lower the cpu request of container main from 5 to 4")


def test_pairs_are_sorted_by_intrusiveness() -> None:
    gate = [{"name": "example.com/quota"}]
    with session(node("n1"), pod("p", requests={"cpu": "5"}, schedulingGates=gate)) as opened:
        offered = explain_pod(opened, "default/p").changes
    assert [change.kind for change in offered] == ["pair", "pair"]
    assert [change.edits[0]["apply"] for change in offered] == ["replace", "patch"]  # its request, then the node


CORDONED = {"unschedulable": True, "taints": [{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}]}
BESIDE_A_CORDON: dict[str, tuple[Object, Object, int]] = {
    "another taint": ({"unschedulable": True, "taints": [TAINT]}, {}, 2),
    "its own taint, and too much cpu": (CORDONED, {"requests": {"cpu": "5"}}, 2),
    "its own taint, another one, and too much cpu": (
        {**CORDONED, "taints": [*CORDONED["taints"], TAINT]},
        {"requests": {"cpu": "5"}},
        3,
    ),
}


@pytest.mark.parametrize(("spec", "pod_spec", "count"), BESIDE_A_CORDON.values(), ids=BESIDE_A_CORDON)
def test_cordon_and_other_obstacles_are_removed_together(spec: Object, pod_spec: Object, count: int) -> None:
    with session(node("n1", **spec), pod("p", **pod_spec)) as opened:
        (change,) = explain_pod(opened, "default/p").changes
    assert change.kind == {2: "pair", 3: "several"}[count]
    assert change.text.count(". ") == count - 1


def test_three_obstacles_need_three_changes() -> None:
    wants = pod("p", requests={"cpu": "5"}, nodeSelector={"disk": "ssd"})
    with session(node("n1", taints=[TAINT]), wants) as opened:
        (change,) = explain_pod(opened, "default/p").changes
    assert change.kind == "several"
    assert change.text == (
        "Tolerate gpu=only:NoSchedule. Remove disk=ssd from its node selector (no node has this label). "
        "Lower the cpu request of container main from 5 to 4"
    )
    assert outcome([node("n1", taints=[TAINT]), wants], change.edits) == ("n1", ())


def test_gates_are_removed_with_two_obstacles() -> None:
    wants = pod("p", requests={"cpu": "5"}, schedulingGates=[{"name": "example.com/quota"}])
    with session(node("n1", taints=[TAINT]), wants) as opened:
        (change,) = explain_pod(opened, "default/p").changes
    assert change.kind == "several"
    assert outcome([node("n1", taints=[TAINT]), wants], change.edits) == ("n1", ())


def test_nodes_with_fewer_obstacles_are_first() -> None:
    """Three changes for one node, two for the other: two are offered."""
    objects = [
        node("n1", taints=[TAINT], labels={"disk": "ssd"}),
        node("n2", taints=[TAINT]),
        pod("p", requests={"cpu": "5"}, nodeSelector={"disk": "ssd"}),
    ]
    with session(*objects) as opened:
        (change,) = explain_pod(opened, "default/p").changes
    assert (change.kind, change.node) == ("pair", "n1")


def test_too_many_obstacles_are_skipped_and_reported() -> None:
    spread = [{"maxSkew": 1, "topologyKey": "rack", "whenUnsatisfiable": HARD, "labelSelector": {}}]
    everything = pod("p", nodeSelector={"disk": "ssd"}, affinity=NEAR, topologySpreadConstraints=spread, volumes=CLAIM)
    everything["spec"]["containers"] = [{**PORT[0], "resources": {"requests": {"cpu": "5"}}}]
    objects = (node("n1", taints=[TAINT]), pod("a", on="n1", containers=PORT), everything)
    with session(*objects) as opened:
        explained = explain_pod(opened, "default/p")
    assert explained.changes == ()
    assert explained.as_data()["stopped"] == (
        "The search for changes is incomplete: every other node has more than 4 problems."
    )
