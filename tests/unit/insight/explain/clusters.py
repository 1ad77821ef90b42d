"""Small clusters as plain data, for explanations."""

from typing import Any

from moorage.common.errors import InputError
from moorage.insight.explain.explanation import PodExplanation
from moorage.insight.explain.pods import explain_pod
from moorage.insight.explain.workloads import explain_workload
from moorage.insight.whatif.edits import decode_edit
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.workload_pods import find_workload
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
HARD = "DoNotSchedule"
ANTI = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "web"}}}]}}  # fmt: skip
NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": "nobody"}}}]}}  # fmt: skip
ON_SSD = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}]}}}  # fmt: skip
TO_ONE = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n7"]}]}]}}}  # fmt: skip
SPREAD = [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": HARD, "nodeAffinityPolicy": "Ignore",
           "labelSelector": {"matchLabels": {"app": "web"}}}]  # fmt: skip
PORT = [{"name": "main", "image": "app", "ports": [{"containerPort": 80, "hostPort": 80}]}]
TAINT = {"key": "gpu", "value": "only", "effect": "NoSchedule"}
CLAIM = [{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}]


def node(name: str, *, zone: str = "z1", cpu: str = "4", labels: Object | None = None, **spec: Any) -> Object:
    own = {HOSTNAME: name, ZONE: zone, **(labels or {})}
    allocatable = {"cpu": cpu, "memory": "8Gi", "pods": "10"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def pod(
    name: str, *, on: str = "", labels: Object | None = None, requests: Object | None = None, **spec: Any
) -> Object:
    container = {"name": "main", "image": "app", "resources": {"requests": requests or {"cpu": "1"}}}
    pod_spec = {"containers": [container], **spec, **({"nodeName": on} if on else {})}
    manifest: Object = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels or {}},
        "spec": pod_spec,
    }
    return {**manifest, "status": {"phase": "Running"}} if on else manifest


def session(*objects: Object, config: str | None = None, honors_nominations: bool = False, gates: str = "") -> Session:
    policy = load_policy(collect_plugins(), config, features=FeatureGates.parse(gates) if gates else None)
    documents = to_documents(objects, source="the test")
    return Session(documents, policy, honors_nominations=honors_nominations)


def check_changes(objects: list[Object], kinds: list[str]) -> None:
    """Explain the pod ``p``: the changes have these kinds, help after a reload, and need all of their edits."""
    with session(*objects) as opened:
        explained = explain_pod(opened, "default/p")
    assert [change.kind for change in explained.changes] == kinds
    assert not explained.stopped
    for change in explained.as_data()["changes"]:
        assert outcome(objects, change["edits"]) == (change["node"], tuple(change.get("victims", ())))
        for omitted in range(len(change["edits"])):
            fewer = [edit for index, edit in enumerate(change["edits"]) if index != omitted]
            assert outcome(objects, fewer) in ("refused", ("", ()))


def outcome(objects: list[Object], edits: list[Any]) -> object:
    """Apply edits to a new session; return the node and the victims of the pod ``p``."""
    with session(*objects) as fresh:
        try:
            fresh.apply(*(decode_edit(edit) for edit in edits))
        except InputError:
            return "refused"
        attempt = fresh.try_pod("default/p")
        return attempt.node or attempt.nominated_node, attempt.victims


GATES = "GenericWorkload=true,TopologyAwareWorkloadScheduling=true"


def gang(count: int, *, name: str = "ring", topology: str = "") -> Object:
    spec: Object = {"schedulingPolicy": {"gang": {"minCount": count}}}
    if topology:
        spec["schedulingConstraints"] = {"topology": [{"key": topology}]}
    return {"apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "metadata": {"name": name}, "spec": spec}


def members(count: int, **spec: Any) -> list[Object]:
    return [pod(f"ring-{number}", schedulingGroup={"podGroupName": "ring"}, **spec) for number in range(count)]


def opened(*objects: Object) -> Session:
    return session(*objects, gates=GATES)


def explained_group(*objects: Object) -> tuple[int, int, PodExplanation]:
    with opened(*objects) as cluster:
        workload = find_workload(cluster, "podgroup/ring", "default")
        assert workload is not None
        explanation = explain_workload(cluster, workload)
    assert explanation.next is not None
    return explanation.fits, explanation.of, explanation.next


SIX_OF_EIGHT = [node("n1"), node("n2"), pod("blocker", on="n2", requests={"cpu": "2"}), gang(8), *members(8)]
RACK = "rack"
