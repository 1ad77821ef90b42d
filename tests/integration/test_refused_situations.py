"""Workloads whose pods the API server rejects: with the first suggestion, all of their pods are created and fit."""

from typing import Any, Final

import pytest

from moorage.insight.explain.workloads import explain_workload
from moorage.insight.whatif.edits import decode_edit
from moorage.insight.whatif.workload_pods import find_workload
from tests.unit.insight.explain.clusters import Object, node, session

KATA: Final[Object] = {
    "apiVersion": "node.k8s.io/v1",
    "kind": "RuntimeClass",
    "metadata": {"name": "kata"},
    "handler": "kata",
    "overhead": {"podFixed": {"cpu": "250m"}},
    "scheduling": {"nodeSelector": {"runtime": "kata"}},
}
KATA_NODE: Final = node("n1", labels={"runtime": "kata"})


def deployment(resources: Object | None = None, **spec: Any) -> Object:
    container = {"name": "main", "image": "a", "resources": resources or {"requests": {"cpu": "100m"}}}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [container], **spec}}
    content = {"replicas": 2, "selector": {"matchLabels": {"app": "web"}}, "template": template}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}, "spec": content}


def limit_range(kind: str, **limits: Object) -> Object:
    spec = {"limits": [{"type": kind, **limits}]}
    return {"apiVersion": "v1", "kind": "LimitRange", "metadata": {"name": "range"}, "spec": spec}


BURSTING: Final = deployment({"requests": {"cpu": "100m"}, "limits": {"cpu": "1"}})
SITUATIONS: Final[dict[str, tuple[list[Object], str]]] = {
    "the limit exceeds the request by a higher ratio than the namespace permits": (
        [node("n1"), limit_range("Container", maxLimitRequestRatio={"cpu": "4"}), BURSTING],
        "Set requests.cpu of container main to 250m, as the namespace requires",
    ),
    "a ratio requires a limit": (
        [
            node("n1"),
            limit_range("Container", maxLimitRequestRatio={"memory": "2"}),
            deployment({"requests": {"memory": "128Mi"}}),
        ],
        "Set limits.memory of container main to 128Mi, as the namespace requires",
    ),
    "the ratio of the pod is too high": (
        [node("n1"), limit_range("Pod", maxLimitRequestRatio={"cpu": "2"}), BURSTING],
        "Set requests.cpu of container main to 500m, as the namespace requires",
    ),
    "a quota does not permit the request that a ratio requires": (
        [
            *(node("n1"), limit_range("Container", maxLimitRequestRatio={"cpu": "2"}), BURSTING),
            {
                "apiVersion": "v1",
                "kind": "ResourceQuota",
                "metadata": {"name": "q"},
                "spec": {"hard": {"requests.cpu": "400m"}},
            },
        ],
        "Set limits.cpu of container main to 200m, as the namespace requires",
    ),
    "the default limit of the namespace is below the request": (
        [
            node("n1"),
            limit_range("Container", default={"cpu": "500m"}),
            deployment({"requests": {"cpu": "1"}}),
        ],
        "Set limits.cpu of container main to 1, as the namespace requires",
    ),
    "the node selector contradicts the runtime class": (
        [KATA_NODE, KATA, deployment(runtimeClassName="kata", nodeSelector={"runtime": "runc"})],
        "Change runtime in its node selector from runc to kata, as the runtime class kata requires",
    ),
    "the overhead differs from the runtime class": (
        [KATA_NODE, KATA, deployment(runtimeClassName="kata", overhead={"cpu": "1"})],
        "Remove overhead from the pod template: the runtime class kata determines it",
    ),
    "no node has the label that the runtime class adds": (
        [node("n1"), KATA, deployment(runtimeClassName="kata")],
        "Add the label runtime=kata to node n1, for the runtime class kata",
    ),
}


@pytest.mark.parametrize(("objects", "text"), SITUATIONS.values(), ids=SITUATIONS)
def test_all_pods_fit_with_the_first_suggestion(objects: list[Object], text: str) -> None:
    with session(*objects) as opened:
        workload = find_workload(opened, "deployment/web", "default")
        assert workload is not None
        explanation = explain_workload(opened, workload)
        assert explanation.next is not None
        first = explanation.next.changes[0]
        assert (explanation.fits, first.text) == (0, text)
        opened.apply(*map(decode_edit, first.edits))
        changed = find_workload(opened, "deployment/web", "default")
        assert changed is not None
        assert explain_workload(opened, changed).fits == 2


def test_missing_runtime_class_is_created() -> None:
    with session(KATA_NODE, KATA, deployment(runtimeClassName="gvisor")) as opened:
        workload = find_workload(opened, "deployment/web", "default")
        assert workload is not None
        explanation = explain_workload(opened, workload)
    assert explanation.next is not None
    (change,) = explanation.next.changes
    assert change.text == "Create the runtime class gvisor, if the nodes have its handler, or correct runtimeClassName"


def test_job_is_replaced_because_its_template_is_immutable() -> None:
    job = {**deployment(), "apiVersion": "batch/v1", "kind": "Job"}
    job["spec"] = {"template": {"spec": {**job["spec"]["template"]["spec"], "restartPolicy": "Never"}}}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "q"},
        "spec": {"hard": {"limits.cpu": "4"}},
    }
    with session(node("n1"), quota, job) as opened:
        workload = find_workload(opened, "job/web", "default")
        assert workload is not None
        explanation = explain_workload(opened, workload)
    assert explanation.next is not None
    assert explanation.next.changes[0].edits[0]["apply"] == "replace"
