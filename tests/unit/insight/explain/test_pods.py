"""Explanations of single pods."""

import pytest
from tests.support.gangs import COSCHEDULING
from tests.unit.insight.explain.clusters import TAINT, Object, node, pod, session
from tests.unit.insight.explain.parts import claim, storage_class

from moorage import CycleState, FilterPlugin, NodeInfo, Pod, Status
from moorage.insight.explain.pods import explain_pod
from moorage.insight.whatif.session import Session
from moorage.kube.manifests import to_documents
from moorage.kube.patches import json_patch
from moorage.scheduler.wiring.policy import collect_plugins, load_policy


def test_explanation_is_restricted_to_one_node() -> None:
    objects = (node("n1"), node("n2", taints=[TAINT]), pod("p", requests={"cpu": "5"}))
    with session(*objects) as opened:
        explained = explain_pod(opened, "default/p", node="n2")
    assert [change.kind for change in explained.changes] == ["pair"]
    assert list(explained.decision.nodes) == ["n2"]


WITH_GPU = {"status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10", "example.com/gpu": "1"}}}
DECISIVE = {
    "nodes that are closed to the pod are ignored": (
        (
            node("n1"),
            *(node(f"t{number}", taints=[TAINT]) for number in range(3)),
            pod("web", on="n1", requests={"cpu": "3"}),
        ),
        {"cpu": "2"},
        "Insufficient cpu",
    ),
    "nodes without the resource are ignored": (
        (node("n1"), node("n2"), {**node("g1", taints=[TAINT]), **WITH_GPU}),
        {"example.com/gpu": "1"},
        "node(s) had untolerated taint(s)",
    ),
    "the most frequent reason counts if no node could run the pod": (
        (node("n1"), node("n2"), node("t1", taints=[TAINT])),
        {"cpu": "9"},
        "Insufficient cpu",
    ),
}


def test_change_of_an_ephemeral_volume_is_a_change_of_the_pod() -> None:
    """The volume controller creates the claim from the pod, so that an edit of the claim would be lost."""
    wish = claim("p-scratch", storage_class="fsat")
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": wish["spec"]}}}
    waiting = pod("p", volumes=[volume])
    waiting["metadata"]["uid"] = "u"
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u", "controller": True}
    wish["metadata"]["ownerReferences"] = [owner]
    with session(node("n1"), storage_class("fast"), wish, waiting, honors_nominations=True) as opened:
        change = explain_pod(opened, "default/p").changes[0]
    assert change.text == "Change the storage class of the ephemeral volume scratch from fsat to fast"
    (edit,) = change.edits
    assert edit["object"]["kind"] == "Pod"
    template = json_patch(waiting, edit["patch"])["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]
    assert template["spec"]["storageClassName"] == "fast"


@pytest.mark.parametrize(("objects", "requests", "reason"), DECISIVE.values(), ids=DECISIVE)
def test_decisive_reason_is_first(objects: tuple[Object, ...], requests: dict[str, str], reason: str) -> None:
    with session(*objects, pod("p", requests=requests)) as opened:
        assert explain_pod(opened, "default/p").reasons[0].reason == reason


CONFIG = COSCHEDULING.replace("{ARGS}", "{}")


def gang(count: int, size: str) -> list[Object]:
    pods = [pod(f"ring-{number}") for number in range(count)]
    for manifest in pods:
        manifest["metadata"]["annotations"] = {"moorage.io/gang": "ring", "moorage.io/gang-size": size}
    return pods


def test_closed_nodes_are_ignored_if_no_node_matches() -> None:
    """Opening the nodes would not help."""
    closed = (node(f"t{number}", taints=[TAINT]) for number in range(3))
    with session(*closed, node("n1"), pod("p", nodeSelector={"disk": "ssd"})) as opened:
        first = explain_pod(opened, "default/p").reasons[0]
    assert (first.reason, first.nodes) == ("node(s) didn't match Pod's node affinity/selector", 1)


def test_gang_with_missing_pods_reports_it() -> None:
    with session(node("n1"), *gang(2, "3"), config=CONFIG) as cluster:
        explanation = explain_pod(cluster, "default/ring-0")
    assert not explanation.decision.node
    assert explanation.decision.message == 'the group "ring" requires 3 pods, but only 2 exist'
    assert explanation.group == {"name": "ring", "members": 2, "fits": 2, "minCount": 3}


def test_gang_that_does_not_fit_reports_how_many_pods_fit() -> None:
    with session(node("n1"), *gang(6, "6"), config=CONFIG) as cluster:
        explanation = explain_pod(cluster, "default/ring-0")
    assert not explanation.decision.node
    assert "minMember (6) cannot be satisfied" in explanation.decision.message
    assert explanation.group == {"name": "ring", "members": 6, "fits": 4, "minCount": 6}


def test_gang_that_fits_is_placed() -> None:
    with session(node("n1"), *gang(3, "3"), config=CONFIG) as cluster:
        explanation = explain_pod(cluster, "default/ring-0")
    assert explanation.decision.node == "n1"


def test_pod_of_another_scheduler_is_explained_like_ours() -> None:
    with session(node("n1"), pod("p", schedulerName="volcano", requests={"cpu": "8"})) as opened:
        explained = explain_pod(opened, "default/p")
    assert explained.notes[0].startswith("another scheduler is responsible: schedulerName is volcano")
    assert explained.decision.profile == "volcano"
    assert explained.changes[0].text == "Lower the cpu request of container main from 8 to 4"


def test_error_of_a_plugin_is_reported_for_a_scheduled_pod() -> None:
    class Raising(FilterPlugin):
        def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            raise ValueError("no such rack")

    policy = load_policy(collect_plugins((Raising,)), enabled=(Raising,))
    objects = (node("n1"), pod("p", on="n1", requests={"cpu": "1"}))
    with Session(to_documents(objects, source="the test"), policy) as opened:
        explained = explain_pod(opened, "default/p")
    assert explained.is_bound
    assert any("Raising.filter raised ValueError: no such rack (test_pods.py:" in note for note in explained.notes)


def test_error_of_a_plugin_in_the_trials_of_changes_is_reported() -> None:
    class Raising(FilterPlugin):
        def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
            raise ValueError("no such rack")

    policy = load_policy(collect_plugins((Raising,)), enabled=(Raising,))
    objects = (node("n1"), pod("p", requests={"cpu": "8"}))  # the scheduler rejects the node before it calls the plugin
    with Session(to_documents(objects, source="the test"), policy) as opened:
        explained = explain_pod(opened, "default/p")
    reported = "Raising.filter raised ValueError: no such rack (test_pods.py:"
    assert explained.decision.message.startswith("0/1 nodes are available: 1 Insufficient cpu")
    assert [note.startswith(reported) for note in explained.notes] == [True]
    assert explained.as_data()["notes"][0].endswith("or disable it in the profile default-scheduler")
