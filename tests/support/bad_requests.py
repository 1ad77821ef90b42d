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
class Ask:
    """One request; a body that is not a mapping is sent unchanged."""

    method: str
    path: str
    body: Any = None
    content_type: str = "application/json"


def thing(kind: str, version: str, name: str, **content: Any) -> Data:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, **content.pop("metadata", {})}, **content}


def pod(*, metadata: Data | None = None, container: Data | None = None, **spec: Any) -> Ask:
    full = {"containers": [{**CONTAINER, **(container or {})}], **spec}
    return Ask("POST", PODS, thing("Pod", "v1", "bad", metadata=metadata or {}, spec=full))


def node(metadata: Data | None = None, status: Data | None = None, **spec: Any) -> Ask:
    content = thing("Node", "v1", "bad", metadata=metadata or {}, spec=spec, status=status or {})
    return Ask("POST", NODES, content)


def workload(kind: str, *, template: Data | None = None, labels: Data | None = None, **spec: Any) -> Data:
    inside = {"containers": [CONTAINER], **(template or {})}
    full: Data = {"selector": {"matchLabels": {"app": "web"}}}
    full["template"] = {"metadata": {"labels": labels or {"app": "web"}}, "spec": inside}
    return thing(kind, "apps/v1", "bad", spec={**full, **spec})


def deployment(**spec: Any) -> Ask:
    return Ask("POST", f"{APPS}/deployments", workload("Deployment", **spec))


def job(template: Data | None = None, **spec: Any) -> Ask:
    inside = {"containers": [CONTAINER], "restartPolicy": "Never", **(template or {})}
    return Ask("POST", f"{BATCH}/jobs", thing("Job", "batch/v1", "bad", spec={"template": {"spec": inside}, **spec}))


def cron_job(**spec: Any) -> Ask:
    inside = {"spec": {"template": {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}}}
    full = {"schedule": "* * * * *", "jobTemplate": inside, **spec}
    return Ask("POST", f"{BATCH}/cronjobs", thing("CronJob", "batch/v1", "bad", spec=full))


def budget(**spec: Any) -> Ask:
    full = {"selector": {"matchLabels": {"app": "web"}}, **spec}
    return Ask("POST", BUDGETS, thing("PodDisruptionBudget", "policy/v1", "bad", spec=full))


def priority(name: str = "bad", **content: Any) -> Ask:
    return Ask("POST", PRIORITIES, thing("PriorityClass", "scheduling.k8s.io/v1", name, **content))


def claim(**spec: Any) -> Ask:
    full = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, **spec}
    return Ask("POST", CLAIMS, thing("PersistentVolumeClaim", "v1", "bad", spec=full))


def volume(**spec: Any) -> Ask:
    full = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}, **spec}
    return Ask("POST", "/api/v1/persistentvolumes", thing("PersistentVolume", "v1", "bad", spec=full))


def storage_class(**content: Any) -> Ask:
    return Ask("POST", CLASSES, thing("StorageClass", "storage.k8s.io/v1", "bad", **content))


def service(*ports: Data, **spec: Any) -> Ask:
    return Ask(
        "POST", "/api/v1/namespaces/default/services", thing("Service", "v1", "bad", spec={"ports": ports, **spec})
    )


def requests(**amounts: Any) -> Ask:
    return pod(container={"resources": {"requests": amounts}})


def node_affinity(*expressions: Data) -> Ask:
    terms = [{"matchExpressions": expressions}]
    return pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}})


def pod_affinity(term: Data, weight: int | None = None) -> Ask:
    if weight is None:
        return pod(affinity={"podAffinity": {REQUIRED: [term]}})
    return pod(affinity={"podAntiAffinity": {PREFERRED: [{"weight": weight, "podAffinityTerm": term}]}})


def spread(**constraint: Any) -> Ask:
    full = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", **constraint}
    return pod(topologySpreadConstraints=[full])


def merge(path: str, patch: Any) -> Ask:
    return Ask("PATCH", path, patch, MERGE)


GOOD: Final = (
    Ask("POST", NODES, thing("Node", "v1", "good")),
    Ask("POST", PODS, thing("Pod", "v1", "good", spec={"containers": [CONTAINER]})),
    Ask("POST", PODS, thing("Pod", "v1", "bound", spec={"containers": [CONTAINER], "nodeName": "good"})),
    Ask(
        "POST", PODS, thing("Pod", "v1", "gated", spec={"containers": [CONTAINER], "schedulingGates": [{"name": "a"}]})
    ),
    Ask("POST", f"{APPS}/deployments", workload("Deployment") | {"metadata": {"name": "good"}}),
    Ask("POST", f"{APPS}/statefulsets", workload("StatefulSet") | {"metadata": {"name": "good"}}),
    Ask("POST", PRIORITIES, thing("PriorityClass", "scheduling.k8s.io/v1", "good", value=5)),
    Ask("POST", PRIORITIES, thing("PriorityClass", "scheduling.k8s.io/v1", "usual", value=0, globalDefault=True)),
    Ask("POST", CLASSES, thing("StorageClass", "storage.k8s.io/v1", "good", provisioner="disk.example.org")),
    Ask("POST", CLAIMS, claim().body | {"metadata": {"name": "good"}}),
    Ask("POST", f"{BATCH}/jobs", job().body | {"metadata": {"name": "good"}}),
)
"""Existing objects."""

POD_REQUESTS: Final[dict[str, Ask]] = {
    "a pod without containers": pod(containers=[]),
    "a pod without a name": Ask("POST", PODS, {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER]}}),
    "a name in capitals": pod(metadata={"name": "Bad_Name"}),
    "a name that is too long": pod(metadata={"name": "a" * 254}),
    "a name that is taken": pod(metadata={"name": "good"}),
    "a label key that is none": pod(metadata={"labels": {"a b": "c"}}),
    "a label value that is none": pod(metadata={"labels": {"a": "c d"}}),
    "an annotation key that is none": pod(metadata={"annotations": {"a b": "c"}}),
    "a container without a name": pod(containers=[{"image": "web:1"}]),
    "a container without an image": pod(containers=[{"name": "main"}]),
    "a container whose name is none": pod(container={"name": "Main"}),
    "two containers of a name": pod(containers=[CONTAINER, CONTAINER]),
    "less than no CPU": requests(cpu="-1"),
    "an amount that is none": requests(cpu="much"),
    "more asked for than allowed": pod(container={"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}),
    "a resource that is none": requests(gadgets="1"),
    "half of an extended resource": pod(container={"resources": {"limits": {"example.org/gpu": "500m"}}}),
    "an extended resource asked for, but not limited": requests(**{"example.org/gpu": "1"}),
    "an unknown restart policy": pod(restartPolicy="Sometimes"),
    "an unknown DNS policy": pod(dnsPolicy="Guess"),
    "an unknown operator of a toleration": pod(tolerations=[{"key": "a", "operator": "Is"}]),
    "a toleration of any value that names one": pod(tolerations=[{"key": "a", "operator": "Exists", "value": "b"}]),
    "a toleration without a key": pod(tolerations=[{"operator": "Equal", "value": "b"}]),
    "an unknown effect": pod(tolerations=[{"key": "a", "operator": "Exists", "effect": "Never"}]),
    "patience with a taint that drives nobody out": pod(
        tolerations=[{"key": "a", "operator": "Exists", "effect": "NoSchedule", "tolerationSeconds": 3}]
    ),
    "a toleration of a key that is none": pod(tolerations=[{"key": "a b", "operator": "Exists"}]),
    "a toleration of a value that is none": pod(tolerations=[{"key": "a", "operator": "Equal", "value": "b c"}]),
    "node affinity to a value that is none": node_affinity({"key": "a", "operator": "In", "values": ["b c"]}),
    "node affinity to a field that is none": pod(
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
    "no terms of node affinity": pod(affinity={"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": []}}}),
    "an unknown operator of node affinity": node_affinity({"key": "a", "operator": "Is", "values": ["b"]}),
    "node affinity to none of no values": node_affinity({"key": "a", "operator": "In"}),
    "node affinity that exists and has values": node_affinity({"key": "a", "operator": "Exists", "values": ["b"]}),
    "node affinity above two values": node_affinity({"key": "a", "operator": "Gt", "values": ["1", "2"]}),
    "node affinity to a key that is none": node_affinity({"key": "a b", "operator": "Exists"}),
    "a preference of weight zero": pod(
        affinity={"nodeAffinity": {PREFERRED: [{"weight": 0, "preference": {"matchExpressions": []}}]}}
    ),
    "pod affinity without a topology": pod_affinity({"labelSelector": {"matchLabels": {"a": "b"}}}),
    "pod affinity to an unknown operator": pod_affinity(
        {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}
    ),
    "pod affinity to none of no values": pod_affinity(
        {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}
    ),
    "pod affinity of too great a weight": pod_affinity({"topologyKey": "zone"}, weight=101),
    "a skew of none": spread(maxSkew=0),
    "a spread over nothing": spread(topologyKey=""),
    "a spread that is neither": spread(whenUnsatisfiable="Perhaps"),
    "fewest domains of a wish": spread(whenUnsatisfiable="ScheduleAnyway", minDomains=2),
    "less than one domain": spread(minDomains=0),
    "an unknown policy of a spread": spread(nodeTaintsPolicy="Perhaps"),
    "the same spread twice": pod(
        topologySpreadConstraints=[{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}] * 2
    ),
    "an unknown priority class": pod(priorityClassName="nobody"),
    "a priority that is not that of its class": pod(priority=7),
    "an unknown preemption policy": pod(preemptionPolicy="Perhaps"),
    "a policy that is not that of the class": pod(priorityClassName="good", preemptionPolicy="Never"),
    "a host port that is none": pod(container={"ports": [{"containerPort": 80, "hostPort": 70000}]}),
    "a port that is none": pod(container={"ports": [{"containerPort": 0}]}),
    "an unknown protocol": pod(container={"ports": [{"containerPort": 80, "protocol": "HTTP"}]}),
    "the same host port twice": pod(container={"ports": [{"containerPort": 80, "hostPort": 80}] * 2}),
    "another port on the host's network": pod(
        hostNetwork=True, container={"ports": [{"containerPort": 80, "hostPort": 81}]}
    ),
    "a node selector that is none": pod(nodeSelector={"a b": "c"}),
    "the same gate twice": pod(schedulingGates=[{"name": "a"}, {"name": "a"}]),
    "a gate that is none": pod(schedulingGates=[{"name": "a b"}]),
    "a gate on a pod that has a node": pod(schedulingGates=[{"name": "a"}], nodeName="good"),
    "two volumes of a name": pod(volumes=[{"name": "a", "emptyDir": {}}] * 2),
    "a volume without a claim": pod(volumes=[{"name": "a", "persistentVolumeClaim": {"claimName": ""}}]),
    "a volume of two sorts": pod(volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
    "a mount of no volume": pod(container={"volumeMounts": [{"name": "a", "mountPath": "/a"}]}),
    "an unknown runtime class": pod(runtimeClassName="nobody"),
    "overhead without a runtime class": pod(overhead={"cpu": "1"}),
    "a claim of no source": pod(resourceClaims=[{"name": "gpu"}]),
    "a container that uses no claim of its pod": pod(container={"resources": {"claims": [{"name": "gpu"}]}}),
    "a deadline in the past": pod(activeDeadlineSeconds=-1),
    "containers that are no list": pod(containers="main"),
    "a priority that is text": pod(priority="high"),
    "a namespace that does not exist": Ask("POST", "/api/v1/namespaces/nowhere/pods", pod().body),
    "another namespace than the path's": pod(metadata={"namespace": "kube-system"}),
    "a version at creation": pod(metadata={"resourceVersion": "5"}),
    "a field nobody knows": Ask("POST", f"{PODS}?fieldValidation=Strict", pod(colour="red").body),
    "another kind than the path's": Ask("POST", PODS, thing("Node", "v1", "bad")),
    "another version than the path's": Ask("POST", PODS, thing("Pod", "v2", "bad")),
    "an unknown way to check fields": Ask("POST", f"{PODS}?fieldValidation=Perhaps", pod().body),
    "an unknown dry run": Ask("POST", f"{PODS}?dryRun=Perhaps", pod().body),
}

OTHER_REQUESTS: Final[dict[str, Ask]] = {
    "a taint without a key": node(taints=[{"effect": "NoSchedule"}]),
    "a taint of unknown effect": node(taints=[{"key": "a", "effect": "Never"}]),
    "a taint without an effect": node(taints=[{"key": "a"}]),
    "the same taint twice": node(taints=[{"key": "a", "effect": "NoSchedule"}] * 2),
    "a node's label that is none": node(metadata={"labels": {"a": "b c"}}),
    "a node with less than nothing": node(status={"capacity": {"cpu": "-1"}}),
    "a deployment without a selector": deployment(selector=None),
    "a selector that does not match": deployment(labels={"app": "other"}),
    "a selector of an unknown operator": deployment(selector={"matchExpressions": [{"key": "a", "operator": "Is"}]}),
    "fewer than no replicas": deployment(replicas=-1),
    "an unknown strategy": deployment(strategy={"type": "Perhaps"}),
    "a roll-out that may not move": deployment(strategy={"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}),
    "a percentage that is none": deployment(strategy={"rollingUpdate": {"maxSurge": "many"}}),
    "a deployment of pods that end": deployment(template={"restartPolicy": "Never"}),
    "a deployment of bad pods": deployment(template={"tolerations": [{"key": "a", "operator": "Is"}]}),
    "replicas as text": deployment(replicas="three"),
    "another selector": merge(f"{APPS}/deployments/good", {"spec": {"selector": {"matchLabels": {"app": "b"}}}}),
    "another service of a stateful set": merge(f"{APPS}/statefulsets/good", {"spec": {"serviceName": "b"}}),
    "a daemon set whose selector does not match": Ask(
        "POST", f"{APPS}/daemonsets", workload("DaemonSet", labels={"app": "other"})
    ),
    "a job that restarts for ever": job({"restartPolicy": "Always"}),
    "a job of fewer than no pods": job(parallelism=-1),
    "an indexed job without an end": job(completionMode="Indexed", parallelism=2),
    "other completions of a job": merge(f"{BATCH}/jobs/good", {"spec": {"completions": 7}}),
    "a schedule that is none": cron_job(schedule="often"),
    "an unknown concurrency policy": cron_job(concurrencyPolicy="Perhaps"),
    "a budget of both sorts": budget(minAvailable=1, maxUnavailable=1),
    "a budget that is none": budget(minAvailable="many"),
    "a budget of less than nothing": budget(minAvailable=-1),
    "a priority above all": priority(value=2_000_000_000),
    "a pod with a volume of another stateful set": merge(
        f"{APPS}/statefulsets/good", {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "a"}, "spec": {}}]}}
    ),
    "another way to make the pods of a stateful set": merge(
        f"{APPS}/statefulsets/good", {"spec": {"podManagementPolicy": "Parallel"}}
    ),
    "another template of a job": merge(f"{BATCH}/jobs/good", {"spec": {"template": {"spec": {"nodeName": "n"}}}}),
    "another way to bind volumes": merge(f"{CLASSES}/good", {"volumeBindingMode": "WaitForFirstConsumer"}),
    "other parameters of a storage class": merge(f"{CLASSES}/good", {"parameters": {"a": "b"}}),
    "another policy of a storage class": merge(f"{CLASSES}/good", {"reclaimPolicy": "Retain"}),
    "a second default": priority(value=5, globalDefault=True),
    "an address that is taken": service({"port": 80}, clusterIP="10.96.0.1"),
    "a priority class with a name of the system's": priority("system-mine", value=5),
    "another value of a priority class": merge(f"{PRIORITIES}/good", {"value": 6}),
    "a claim without access modes": claim(accessModes=[]),
    "a claim of unknown access": claim(accessModes=["Perhaps"]),
    "a claim of nothing": claim(resources={}),
    "a claim of less than nothing": claim(resources={"requests": {"storage": "-1"}}),
    "another access to a claim": merge(f"{CLAIMS}/good", {"spec": {"accessModes": ["ReadWriteMany"]}}),
    "a volume without a size": volume(capacity={}),
    "a volume without a source": volume(hostPath=None),
    "a volume of unknown access": volume(accessModes=["Perhaps"]),
    "a storage class without a provisioner": storage_class(),
    "an unknown binding mode": storage_class(provisioner="a", volumeBindingMode="Perhaps"),
    "another provisioner": merge(f"{CLASSES}/good", {"provisioner": "other"}),
    "a service without ports": service(),
    "a service at a port that is none": service({"port": 0}),
    "a namespace whose name is none": Ask("POST", "/api/v1/namespaces", thing("Namespace", "v1", "a.b")),
    "the end of a namespace that must stay": Ask("DELETE", "/api/v1/namespaces/default"),
    "more CPU for a pod": merge(f"{PODS}/good", {"spec": {"containers": [{**CONTAINER, "command": ["a"]}]}}),
    "another node for a pod": merge(f"{PODS}/bound", {"spec": {"nodeName": "other"}}),
    "a gate for a pod that is there": merge(f"{PODS}/good", {"spec": {"schedulingGates": [{"name": "a"}]}}),
    "another selector of a gated pod": merge(f"{PODS}/gated", {"spec": {"tolerations": [{"operator": "Is"}]}}),
    "a version that is over": merge(f"{PODS}/good", {"metadata": {"resourceVersion": "1"}}),
    "a binding to nothing": Ask("POST", f"{PODS}/good/binding", thing("Binding", "v1", "good")),
    "a second binding": Ask(
        "POST", f"{PODS}/bound/binding", thing("Binding", "v1", "bound", target={"kind": "Node", "name": "good"})
    ),
    "a binding of nobody": Ask(
        "POST", f"{PODS}/nobody/binding", thing("Binding", "v1", "nobody", target={"kind": "Node", "name": "good"})
    ),
    "a binding of a gated pod": Ask(
        "POST", f"{PODS}/gated/binding", thing("Binding", "v1", "gated", target={"kind": "Node", "name": "good"})
    ),
    "the eviction of nobody": Ask("POST", f"{PODS}/nobody/eviction", thing("Eviction", "policy/v1", "nobody")),
    "the end of nobody": Ask("DELETE", f"{PODS}/nobody"),
    "the end of another": Ask("DELETE", f"{PODS}/good", {"preconditions": {"uid": "other"}}),
    "an unknown propagation": Ask("DELETE", f"{PODS}/good?propagationPolicy=Perhaps"),
    "an object that is not there": Ask("GET", f"{APPS}/deployments/nobody"),
    "a resource that is not served": Ask("GET", "/api/v1/namespaces/default/gadgets"),
    "a group that is not served": Ask("GET", "/apis/example.org/v1/gadgets"),
    "a label selector that is none": Ask("GET", f"{PODS}?labelSelector=a%20in"),
    "a field selector that is none": Ask("GET", f"{PODS}?fieldSelector=spec.colour%3Dred"),
    "a page of nothing": Ask("GET", f"{PODS}?continue=x"),
    "a limit that is none": Ask("GET", f"{PODS}?limit=many"),
    "a version that is none": Ask("GET", f"{PODS}?resourceVersion=old"),
    "a verb that is none": Ask("PUT", PODS, pod().body),
    "an object put where another is": Ask("PUT", f"{PODS}/good", pod().body),
    "a pod replaced by one for another scheduler": Ask(
        "PUT", f"{PODS}/good", pod(metadata={"name": "good"}, schedulerName="other").body
    ),
    "no JSON": Ask("POST", PODS, b"{not json"),
    "no body": Ask("POST", PODS, b""),
    "a patch of unknown sort": Ask("PATCH", f"{PODS}/good", {}, "application/patch"),
    "a patch of nobody": merge(f"{PODS}/nobody", {"metadata": {"labels": {"a": "b"}}}),
    "a test that fails": Ask(
        "PATCH", f"{PODS}/good", [{"op": "test", "path": "/metadata/name", "value": "other"}], JSON_PATCH
    ),
    "a path that is not there": Ask("PATCH", f"{PODS}/good", [{"op": "remove", "path": "/spec/colour"}], JSON_PATCH),
    "an operation that is none": Ask("PATCH", f"{PODS}/good", [{"op": "mend", "path": "/spec"}], JSON_PATCH),
    "a merge patch that is a list": merge(f"{PODS}/good", []),
    "an application by nobody": Ask("PATCH", f"{PODS}/good", thing("Pod", "v1", "good"), APPLY),
    "an application of another kind": Ask("PATCH", f"{PODS}/good?fieldManager=me", thing("Node", "v1", "good"), APPLY),
    "an application against somebody else's will": Ask(
        "PATCH",
        f"{APPS}/deployments/good?fieldManager=me",
        workload("Deployment", replicas=3) | {"metadata": {"name": "good"}},
        APPLY,
    ),
    "fewer than no replicas by scale": merge(f"{APPS}/deployments/good/scale", {"spec": {"replicas": -1}}),
}

REQUESTS: Final = {**POD_REQUESTS, **OTHER_REQUESTS}
LOOSE: Final = frozenset(
    (
        "a version at creation",
        "another kind than the path's",
        "another version than the path's",
        "a binding to nothing",
        "a group that is not served",
        "a label selector that is none",
        "a page of nothing",
        "a limit that is none",
        "a version that is none",
        "no JSON",
        "no body",
        "a patch of unknown sort",
        "a test that fails",
        "a path that is not there",
        "an operation that is none",
        "a merge patch that is a list",
        "an application of another kind",
        "an application against somebody else's will",
        "a pod with a volume of another stateful set",
        "another template of a job",
    )
)
"""Intended differences in wording: our messages are more precise, or do not quote Go's parsers and code."""
SILLY: Final = frozenset(("a version at creation", "a binding to nothing"))
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
