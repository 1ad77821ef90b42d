"""Workloads: how many pods fit, and changes that help the next one without harming earlier ones."""

import pytest
from tests.unit.insight.explain.clusters import Object, node, pod, session

from moorage.common.errors import InputError
from moorage.insight.explain.explanation import WorkloadExplanation
from moorage.insight.explain.workloads import explain_workload
from moorage.insight.whatif.workload_pods import find_workload
from moorage.kube.patches import json_patch

TEMPLATE: Object = {
    "metadata": {"labels": {"app": "web"}},
    "spec": {"containers": [{"name": "main", "image": "app", "resources": {"requests": {"cpu": "2"}}}]},
}
WEB: Object = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web"},
    "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
}


def explained(*objects: Object) -> WorkloadExplanation:
    with session(WEB, *objects) as opened:
        workload = find_workload(opened, "deployment/web", "default")
        assert workload is not None
        return explain_workload(opened, workload)


def test_no_pod_of_a_workload_is_deleted_for_another_one() -> None:
    """The deleted pod would be recreated, and be pending instead."""
    running = pod("web-x", on="n1", labels={"app": "web"}, requests={"cpu": "2"})
    explanation = explained(node("n1"), node("n2"), running)
    assert (explanation.fits, explanation.of) == (4, 5)
    assert explanation.next is not None
    assert [change.kind for change in explanation.next.changes] == ["add-node", "node-capacity", "request"]


def test_other_pods_may_be_deleted() -> None:
    explanation = explained(node("n1"), node("n2"), pod("other", on="n2", requests={"cpu": "4"}))
    assert (explanation.fits, explanation.of) == (2, 5)
    assert explanation.next is not None
    deleted_pods = [
        edit["delete"]["name"] for change in explanation.next.changes for edit in change.edits if "delete" in edit
    ]
    assert deleted_pods == ["other"]


def test_other_kinds_are_rejected() -> None:
    with session(WEB) as opened, pytest.raises(InputError, match="a DaemonSet cannot be scheduled"):
        find_workload(opened, "ds/agent", "default")


def test_a_namespace_may_be_called_like_a_kind() -> None:
    pending_pod = pod("p")
    pending_pod["metadata"]["namespace"] = "service"
    with session(pending_pod) as opened:
        assert find_workload(opened, "service/p", "default") is None


def test_pod_of_another_namespace_is_suggested() -> None:
    pending_pod = pod("big")
    pending_pod["metadata"]["namespace"] = "shop"
    with session(pending_pod, pod("bug")) as opened, pytest.raises(InputError, match="there is 'shop/big'"):
        opened.pod("default/big")


def quota(**hard: str) -> Object:
    names = {name.replace("_", "."): amount for name, amount in hard.items()}
    metadata = {"name": "compute", "namespace": "default"}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": names}}


def limit_range(name: str = "range", **limits: Object) -> Object:
    spec = {"limits": [{"type": "Container", **limits}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": name}, "spec": spec}


REFUSED: dict[str, tuple[list[Object], int, str, str]] = {
    "a quota of requests": ([quota(requests_cpu="4")], 2, "exceeded quota: compute", "Raise requests.cpu from 4 to 10"),
    "a quota of pods": ([quota(pods="3")], 3, "exceeded quota: compute", "Raise pods from 3 to 5 in the quota compute"),
    "a quota with the name of a limit range": (
        [limit_range("compute", defaultRequest={"memory": "1Mi"}), quota(pods="3")],
        3,
        "exceeded quota: compute",
        "Raise pods from 3 to 5 in the quota compute",
    ),
    "a quota that requires limits": (
        [quota(limits_memory="8Gi")],
        0,
        "must specify limits.memory",
        "Set limits.memory",
    ),
    "a limit range": (
        [limit_range(max={"cpu": "1"})],
        0,
        "maximum cpu usage per Container is 1",
        "Set requests.cpu of container main to 1 and limits.cpu of container main to 1",
    ),
}


@pytest.mark.parametrize(("objects", "fits", "message", "change"), REFUSED.values(), ids=REFUSED)
def test_rejected_pods_are_explained(objects: list[Object], fits: int, message: str, change: str) -> None:
    explanation = explained(node("n1", cpu="64"), *objects)
    assert (explanation.fits, explanation.of, explanation.is_refused) == (fits, 5, True)
    assert explanation.next is not None
    assert message in explanation.next.decision.message
    assert explanation.next.changes[0].text.startswith(change)
    assert explanation.next.changes[0].node == "n1"


def test_pods_that_exist_use_the_quota() -> None:
    running = [pod(f"web-{number}", on="n1", labels={"app": "web"}, requests={"cpu": "2"}) for number in range(2)]
    other = pod("other", on="n1", requests={"cpu": "1"})
    explanation = explained(node("n1", cpu="64"), *running, other, quota(pods="4"))
    assert (explanation.fits, explanation.is_refused) == (3, True)


def test_default_requests_of_a_limit_range_count() -> None:
    web: Object = {**WEB, "spec": {**WEB["spec"], "template": {**TEMPLATE, "spec": {"containers": [{"name": "main"}]}}}}
    with session(web, node("n1"), limit_range(defaultRequest={"cpu": "2"})) as opened:
        workload = find_workload(opened, "deployment/web", "default")
        assert workload is not None
        explanation = explain_workload(opened, workload)
    assert (explanation.fits, explanation.is_refused) == (2, False)
    assert explanation.next is not None
    edit = next(change for change in explanation.next.changes if change.kind == "request").edits[0]
    assert json_patch(web, edit["patch"])["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]


def test_reported_failure_of_a_replica_set_is_explained() -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": "admission webhook denied the request"}
    owner = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "w", "controller": True}
    replica_set: Object = {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": "web-1", "ownerReferences": [owner]},
        "spec": {"replicas": 5, "selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE},
        "status": {"conditions": [condition]},
    }
    explanation = explained(node("n1", cpu="64"), replica_set)
    assert (explanation.fits, explanation.is_refused) == (0, True)
    assert explanation.next is not None
    assert explanation.next.decision.message == "admission webhook denied the request"


@pytest.mark.parametrize("labels", [{}, {"kueue.x-k8s.io/queue-name": "team"}])
def test_suspended_job_is_explained(labels: dict[str, str]) -> None:
    job: Object = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "train", "labels": labels}}
    job["spec"] = {"suspend": True, "parallelism": 2, "template": TEMPLATE}
    with session(node("n1"), job) as opened:
        workload = find_workload(opened, "job/train", "default")
        assert workload is not None
        explanation = explain_workload(opened, workload)
    assert explanation.next is not None
    assert (explanation.fits, explanation.of, explanation.is_refused) == (0, 2, True)
    changes = [(change.text, change.node) for change in explanation.next.changes]
    if labels:
        assert (explanation.next.decision.message, changes) == ("the job is suspended; Kueue resumes it", [])
    else:
        assert changes == [("Resume the job: set suspend to false", "n1")]


UNKNOWN_CLASSES: dict[str, tuple[str, list[str]]] = {
    "a misspelt class": ("hgih", ["Change priorityClassName from hgih to high", "Create the priority class hgih"]),
    "another class": ("urgent", ["Create the priority class urgent"]),
}


@pytest.mark.parametrize(("name", "texts"), UNKNOWN_CLASSES.values(), ids=UNKNOWN_CLASSES)
@pytest.mark.parametrize("kind", ["Deployment", "Job"])
def test_unknown_priority_class_is_explained(kind: str, name: str, texts: list[str]) -> None:
    """The first change, applied to the workload or by creating the class, admits the pods."""
    high = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 9}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "priorityClassName": name}}
    workload = {**WEB, "kind": kind, "spec": {**WEB["spec"], "parallelism": 1, "template": template}}
    if kind == "Job":
        workload |= {"apiVersion": "batch/v1", "spec": {"parallelism": 1, "template": template}}
    objects = [workload, node("n1"), high]

    def explain(*objects: Object) -> WorkloadExplanation:
        with session(*objects) as opened:
            named = find_workload(opened, f"{kind.lower()}/web", "default")
            assert named is not None
            return explain_workload(opened, named)

    explanation = explain(*objects)
    assert explanation.is_refused
    assert explanation.next is not None
    assert explanation.next.decision.message == f"no PriorityClass with name {name} was found"
    changes = explanation.next.changes
    assert [change.text for change in changes] == texts
    (edit,) = changes[0].edits
    if "create" in edit:
        assert explain(*objects, edit["create"]).fits
    else:
        assert explain(json_patch(workload, edit["patch"]), node("n1"), high).fits


def test_system_priority_class_exists() -> None:
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "priorityClassName": "system-node-critical"}}
    with session({**WEB, "spec": {**WEB["spec"], "template": template}}, node("n1")) as opened:
        workload = find_workload(opened, "deployment/web", "default")
        assert workload is not None
        assert explain_workload(opened, workload).fits == 2
