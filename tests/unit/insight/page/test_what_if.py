"""Edit and try: moved pods, and an unchanged session."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.unit.insight.page.clusters import SMALL, loaded, node, pod, policy

from moorage.common.errors import InputError
from moorage.insight.page.question_handlers import answer
from moorage.insight.whatif.session import Session

POD = """
apiVersion: v1
kind: Pod
metadata: {name: new, namespace: shop}
spec: {containers: [{name: main, image: new:1, resources: {requests: {cpu: 1}}}]}
"""
DEPLOYMENT = """
apiVersion: apps/v1
kind: Deployment
metadata: {name: many, namespace: shop}
spec:
  selector: {matchLabels: {app: many}}
  template: {metadata: {labels: {app: many}}, spec: {containers: [{name: main, image: m:1}]}}
"""


@pytest.fixture
def session() -> Iterator[Session]:
    contents = (*SMALL[:1], node("n4"), *SMALL[3:5], pod("big-1", "5"))
    with loaded(contents).session(policy()) as opened:
        yield opened


def tried(session: Session, **wish: Any) -> dict[str, Any]:
    result: dict[str, Any] = answer(session, "try", wish)
    return result


def test_pods_of_a_drained_node_move(session: Session) -> None:
    result = tried(session, drain=["n1"])
    moves = {move.pod: (move.before, move.after) for move in result["moves"]}
    assert moves == {"shop/web-1": ("n1", "n4"), "shop/web-2": ("n1", "n4")}
    assert result["load"].requested["cpu"] == [0, 3000]
    assert session.pod("shop/web-1").node_name == "n1"


def test_infeasible_pods_become_pending(session: Session) -> None:
    moves = tried(session, drain=["n1", "n4"])["moves"]
    assert {move.after for move in moves} == {""}
    assert all("unschedulable" in move.text for move in moves)


def test_added_pods_are_placed(session: Session) -> None:
    result = tried(session, drop=POD, copies=7)
    assert [bool(move.after) for move in result["dropped"]] == [True] * 5 + [False] * 2
    assert (result["waitingBefore"], result["waitingAfter"]) == (1, 3)
    with pytest.raises(InputError, match="not found"):
        session.pod("shop/new-1")


def test_workload_represents_its_pods(session: Session) -> None:
    assert [move.pod for move in tried(session, drop=DEPLOYMENT, copies=2)["dropped"]] == ["shop/many-1", "shop/many-2"]


def test_added_pod_with_a_used_name_is_renamed(session: Session) -> None:
    duplicate = POD.replace("name: new,", "name: web-1,")
    assert [move.pod for move in tried(session, drop=duplicate)["dropped"]] == ["shop/web-1-copy"]


def test_suggested_changes_can_be_tried(session: Session) -> None:
    change = answer(session, "pod", {"pod": "shop/big-1"})["changes"][0]
    moves = {move.pod: move.after for move in tried(session, edits=change["edits"])["moves"]}
    assert moves == {"shop/big-1": "n4"}


def test_other_weights_move_pods() -> None:
    liked = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 1, "preference": {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}}
    ]}}  # fmt: skip
    contents = (node("n1", labels={"disk": "ssd"}), node("n2"), pod("x", "3", node="n1"), pod("y", affinity=liked))
    with loaded(contents).session(policy()) as session:
        before = session.try_pod("shop/y").node
        weights = {"default-scheduler": {"NodeResourcesFit": 1000, "NodeResourcesBalancedAllocation": 1}}
        moves = {move.pod: (move.before, move.after) for move in tried(session, weights=weights)["moves"]}
        assert (before, moves["shop/y"]) == ("n1", ("n1", "n2"))
        assert session.try_pod("shop/y").node == "n1"


def test_gated_pod_uses_no_capacity() -> None:
    gated = pod("held", "4", schedulingGates=[{"name": "example.com/quota"}])
    with loaded((node("n1"), gated)).session(policy()) as session:
        result = tried(session, drop=POD, copies=4)
    assert [move.after for move in result["dropped"]] == ["n1"] * 4
    assert (result["waitingBefore"], result["waitingAfter"]) == (1, 1)


BAD: dict[str, tuple[dict[str, Any], str]] = {
    "there is no such node": ({"drain": ["n9"]}, "not found"),
    "invalid YAML": ({"drop": "{"}, "added pods"),
    "there is no pod in it": (
        {"drop": "apiVersion: v1\nkind: Namespace\nmetadata: {name: a}"},
        "contains no Pod or workload",
    ),
    "too many copies": ({"drop": POD, "copies": 501}, "not a number from 1"),
    "no copies": ({"drop": POD, "copies": 0}, "not a number from 1"),
    "there is no such profile": ({"weights": {"other": {"NodeAffinity": 1}}}, "unknown profile"),
    "there is no such plugin": ({"weights": {"default-scheduler": {"Nothing": 1}}}, "no plugin"),
    "a weight is positive": ({"weights": {"default-scheduler": {"NodeAffinity": 0}}}, "not a weight"),
    "an invalid edit": ({"edits": [{"x": 1}]}, "invalid edit"),
    "a node is named by a text": ({"drain": [1]}, "expected a string"),
}


@pytest.mark.parametrize(("wish", "text"), BAD.values(), ids=BAD)
def test_invalid_edit_is_reported(session: Session, wish: dict[str, Any], text: str) -> None:
    with pytest.raises(InputError, match=text):
        tried(session, **wish)
    assert session.pod("shop/web-1").node_name == "n1"
