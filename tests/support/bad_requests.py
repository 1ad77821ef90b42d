"""Requests that an API server rejects, keyed by a sentence that describes the error."""

import re
from dataclasses import dataclass
from typing import Any, Final

import msgspec
from tests.support.api import APPLY, JSON_PATCH, MERGE, Data

PODS: Final = "/api/v1/namespaces/default/pods"
NODES: Final = "/api/v1/nodes"
APPS: Final = "/apis/apps/v1/namespaces/default"
BATCH: Final = "/apis/batch/v1/namespaces/default"
BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
PRIORITIES: Final = "/apis/scheduling.k8s.io/v1/priorityclasses"
CLASSES: Final = "/apis/storage.k8s.io/v1/storageclasses"
CLAIMS: Final = "/api/v1/namespaces/default/persistentvolumeclaims"
REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
CONTAINER: Final = {"name": "main", "image": "web:1"}


@dataclass(frozen=True, slots=True)
class RequestCase:
    """One request; a body that is not a mapping is sent unchanged."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"


def make_object(kind: str, version: str, name: str, **content: Any) -> Data:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **content.pop("metadata", {})}, **content}


def pod(*, metadata: Data | None = None, container: Data | None = None, **spec: Any) -> RequestCase:
    full = {"containers": [{**CONTAINER, **(container or {})}], **spec}
    return RequestCase("POST", PODS, make_object("Pod", "v1", "bad", metadata=metadata or {}, spec=full))


def node(metadata: Data | None = None, status: Data | None = None, **spec: Any) -> RequestCase:
    content = make_object("Node", "v1", "bad", metadata=metadata or {}, spec=spec, status=status or {})
    return RequestCase("POST", NODES, content)


def workload(kind: str, *, template: Data | None = None, labels: Data | None = None, **spec: Any) -> Data:
    inside = {"containers": [CONTAINER], **(template or {})}
    full: Data = {"selector": {"matchLabels": {"app": "web"}}}
    full["template"] = {"metadata": {"labels": labels or {"app": "web"}}, "spec": inside}
    return make_object(kind, "apps/v1", "bad", spec={**full, **spec})


def deployment(**spec: Any) -> RequestCase:
    return RequestCase("POST", f"{APPS}/deployments", workload("Deployment", **spec))


def job(template: Data | None = None, **spec: Any) -> RequestCase:
    inside = {"containers": [CONTAINER], "restartPolicy": "Never", **(template or {})}
    return RequestCase(
        "POST", f"{BATCH}/jobs", make_object("Job", "batch/v1", "bad", spec={"template": {"spec": inside}, **spec})
    )


def cron_job(**spec: Any) -> RequestCase:
    inside = {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}}
    full = {"schedule": "* * * * *", "jobTemplate": inside, **spec}
    return RequestCase("POST", f"{BATCH}/cronjobs", make_object("CronJob", "batch/v1", "bad", spec=full))


def budget(**spec: Any) -> RequestCase:
    full = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return RequestCase("POST", BUDGETS, make_object("PodDisruptionBudget", "policy/v1", "bad", spec=full))


def priority(name: str = "bad", **content: Any) -> RequestCase:
    return RequestCase("POST", PRIORITIES, make_object("PriorityClass", "scheduling.k8s.io/v1", name, **content))


def claim(**spec: Any) -> RequestCase:
    full = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return RequestCase("POST", CLAIMS, make_object("PersistentVolumeClaim", "v1", "bad", spec=full))


def volume(**spec: Any) -> RequestCase:
    full = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return RequestCase("POST", "/api/v1/persistentvolumes", make_object("PersistentVolume", "v1", "bad", spec=full))


def storage_class(**content: Any) -> RequestCase:
    return RequestCase("POST", CLASSES, make_object("StorageClass", "storage.k8s.io/v1", "bad", **content))


def service(*ports: Data, **spec: Any) -> RequestCase:
    return RequestCase(
        "POST",
        "/api/v1/namespaces/default/services",
        make_object("Service", "v1", "bad", spec={"ports": ports, **spec}),
    )


def requests(**amounts: Any) -> RequestCase:
    return pod(container={"resources": {"requests": amounts}})


def node_affinity(*expressions: Data) -> RequestCase:
    terms = [{"matchExpressions": expressions}]
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def pod_affinity(term: Data, weight: int | None = None) -> RequestCase:
    if weight is None:
        return pod(affinity={"podAffinity": {REQUIRED: [term]}})
    return pod(affinity={"podAntiAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}})


def spread(**constraint: Any) -> RequestCase:
    full = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **constraint}
    return pod(topologySpreadConstraints=[full])


def merge(path: str, patch: Any) -> RequestCase:
    return RequestCase("PATCH", path, patch, MERGE)


GOOD: Final = (
    RequestCase("POST", NODES, make_object("Node", "v1", "good")),
    RequestCase("POST", PODS, make_object("Pod", "v1", "good", spec={"containers": [CONTAINER]})),
    RequestCase("POST", PODS, make_object("Pod", "v1", "bound", spec={"containers": [CONTAINER], "nodeName": "good"})),
    RequestCase(
        "POST",
        PODS,
        make_object("Pod", "v1", "gated", spec={"containers": [CONTAINER], "schedulingGates": [{"name": "a"}]}),
    ),
    RequestCase("POST", f"{APPS}/deployments", workload("Deployment") | {"metadata": {"name": "good"}}),
    RequestCase("POST", f"{APPS}/statefulsets", workload("StatefulSet") | {"metadata": {"name": "good"}}),
    RequestCase("POST", PRIORITIES, make_object("PriorityClass", "scheduling.k8s.io/v1", "good", value=5)),
    RequestCase(
        "POST", PRIORITIES, make_object("PriorityClass", "scheduling.k8s.io/v1", "usual", value=0, globalDefault=True)
    ),
    RequestCase(
        "POST", CLASSES, make_object("StorageClass", "storage.k8s.io/v1", "good", provisioner="disk.example.org")
    ),
    RequestCase("POST", CLAIMS, claim().body | {"metadata": {"name": "good"}}),
    RequestCase("POST", f"{BATCH}/jobs", job().body | {"metadata": {"name": "good"}}),
)
"""Existing objects."""

POD_REQUESTS: Final[dict[str, RequestCase]] = {
    "a pod without containers": pod(containers=[]),
    "a pod without a name": RequestCase(
        "POST", PODS, {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER]}}
    ),
    "a name in capitals": pod(metadata={"name": "Bad_Name"}),
    "a name above the length limit": pod(metadata={"name": "a" * 254}),
    "an existing name": pod(metadata={"name": "good"}),
    "an invalid label key": pod(metadata={"labels": {"a b": "c"}}),
    "an invalid label value": pod(metadata={"labels": {"a": "c d"}}),
    "an invalid annotation key": pod(metadata={"annotations": {"a b": "c"}}),
    "a container without a name": pod(containers=[{"image": "web:1"}]),
    "a container without an image": pod(containers=[{"name": "main"}]),
    "an invalid container name": pod(container={"name": "Main"}),
    "two containers of one name": pod(containers=[CONTAINER, CONTAINER]),
    "a negative CPU request": requests(cpu="-1"),
    "an invalid quantity": requests(cpu="much"),
    "a request above the limit": pod(container={"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
    "an invalid resource name": requests(gadgets="1"),
    "a fraction of an extended resource": pod(container={"resources": {"limits": {"example.org/gpu": "500m"}}}),
    "an extended resource with a request and no limit": requests(**{"example.org/gpu": "1"}),
    "an unknown restart policy": pod(restartPolicy="Sometimes"),
    "an unknown DNS policy": pod(dnsPolicy="Guess"),
    "an unknown toleration operator": pod(tolerations=[{"key": "a", "operator": "Is"}]),
    "a toleration with Exists and a value": pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
    "a toleration without a key": pod(tolerations=[{"operator": "Equal", "value": "b"}]),
    "an unknown toleration effect": pod(tolerations=[{"key": "a", "operator": "Exists", "effect": "Never"}]),
    "tolerationSeconds with an effect other than NoExecute": pod(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]
    ),
    "an invalid toleration key": pod(tolerations=[{"key": "a b", "operator": "Exists"}]),
    "an invalid toleration value": pod(tolerations=[{"key": "a", "operator": "Equal", "value": "b c"}]),
    "node affinity with an invalid value": node_affinity({"key": "a", "operator": "In", "values": ["b c"]}),
    "node affinity with an unknown field": pod(
        affinity={
            "nodeAffinity": {
                REQUIRED: {
                    "nodeSelectorTerms": [
                        {"matchFields": [{"key": "spec.colour", "operator": "In", "values": ["red"]}]}
                    ]
                }
            }
        }
    ),
    "node affinity without terms": pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}),
    "an unknown node affinity operator": node_affinity({"key": "a", "operator": "Is", "values": ["b"]}),
    "node affinity with In and no values": node_affinity({"key": "a", "operator": "In"}),
    "node affinity with Exists and values": node_affinity({"key": "a", "operator": "Exists", "values": ["b"]}),
    "node affinity with Gt and two values": node_affinity({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
    "node affinity with an invalid key": node_affinity({"key": "a b", "operator": "Exists"}),
    "a preference with weight 0": pod(
        affinity={"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {"matchExpressions": []}}]}}
    ),
    "pod affinity without a topology key": pod_affinity({"labelSelector": {"matchLabels": {"a": "b"}}}),
    "pod affinity with an unknown operator": pod_affinity(
        {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}
    ),
    "pod affinity with In and no values": pod_affinity(
        {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
    ),
    "pod affinity with a weight above the limit": pod_affinity({"topologyKey": "zone"}, weight=101),
    "a spread constraint with a skew of 0": spread(maxSkew=0),
    "a spread constraint without a topology key": spread(topologyKey=""),
    "an unknown whenUnsatisfiable": spread(whenUnsatisfiable="Perhaps"),
    "minDomains with ScheduleAnyway": spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2),
    "minDomains of 0": spread(minDomains=0),
    "an unknown node inclusion policy": spread(nodeTaintsPolicy="Perhaps"),
    "a duplicate spread constraint": pod(
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}] * 2
    ),
    "an unknown priority class": pod(priorityClassName="nobody"),
    "another priority than that of the class": pod(priority=7),
    "an unknown preemption policy": pod(preemptionPolicy="Perhaps"),
    "another preemption policy than that of the class": pod(priorityClassName="good", preemptionPolicy="Never"),
    "an invalid host port": pod(container={"ports": [{"containerPort": 80, "hostPort": 70000}]}),
    "an invalid container port": pod(container={"ports": [{"containerPort": 0}]}),
    "an unknown protocol": pod(container={"ports": [{"containerPort": 80, "protocol": "HTTP"}]}),
    "a duplicate host port": pod(container={"ports": [{"containerPort": 80, "hostPort": 80}] * 2}),
    "another host port than the container port with hostNetwork": pod(
        hostNetwork=True, container={"ports": [{"containerPort": 80, "hostPort": 81}]}
    ),
    "an invalid node selector": pod(nodeSelector={"a b": "c"}),
    "a duplicate scheduling gate": pod(schedulingGates=[{"name": "a"}, {"name": "a"}]),
    "an invalid scheduling gate": pod(schedulingGates=[{"name": "a b"}]),
    "a scheduling gate of a pod with a node": pod(schedulingGates=[{"name": "a"}], nodeName="good"),
    "two volumes of one name": pod(volumes=[{"name": "a", "emptyDir": {}}] * 2),
    "a volume without a claim name": pod(volumes=[{"name": "a", "persistentVolumeClaim": {"claimName": ""}}]),
    "a volume with two sources": pod(volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
    "a mount of a missing volume": pod(container={"volumeMounts": [{"name": "a", "mountPath": "/a"}]}),
    "an unknown runtime class": pod(runtimeClassName="nobody"),
    "overhead without a runtime class": pod(overhead={"cpu": "1"}),
    "a resource claim without a source": pod(resourceClaims=[{"name": "gpu"}]),
    "a container with a claim that its pod does not have": pod(container={"resources": {"claims": [{"name": "gpu"}]}}),
    "a negative activeDeadlineSeconds": pod(activeDeadlineSeconds=-1),
    "containers that are not a list": pod(containers="main"),
    "a text as priority": pod(priority="high"),
    "a namespace that does not exist": RequestCase("POST", "/api/v1/namespaces/nowhere/pods", pod().body),
    "another namespace than that of the path": pod(metadata={"namespace": "kube-system"}),
    "a resource version at creation": pod(metadata={"resourceVersion": "5"}),
    "an unknown field": RequestCase("POST", f"{PODS}?fieldValidation=Strict", pod(colour="red").body),
    "another kind than that of the path": RequestCase("POST", PODS, make_object("Node", "v1", "bad")),
    "another API version than that of the path": RequestCase("POST", PODS, make_object("Pod", "v2", "bad")),
    "an unknown field validation": RequestCase("POST", f"{PODS}?fieldValidation=Perhaps", pod().body),
    "an unknown dryRun directive": RequestCase("POST", f"{PODS}?dryRun=Perhaps", pod().body),
}

OTHER_REQUESTS: Final[dict[str, RequestCase]] = {
    "a taint without a key": node(taints=[{"effect": "NoSchedule"}]),
    "a taint with an unknown effect": node(taints=[{"key": "a", "effect": "Never"}]),
    "a taint without an effect": node(taints=[{"key": "a"}]),
    "a duplicate taint": node(taints=[{"key": "a", "effect": "NoSchedule"}] * 2),
    "an invalid label of a node": node(metadata={"labels": {"a": "b c"}}),
    "a node with negative capacity": node(status={"capacity": {"cpu": "-1"}}),
    "a deployment without a selector": deployment(selector=None),
    "a deployment whose selector does not match its template": deployment(labels={"app": "other"}),
    "a selector with an unknown operator": deployment(selector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
    "a negative number of replicas": deployment(replicas=-1),
    "an unknown deployment strategy": deployment(strategy={"type": "Perhaps"}),
    "a rolling update with maxSurge and maxUnavailable of 0": deployment(
        strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
    ),
    "an invalid percentage": deployment(strategy={"rollingUpdate": {"maxSurge": "many"}}),
    "a deployment with restart policy Never": deployment(template={"restartPolicy": "Never"}),
    "a deployment with an invalid pod template": deployment(template={"tolerations": [{"key": "a", "operator": "Is"}]}),
    "a text as number of replicas": deployment(replicas="three"),
    "a changed selector of a deployment": merge(
        f"{APPS}/deployments/good", {"spec": {"selector": {"matchLabels": {"app": "b"}}}}
    ),
    "a changed service of a stateful set": merge(f"{APPS}/statefulsets/good", {"spec": {"serviceName": "b"}}),
    "a daemon set whose selector does not match": RequestCase(
        "POST", f"{APPS}/daemonsets", workload("DaemonSet", labels={"app": "other"})
    ),
    "a job with restart policy Always": job({"restartPolicy": "Always"}),
    "a job with negative parallelism": job(parallelism=-1),
    "an indexed job without completions": job(completionMode="Indexed", parallelism=2),
    "changed completions of a job": merge(f"{BATCH}/jobs/good", {"spec": {"completions": 7}}),
    "an invalid schedule": cron_job(schedule="often"),
    "an unknown concurrency policy": cron_job(concurrencyPolicy="Perhaps"),
    "a budget with minAvailable and maxUnavailable": budget(minAvailable=1, maxUnavailable=1),
    "an invalid budget": budget(minAvailable="many"),
    "a negative budget": budget(minAvailable=-1),
    "a priority class above the limit": priority(value=2_000_000_000),
    "a changed volume claim template of a stateful set": merge(
        f"{APPS}/statefulsets/good", {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "a"}, "spec": {}}]}}
    ),
    "a changed pod management policy of a stateful set": merge(
        f"{APPS}/statefulsets/good", {"spec": {"podManagementPolicy": "Parallel"}}
    ),
    "a changed template of a job": merge(f"{BATCH}/jobs/good", {"spec": {"template": {"spec": {"nodeName": "n"}}}}),
    "a changed volume binding mode": merge(f"{CLASSES}/good", {"volumeBindingMode": "WaitForFirstConsumer"}),
    "changed parameters of a storage class": merge(f"{CLASSES}/good", {"parameters": {"a": "b"}}),
    "a changed reclaim policy of a storage class": merge(f"{CLASSES}/good", {"reclaimPolicy": "Retain"}),
    "a second default priority class": priority(value=5, globalDefault=True),
    "an existing cluster IP": service({"port": 80}, clusterIP="10.96.0.1"),
    "a priority class with a reserved name": priority("system-mine", value=5),
    "a changed value of a priority class": merge(f"{PRIORITIES}/good", {"value": 6}),
    "a claim without access modes": claim(accessModes=[]),
    "a claim with an unknown access mode": claim(accessModes=["Perhaps"]),
    "a claim without a storage request": claim(resources={}),
    "a claim with a negative storage request": claim(resources={"requests": {"storage": "-1"}}),
    "changed access modes of a claim": merge(f"{CLAIMS}/good", {"spec": {"accessModes": ["ReadWriteMany"]}}),
    "a volume without a capacity": volume(capacity={}),
    "a volume without a source": volume(hostPath=None),
    "a volume with an unknown access mode": volume(accessModes=["Perhaps"]),
    "a storage class without a provisioner": storage_class(),
    "an unknown binding mode": storage_class(provisioner="a", volumeBindingMode="Perhaps"),
    "a changed provisioner": merge(f"{CLASSES}/good", {"provisioner": "other"}),
    "a service without ports": service(),
    "a service with an invalid port": service({"port": 0}),
    "a namespace with an invalid name": RequestCase(
        "POST", "/api/v1/namespaces", make_object("Namespace", "v1", "a.b")
    ),
    "deletion of a protected namespace": RequestCase("DELETE", "/api/v1/namespaces/default"),
    "a changed command of a pod": merge(f"{PODS}/good", {"spec": {"containers": [{**CONTAINER, "command": ["a"]}]}}),
    "a changed node of a pod": merge(f"{PODS}/bound", {"spec": {"nodeName": "other"}}),
    "an added scheduling gate of a pod": merge(f"{PODS}/good", {"spec": {"schedulingGates": [{"name": "a"}]}}),
    "a changed toleration of a gated pod": merge(f"{PODS}/gated", {"spec": {"tolerations": [{"operator": "Is"}]}}),
    "an outdated resource version": merge(f"{PODS}/good", {"metadata": {"resourceVersion": "1"}}),
    "a binding without a target": RequestCase("POST", f"{PODS}/good/binding", make_object("Binding", "v1", "good")),
    "a second binding": RequestCase(
        "POST", f"{PODS}/bound/binding", make_object("Binding", "v1", "bound", target={"kind": "Node", "name": "good"})
    ),
    "a binding of a missing pod": RequestCase(
        "POST",
        f"{PODS}/nobody/binding",
        make_object("Binding", "v1", "nobody", target={"kind": "Node", "name": "good"}),
    ),
    "a binding of a gated pod": RequestCase(
        "POST", f"{PODS}/gated/binding", make_object("Binding", "v1", "gated", target={"kind": "Node", "name": "good"})
    ),
    "an eviction of a missing pod": RequestCase(
        "POST", f"{PODS}/nobody/eviction", make_object("Eviction", "policy/v1", "nobody")
    ),
    "deletion of a missing pod": RequestCase("DELETE", f"{PODS}/nobody"),
    "deletion with another uid": RequestCase("DELETE", f"{PODS}/good", {"preconditions": {"uid": "other"}}),
    "an unknown propagation policy": RequestCase("DELETE", f"{PODS}/good?propagationPolicy=Perhaps"),
    "a missing object": RequestCase("GET", f"{APPS}/deployments/nobody"),
    "an unknown resource": RequestCase("GET", "/api/v1/namespaces/default/gadgets"),
    "an unknown API group": RequestCase("GET", "/apis/example.org/v1/gadgets"),
    "an invalid label selector": RequestCase("GET", f"{PODS}?labelSelector=a%20in"),
    "an invalid field selector": RequestCase("GET", f"{PODS}?fieldSelector=spec.colour%3Dred"),
    "an invalid continue token": RequestCase("GET", f"{PODS}?continue=x"),
    "an invalid limit": RequestCase("GET", f"{PODS}?limit=many"),
    "an invalid resource version": RequestCase("GET", f"{PODS}?resourceVersion=old"),
    "an unsupported method": RequestCase("PUT", PODS, pod().body),
    "an object with another name than that of the path": RequestCase("PUT", f"{PODS}/good", pod().body),
    "a changed scheduler name of a pod": RequestCase(
        "PUT", f"{PODS}/good", pod(metadata={"name": "good"}, schedulerName="other").body
    ),
    "invalid JSON": RequestCase("POST", PODS, b"{not json"),
    "a missing body": RequestCase("POST", PODS, b""),
    "an unknown patch type": RequestCase("PATCH", f"{PODS}/good", {}, "application/patch"),
    "a patch of a missing object": merge(f"{PODS}/nobody", {"metadata": {"labels": {"a": "b"}}}),
    "a JSON patch with a failing test": RequestCase(
        "PATCH", f"{PODS}/good", [{"op": "test", "path": "/metadata/name", "value": "other"}], JSON_PATCH
    ),
    "a JSON patch with a missing path": RequestCase(
        "PATCH", f"{PODS}/good", [{"op": "remove", "path": "/spec/colour"}], JSON_PATCH
    ),
    "a JSON patch with an unknown operation": RequestCase(
        "PATCH", f"{PODS}/good", [{"op": "mend", "path": "/spec"}], JSON_PATCH
    ),
    "a merge patch that is a list": merge(f"{PODS}/good", []),
    "an apply patch without a field manager": RequestCase(
        "PATCH", f"{PODS}/good", make_object("Pod", "v1", "good"), APPLY
    ),
    "an apply patch of another kind": RequestCase(
        "PATCH", f"{PODS}/good?fieldManager=me", make_object("Node", "v1", "good"), APPLY
    ),
    "an apply patch with a conflict": RequestCase(
        "PATCH",
        f"{APPS}/deployments/good?fieldManager=me",
        workload("Deployment", replicas=3) | {"metadata": {"name": "good"}},
        APPLY,
    ),
    "a negative number of replicas by scale": merge(f"{APPS}/deployments/good/scale", {"spec": {"replicas": -1}}),
}

REQUESTS: Final = {**POD_REQUESTS, **OTHER_REQUESTS}
OTHER_WORDING: Final = frozenset(
    (
        "a resource version at creation",
        "another kind than that of the path",
        "another API version than that of the path",
        "a binding without a target",
        "an unknown API group",
        "an invalid label selector",
        "an invalid continue token",
        "an invalid limit",
        "an invalid resource version",
        "invalid JSON",
        "a missing body",
        "an unknown patch type",
        "a JSON patch with a failing test",
        "a JSON patch with a missing path",
        "a JSON patch with an unknown operation",
        "a merge patch that is a list",
        "an apply patch of another kind",
        "an apply patch with a conflict",
        "a changed volume claim template of a stateful set",
        "a changed template of a job",
    )
)
"""Intended differences in wording: our messages are more precise, or do not quote Go's parsers and code."""
SERVER_ERRORS: Final = frozenset(("a resource version at creation", "a binding without a target"))
"""Requests for which kube-apiserver returns 500 although the client is wrong; we return a client error."""


def essence(status: int, body: bytes, *, loosely: bool) -> Data:
    """Return the part of a response on which two servers should agree; the first line of long messages."""
    try:
        data: Data = msgspec.json.decode(body)
    except msgspec.DecodeError:
        data = {}
    if loosely:
        return {"code": status}
    return {
        "code": status,
        "reason": data.get("reason", ""),
        "message": _first_line(data.get("message", "")),
        "details": {
            key: content for key, content in (data.get("details") or {}).items() if key not in ("uid", "causes")
        },
        "causes": [
            {**cause, "message": _first_line(cause["message"])}
            for cause in (data.get("details") or {}).get("causes", ())
        ],
    }


def _first_line(text: str) -> str:
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UID", text.partition("\n")[0])
