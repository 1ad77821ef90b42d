"""Every trial leaves a session unchanged: random clusters, all pods explained, and no pod moved."""

import pytest
from tests.conformance.generator import generate
from tests.conformance.ours import BASE_GATES, REGISTRY, config_of
from tests.unit.insight.explain.clusters import node, pod, session

from moorage.common.errors import InputError
from moorage.insight.explain.pods import explain_pod
from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId, PatchObject
from moorage.insight.whatif.session import Session
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import documents_of
from moorage.scheduler.wiring.policy import Policy

FEATURES = (frozenset[str](), frozenset({"volumes", "devices"}))


def state_of(opened: Session) -> object:
    rows = {
        info.name: (
            {pod.key: pod.metadata.resource_version for pod in info.pods.values()},
            {name: amount for name, amount in info.requested.items() if amount},
            info.node,
        )
        for info in opened.scheduler.cache.nodes
    }
    objects = {kind: opened.objects.known(kind) for kind in ("Pod", "Node", "PersistentVolumeClaim", "PriorityClass")}
    return rows, {kind: set(names) for kind, names in objects.items()}


@pytest.mark.parametrize("features", FEATURES, ids=["plain", "volumes and devices"])
@pytest.mark.parametrize("number", range(6))
def test_explaining_leaves_no_trace(features: frozenset[str], number: int) -> None:
    case = generate(f"traces/{number}", features=features)
    gates = FeatureGates({**BASE_GATES, **case.feature_gates})
    policy = Policy(config_of(case, gates), REGISTRY, gates)
    with Session(documents_of(case.objects, source="a case"), policy) as opened:
        waiting = [p for p in opened.objects.given.pending if p.scheduler_name in opened.scheduler.runners]
        before = state_of(opened), [opened.try_pod(p.key, in_detail=True).decision for p in waiting]
        for waits in waiting:
            explain_pod(opened, waits.key, seconds=2.0)
        assert (state_of(opened), [opened.try_pod(p.key, in_detail=True).decision for p in waiting]) == before


def test_a_branch_can_hold_placements_and_edits() -> None:
    with session(node("n1", cpu="2"), pod("a"), pod("b"), pod("c")) as opened:
        before = state_of(opened)
        with opened.branch():
            assert [opened.place(f"default/{name}").node for name in "abc"] == ["n1", "n1", ""]
            opened.apply(CreateObject(node("n2")))
            assert opened.place("default/c").node == "n2"
            with opened.branch():
                opened.apply(PatchObject(ObjectId("Node", "", "n2"), ({"op": "remove", "path": "/metadata/labels"},)))
        assert state_of(opened) == before
        assert opened.try_pod("default/c").node == "n1"


BAD_EDITS = {
    "a pod that is not there": (DeleteObject(ObjectId("Pod", "default", "aa")), "did you mean 'default/a'"),
    "a node that is there": (CreateObject(node("n1")), "there is an object of that name already"),
    "a place that is not there": (
        PatchObject(ObjectId("Node", "", "n1"), ({"op": "remove", "path": "/spec/x"},)),
        "nothing is at",
    ),
    "another name": (
        PatchObject(ObjectId("Node", "", "n1"), ({"op": "replace", "path": "/metadata/name", "value": "n2"},)),
        "keeps its kind and its name",
    ),
}


@pytest.mark.parametrize(("edit", "told"), BAD_EDITS.values(), ids=BAD_EDITS)
def test_edits_that_cannot_be_made_change_nothing(edit: DeleteObject | CreateObject | PatchObject, told: str) -> None:
    with session(node("n1"), pod("a")) as opened:
        before = state_of(opened)
        with pytest.raises(InputError, match=told):
            opened.apply(CreateObject(node("n9")), edit)
        assert state_of(opened) == before


def test_nominations_of_other_pods_count_only_if_honoured() -> None:
    nominated = {**pod("first", requests={"cpu": "4"}, priority=10), "status": {"nominatedNodeName": "n1"}}
    for honours, expected in ((True, ""), (False, "n1")):
        with session(node("n1"), nominated, pod("a"), honours_nominations=honours) as opened:
            assert opened.try_pod("default/a").node == expected


def test_attempt_is_printed_in_one_line() -> None:
    """In a notebook it is what one sees: where the pod went, or why not."""
    with session(node("n1"), pod("p"), pod("big", requests={"cpu": "9"})) as opened:
        assert repr(opened.try_pod("default/p")) == "Attempt(pod='default/p', node='n1')"
        assert repr(opened.try_pod("default/big")).startswith("Attempt(pod='default/big', message='0/1 nodes are")
