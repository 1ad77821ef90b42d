"""Sessions: changes are undone step by step, and trials leave no trace."""

import asyncio
from typing import Any

import pytest
from tests.conformance.generator import generate
from tests.conformance.ours import REGISTRY, make_configuration_for
from tests.unit.insight.explain.clusters import node, pod, session
from tests.unit.insight.whatif.clusters import NODES, Good, read_state
from tests.unit.insight.whatif.clusters import node as good_node
from tests.unit.insight.whatif.clusters import pod as plain_pod

from moorage.common.errors import InputError
from moorage.insight.explain.pods import explain_pod
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId, PatchObject
from moorage.insight.whatif.session import Session
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import Policy

FEATURES = (frozenset[str](), frozenset({"volumes", "devices"}))


@pytest.mark.parametrize("features", FEATURES, ids=["plain", "volumes and devices"])
@pytest.mark.parametrize("number", range(6))
def test_explaining_leaves_no_trace(features: frozenset[str], number: int) -> None:
    case = generate(f"traces/{number}", features=features)
    gates = FeatureGates({"SchedulerAsyncPreemption": False, **case.feature_gates})
    policy = Policy(make_configuration_for(case, gates), REGISTRY, gates)
    with Session(to_documents(case.objects, source="a case"), policy) as opened:
        waiting = [p for p in opened.objects.given.pending if p.scheduler_name in opened.scheduler.runners]
        before = read_state(opened), [opened.try_pod(p.key, in_detail=True).decision for p in waiting]
        for waits in waiting:
            explain_pod(opened, waits.key, seconds=2.0)
        assert (read_state(opened), [opened.try_pod(p.key, in_detail=True).decision for p in waiting]) == before


def test_branch_undoes_placements_and_edits() -> None:
    with session(node("n1", cpu="2"), pod("a"), pod("b"), pod("c")) as opened:
        before = read_state(opened)
        with opened.branch():
            assert [opened.place(f"default/{name}").node for name in "abc"] == ["n1", "n1", ""]
            opened.apply(CreateObject(node("n2")))
            assert opened.place("default/c").node == "n2"
            with opened.branch():
                opened.apply(PatchObject(ObjectId("Node", "", "n2"), ({"op": "remove", "path": "/metadata/labels"},)))
        assert read_state(opened) == before
        assert opened.try_pod("default/c").node == "n1"


def test_nominations_of_other_pods_count_only_if_enabled() -> None:
    nominated = {**pod("first", requests={"cpu": "4"}, priority=10), "status": {"nominatedNodeName": "n1"}}
    for honors, expected in ((True, ""), (False, "n1")):
        with session(node("n1"), nominated, pod("a"), honors_nominations=honors) as opened:
            assert opened.try_pod("default/a").node == expected


def test_place_and_undo_step_by_step() -> None:
    with Session.open(*NODES, plain_pod("one", cpu="4")) as session:
        first = session.place("one")
        second = session.place(plain_pod("two", cpu="4"))
        assert len({first.node, second.node} - {""}) == 2
        assert {row["node"] for row in session.pods()} == {first.node, second.node}
        session.apply(DeleteObject(ObjectId("Node", "", "a")))
        assert len(session.filter(plain_pod("x"))) == 3
        session.undo()
        assert len(session.filter(plain_pod("x"))) == 4
        session.undo()
        assert [(row["pod"], row["node"]) for row in session.pods()] == [("default/one", first.node)]
        session.undo()
        assert [row["node"] for row in session.pods()] == [""]
        with pytest.raises(InputError, match="nothing to undo"):
            session.undo()


def test_a_pod_is_placed_once() -> None:
    with Session.open(*NODES, plain_pod("old", nodeName="b"), plain_pod("one")) as session:
        node_name = session.place("one").node
        for name, where in (("one", node_name), ("old", "b")):
            with pytest.raises(InputError, match=f"Pod default/{name}: already on node {where}"):
                session.place(name)
        session.undo()
        assert session.place("one").node == node_name


def test_terminating_pod_is_rejected() -> None:
    going = plain_pod("going")
    going["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    with Session.open(*NODES, going) as session, pytest.raises(InputError, match="the pod is being deleted"):
        session.place("going")


def test_attempt_without_effect_is_not_a_step() -> None:
    with Session.open(*NODES, plain_pod("big", cpu="99")) as session:
        assert session.place("big").node == ""
        with pytest.raises(InputError, match="nothing to undo"):
            session.undo()


def test_branch_changes_are_not_undone_twice() -> None:
    with Session.open(*NODES, plain_pod("web")) as session:
        session.place(plain_pod("other"))
        with session.branch():
            session.place("web")
        session.undo()
        assert [row["node"] for row in session.pods()] == [""]


def test_session_works_inside_a_running_event_loop() -> None:
    async def cell() -> tuple[list[dict[str, Any]], str]:
        session = Session.open(*NODES, plain_pod("web"), plugins=[Good])
        try:
            return session.score("web", "Good"), session.place("web").node
        finally:
            session.close()

    rows, placed = asyncio.run(cell())
    assert [row["node"] for row in rows] == ["d", "c", "b"]
    assert placed


BAD: dict[str, tuple[Any, str]] = {
    "a pod that is not there": (lambda session: session.filter("webb"), "did you mean 'default/web'"),
    "a plugin that is not there": (lambda session: session.filter("web", "Goodd"), "did you mean 'Good'"),
    "a plugin that does not score": (
        lambda session: session.score("web", "NodeUnschedulable"),
        "no plugin 'NodeUnschedulable' that scores",
    ),
    "something that is not a pod": (lambda session: session.place(good_node("z", 1)), "Node z: not a Pod"),
    "a pod of another scheduler": (
        lambda session: session.filter(plain_pod("x", schedulerName="other")),
        "no profile for schedulerName 'other'",
    ),
}


@pytest.mark.parametrize(("ask", "message"), BAD.values(), ids=BAD)
def test_invalid_query_is_one_message_and_changes_nothing(ask: Any, message: str) -> None:
    with Session.open(*NODES, plain_pod("web"), plugins=[Good]) as session:
        with pytest.raises(InputError) as refusal:
            ask(session)
        assert message in str(refusal.value)
        assert [row["pod"] for row in session.pods()] == ["default/web"]
