"""Workloads: how many pods fit, and changes that help the next one without harming earlier ones."""

import pytest
from tests.unit.insight.explain.clusters import HOSTNAME, Object, node, pod, session
from tests.unit.insight.explain.parts import (
    REQUIRED,
    claim,
    controlled,
    device_class,
    device_slice,
    mounting,
    storage_class,
    volume,
)

from moorage.common.errors import InputError
from moorage.insight.explain.explanation import PodExplanation, WorkloadExplanation
from moorage.insight.explain.workloads import explain_workload
from moorage.insight.whatif.workload_pods import EXPLAINED, find_workload
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
    return explained_as("deployment/web", WEB, *objects)


def explained_as(name: str, *objects: Object) -> WorkloadExplanation:
    with session(*objects) as opened:
        workload = find_workload(opened, name, "default", kinds=EXPLAINED)
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


FAILURES: dict[str, tuple[str, str, bool]] = {
    "a missing service account": (
        'error looking up service account default/web: serviceaccount "web" not found',
        "Create the service account web",
        True,
    ),
    "the namespaces of the host": (
        'violates PodSecurity "baseline:latest": host namespaces (hostNetwork=true)',
        "Change the pod template as the baseline policy requires: host namespaces",
        True,
    ),
    "a restricted namespace": (
        'violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false, runAsNonRoot != true',
        "Change the pod template as the restricted policy requires: allowPrivilegeEscalation",
        True,
    ),
    "a webhook that does not respond": (
        'failed calling webhook "check.example.org": Post "https://check.rules.svc:443/x": no endpoints available',
        "Repair the webhook check.example.org: the service check in namespace rules does not respond",
        False,
    ),
    "a webhook that denies": (
        'admission webhook "check.example.org" denied the request: no latest tags',
        "Change the pod template as the webhook check.example.org requires: no latest tags",
        False,
    ),
}


@pytest.mark.parametrize(("message", "text", "has_edits"), FAILURES.values(), ids=FAILURES)
def test_reported_failure_has_a_remedy(message: str, text: str, has_edits: bool) -> None:
    condition = {"type": "ReplicaFailure", "status": "True", "message": f'pods "web-1" is forbidden: {message}'}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "hostNetwork": True}}
    web = {**WEB, "spec": {**WEB["spec"], "template": template}, "status": {"conditions": [condition]}}
    explanation = explained_as("deployment/web", web, node("n1"))
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text.startswith(text)
    assert bool(change.edits) == has_edits
    for edit in change.edits:
        if edit.get("object", {}).get("kind") == "Deployment":
            assert json_patch(web, edit["patch"]) != web


def test_failure_of_a_quota_that_was_raised_is_outdated() -> None:
    failure = {"type": "ReplicaFailure", "status": "True", "message": "is forbidden: exceeded quota: compute"}
    web = {**WEB, "status": {"conditions": [failure]}}
    assert explained_as("deployment/web", web, node("n1", cpu="64"), quota(pods="9")).fits == 5
    assert explained_as("deployment/web", web, node("n1", cpu="64"), quota(pods="4")).fits == 4


def test_misspelt_runtime_class_is_explained() -> None:
    gvisor = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "gvisor"}, "handler": "r"}
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "runtimeClassName": "gviser"}}
    explanation = explained_as(
        "deployment/web", {**WEB, "spec": {**WEB["spec"], "template": template}}, node("n1"), gvisor
    )
    assert explanation.next is not None
    assert [change.text for change in explanation.next.changes] == ["Change runtimeClassName from gviser to gvisor"]


AGENT: Object = {**WEB, "kind": "DaemonSet", "metadata": {"name": "agent"}}
AGENT["spec"] = {key: item for key, item in WEB["spec"].items() if key != "replicas"}
GPU: Object = {"key": "gpu", "value": "x", "effect": "NoSchedule"}
DAEMONS: dict[str, tuple[list[Object], tuple[int, int], str]] = {
    "all nodes": ([node("n1"), node("n2", unschedulable=True)], (2, 2), ""),
    "a tainted node": ([node("n1"), node("n2", taints=[GPU])], (1, 2), "Tolerate gpu=x:NoSchedule"),
    "a node that is too small": (
        [node("n1"), node("n2", cpu="1"), node("n3", taints=[GPU])],
        (1, 3),
        "Lower the cpu request of container main from 2 to 1",
    ),
}


@pytest.mark.parametrize(("nodes", "counts", "text"), DAEMONS.values(), ids=DAEMONS)
def test_daemon_set_is_explained(nodes: list[Object], counts: tuple[int, int], text: str) -> None:
    """A daemon set needs a pod on each node; a change of its template, applied to it, helps."""
    explanation = explained_as("daemonset/agent", AGENT, *nodes)
    assert (explanation.fits, explanation.of) == counts
    if not text:
        assert explanation.next is None
        return
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text.startswith(text)
    (edit,) = change.edits
    assert explained_as("daemonset/agent", json_patch(AGENT, edit["patch"]), *nodes).fits == counts[0] + 1


def test_cron_job_is_explained() -> None:
    jobs = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "night"}}
    spec = {"schedule": "0 2 * * *", "jobTemplate": {"spec": {"template": TEMPLATE}}}
    suspended = explained_as("cronjob/night", {**jobs, "spec": {**spec, "suspend": True}}, node("n1"))
    assert suspended.next is not None
    assert suspended.next.decision.message == "the cron job is suspended"
    (edit,) = suspended.next.changes[0].edits
    resumed = json_patch({**jobs, "spec": {**spec, "suspend": True}}, edit["patch"])
    assert explained_as("cronjob/night", resumed, node("n1")).note == "it creates pods only at its schedule (0 2 * * *)"
    short = explained_as("cronjob/night", {**jobs, "spec": spec}, node("n1", cpu="1"))
    assert short.next is not None
    (edit,) = short.next.changes[0].edits
    assert explained_as("cronjob/night", json_patch({**jobs, "spec": spec}, edit["patch"]), node("n1", cpu="1")).fits


@pytest.mark.parametrize(("field", "note"), [("paused", "the deployment is paused"), ("replicas", "its replicas is 0")])
def test_idle_deployment_is_explained(field: str, note: str) -> None:
    web = {**WEB, "spec": {**WEB["spec"], "replicas": 1, field: True if field == "paused" else 0}}
    assert note in explained_as("deployment/web", web, node("n1")).note


ON_EACH_HOST: Object = {
    "podAntiAffinity": {REQUIRED: [{"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": {"app": "web"}}}]}
}


def test_blocked_rollout_is_explained() -> None:
    """A rollout has more pods than replicas: the new pod waits for a node, and the old ones run."""
    old = [
        controlled(pod(f"web-{at}", on=f"n{at}", labels={"app": "web"}, affinity=ON_EACH_HOST), name="web-1")
        for at in (1, 2)
    ]
    new = controlled(pod("web-3", labels={"app": "web"}, affinity=ON_EACH_HOST), name="web-2")
    web = {**WEB, "spec": {**WEB["spec"], "replicas": 2}}
    explanation = explained_as("deployment/web", web, node("n1"), node("n2"), *old, new)
    assert (explanation.fits, explanation.of) == (2, 3)
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text.startswith("Set maxSurge to 0 and maxUnavailable to 1")
    (edit,) = change.edits
    assert json_patch(web, edit["patch"])["spec"]["strategy"]["rollingUpdate"] == {"maxSurge": 0, "maxUnavailable": 1}


OWNED: dict[str, tuple[str, Object, list[str]]] = {
    "a deployment": ("ReplicaSet", WEB, ["Deployment"]),
    "a stateful set, whose controller waits for the pod": (
        "StatefulSet",
        {**WEB, "kind": "StatefulSet"},
        ["StatefulSet", "Pod"],
    ),
    "a parallel stateful set": (
        "StatefulSet",
        {**WEB, "kind": "StatefulSet", "spec": {**WEB["spec"], "podManagementPolicy": "Parallel"}},
        ["StatefulSet"],
    ),
    "a replica set, which does not replace pods": (
        "ReplicaSet",
        {**WEB, "kind": "ReplicaSet"},
        ["ReplicaSet", "Pod"],
    ),
}


@pytest.mark.parametrize(("owner", "workload", "kinds"), OWNED.values(), ids=OWNED)
def test_change_of_an_existing_pod_is_a_change_of_its_template(owner: str, workload: Object, kinds: list[str]) -> None:
    pending = controlled(pod("web-0", labels={"app": "web"}, requests={"cpu": "2"}), owner, "web")
    name = f"{workload['kind'].lower()}/web"
    one = {**workload, "spec": {**workload["spec"], "replicas": 1}}
    explanation = explained_as(name, one, node("n1", cpu="1"), pending)
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text == "Lower the cpu request of container main from 2 to 1"
    assert [(edit.get("object") or edit["delete"])["kind"] for edit in change.edits] == kinds
    changed = json_patch(one, change.edits[0]["patch"])
    assert explained_as(name, changed, node("n1", cpu="1")).fits == 1


def test_limit_range_of_pods_is_explained() -> None:
    limits: Object = {**limit_range(max={"cpu": "1"})}
    limits["spec"]["limits"][0]["type"] = "Pod"
    template = {**TEMPLATE, "spec": {"containers": [{"name": "main", "resources": {"limits": {"cpu": "2"}}}]}}
    web = {**WEB, "spec": {**WEB["spec"], "template": template}}
    explanation = explained_as("deployment/web", web, node("n1"), limits)
    assert explanation.next is not None
    first, change = explanation.next.changes
    assert first.text == "Set limits.cpu of container main to 1, as the namespace requires"
    assert change.text.startswith("Change the maximum cpu per Pod from 1 to 2 in the limit range")
    changed = json_patch(limits, change.edits[0]["patch"])
    assert explained_as("deployment/web", web, node("n1"), changed).fits == 2


def test_limit_range_of_volume_claims_is_explained() -> None:
    limit = "maximum storage usage per PersistentVolumeClaim is 5Gi, but request is 10Gi"
    message = f'persistentvolumeclaims "data-db-0" is forbidden: {limit}'
    condition = {"type": "ReplicaFailure", "status": "True", "message": message}
    claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "10Gi"}}
    database = {**WEB, "kind": "StatefulSet", "metadata": {"name": "db"}, "status": {"conditions": [condition]}}
    database["spec"] = {**WEB["spec"], "replicas": 1, "volumeClaimTemplates": [claim]}
    explanation = explained_as("statefulset/db", database, node("n1"), quota(pods="9"))
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text.startswith("Request 5Gi instead of 10Gi in the volume claim template data")
    (template,) = json_patch(database, change.edits[0]["patch"])["spec"]["volumeClaimTemplates"]
    assert template["spec"]["resources"]["requests"] == {"storage": "5Gi"}


def test_quota_of_volume_claims_is_explained() -> None:
    amounts = "requested: requests.storage=10Gi, used: requests.storage=10Gi, limited: requests.storage=15Gi"
    message = f'persistentvolumeclaims "data-db-1" is forbidden: exceeded quota: disk, {amounts}'
    condition = {"type": "ReplicaFailure", "status": "True", "message": message}
    database = {**WEB, "kind": "StatefulSet", "metadata": {"name": "db"}, "status": {"conditions": [condition]}}
    database["spec"] = {**WEB["spec"], "replicas": 3}
    running = controlled(pod("db-0", on="n1", labels={"app": "web"}), "StatefulSet", "db")
    disk = {**quota(**{"requests.storage": "15Gi"}), "metadata": {"name": "disk"}}
    explanation = explained_as("statefulset/db", database, node("n1", cpu="64"), running, disk)
    assert explanation.is_refused
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text.startswith("Raise requests.storage from 15Gi to 30Gi in the quota disk")
    assert json_patch(disk, change.edits[0]["patch"])["spec"]["hard"] == {"requests.storage": "30Gi"}


def test_change_of_a_claim_is_a_change_of_its_template() -> None:
    """Pods that do not exist yet have no claims: the claim controller will create them from the template."""
    request = {"name": "r", "exactly": {"deviceClassName": "gpus"}}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t"}}
    claims = {**head, "spec": {"spec": {"devices": {"requests": [request]}}}}
    template = {
        **TEMPLATE,
        "spec": {**TEMPLATE["spec"], "resourceClaims": [{"name": "c", "resourceClaimTemplateName": "t"}]},
    }
    web = {**WEB, "spec": {**WEB["spec"], "replicas": 1, "template": template}}
    others = [node("n1"), device_class(), device_slice("n1")]
    explanation = explained_as("deployment/web", web, claims, *others)
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text == "Change the device class of request r of the claim template t from gpus to gpu"
    (edit,) = change.edits
    assert edit["object"]["kind"] == "ResourceClaimTemplate"
    assert explained_as("deployment/web", web, json_patch(claims, edit["patch"]), *others).fits == 1


@pytest.mark.parametrize("is_created", [True, False])
def test_claims_of_a_pod_that_is_replaced_are_not_created(is_created: bool) -> None:
    """The controller creates the claims of the new pod. A claim of the old pod would take the device from it."""
    uses = [{"name": "gpu", "resourceClaimTemplateName": "gpu-tmplate"}]
    template = {**TEMPLATE, "spec": {**TEMPLATE["spec"], "resourceClaims": uses}}
    web = {**WEB, "spec": {**WEB["spec"], "replicas": 1, "template": template}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu"}}
    metadata = {"name": "gpu-template", "namespace": "default"}
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": metadata}
    claims = {**head, "spec": {"spec": {"devices": {"requests": [request]}}}}
    devices = [node("n1"), device_class(), device_slice("n1"), claims]
    made = [controlled({**pod("web-x", labels={"app": "web"}), "spec": template["spec"]})]
    explanation = explained_as("deployment/web", web, *devices, *(made if is_created else []))
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text.endswith("from gpu-tmplate, which does not exist, to gpu-template")
    (edit,) = change.edits
    assert [operation["path"].split("/")[3] for operation in edit["patch"]] == ["spec"]
    assert explained_as("deployment/web", json_patch(web, edit["patch"]), *devices).fits == 1


def test_change_of_a_volume_claim_is_a_change_of_its_template() -> None:
    claim = {"metadata": {"name": "data"}, "spec": {"storageClassName": "fast", "accessModes": ["ReadWriteOnce"]}}
    claim["spec"]["resources"] = {"requests": {"storage": "1Gi"}}
    database = {**WEB, "kind": "StatefulSet", "metadata": {"name": "db"}}
    database["spec"] = {**WEB["spec"], "replicas": 1, "volumeClaimTemplates": [claim]}
    standard = storage_class("standard")
    explanation = explained_as("statefulset/db", database, node("n1"), standard)
    assert explanation.next is not None
    change = explanation.next.changes[0]
    assert change.text == "Change the storage class of the volume claim template data from fast to standard"
    (edit,) = change.edits
    assert explained_as("statefulset/db", json_patch(database, edit["patch"]), node("n1"), standard).fits == 1


KINDS = ["Deployment", "StatefulSet", "Job", "DaemonSet"]


def explain_kind(kind: str, *nodes: Object, **spec: object) -> PodExplanation:
    """Return the explanation of the first pod of a workload whose pods have a spec."""
    labels = {"app": "w"}
    template = {"metadata": {"labels": labels}, "spec": {**pod("x")["spec"], **spec}}
    selector = {} if kind == "Job" else {"selector": {"matchLabels": labels}}
    content = {
        "apiVersion": "batch/v1" if kind == "Job" else "apps/v1",
        "kind": kind,
        "metadata": {"name": "w", "namespace": "default"},
        "spec": {**selector, "template": template},
    }
    explanation = explained_as(f"{kind.lower()}/w", *nodes, content).next
    assert explanation is not None
    return explanation


@pytest.mark.parametrize("kind", KINDS)
def test_workload_of_another_scheduler_gets_the_suggestion_of_its_pods(kind: str) -> None:
    explanation = explain_kind(kind, node("n1"), schedulerName="stork")
    assert "another scheduler is responsible" in explanation.notes[0]
    assert "Change schedulerName from stork to default-scheduler" in explanation.changes[0].text


@pytest.mark.parametrize("kind", KINDS)
def test_gated_workload_is_explained(kind: str) -> None:
    explanation = explain_kind(kind, node("n1"), schedulingGates=[{"name": "example.com/quota"}])
    assert explanation.changes[0].kind == "gate"


def test_daemon_set_is_explained_on_the_node_that_matches_most_of_its_selector() -> None:
    nodes = (
        node("a-linux", labels={"kubernetes.io/os": "linux"}),
        node("win", labels={"kubernetes.io/os": "windows", "build": "10.0.20348"}),
    )
    selector = {"kubernetes.io/os": "windows", "build": "10.0.17763"}
    explanation = explain_kind("DaemonSet", *nodes, nodeSelector=selector)
    assert explanation.changes[0].node == "win"
    assert "kubernetes.io/os" not in explanation.changes[0].text


@pytest.mark.parametrize(
    ("kind", "note"), [("Failed", "the job has failed (BackoffLimitExceeded: no)"), ("Complete", "the job is complete")]
)
def test_finished_job_creates_no_pods(kind: str, note: str) -> None:
    condition = {"type": kind, "status": "True", "reason": "BackoffLimitExceeded", "message": "no"}
    spec = {"template": {"spec": {**TEMPLATE["spec"], "restartPolicy": "Never"}}}
    status = {"conditions": [condition]}
    job = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "etl"}, "spec": spec, "status": status}
    explanation = explained_as("job/etl", job, node("n1"))
    assert explanation.note.startswith(note)
    assert explanation.next is None


def test_only_one_replica_can_use_a_claim_exclusively() -> None:
    objects = [
        made | {"spec": {**made["spec"], "accessModes": ["ReadWriteOncePod"]}}
        for made in (volume("pv", claimed_by="data"), claim("data", volume="pv"))
    ]
    template = {"metadata": {"labels": {"app": "web"}}, "spec": mounting("data")["spec"]}
    web = {**WEB, "spec": {**WEB["spec"], "template": template}}
    explanation = explained_as("deployment/web", web, node("n1"), *objects)
    assert explanation.next is not None
    first = explanation.next.changes[0]
    assert first.text.startswith("Set replicas to 1: one pod at a time can use its ReadWriteOncePod claim")
    changed = json_patch(web, first.edits[0]["patch"])
    assert explained_as("deployment/web", changed, node("n1"), *objects).fits == 1


def test_running_pods_without_requests_use_a_quota_of_best_effort() -> None:
    limit = quota(pods="2")
    limit["spec"]["scopes"] = ["BestEffort"]
    container = {"name": "main", "image": "app"}
    web = {**WEB, "spec": {**WEB["spec"], "template": {**TEMPLATE, "spec": {"containers": [container]}}}}
    running = pod("web-x", on="n1", labels={"app": "web"}, containers=[container])
    explanation = explained_as("deployment/web", web, node("n1"), limit, running)
    assert (explanation.fits, explanation.of, explanation.is_refused) == (2, 5, True)
    assert explanation.next is not None
    assert explanation.next.changes[0].text == "Raise pods from 2 to 5 in the quota compute"
