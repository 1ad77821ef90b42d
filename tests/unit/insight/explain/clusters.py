"""Small clusters as plain data, for explanations."""

from typing import Any

from moorage.insight.whatif.session import Session
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import documents_of
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

Object = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


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


def session(*objects: Object, config: str | None = None, honours_nominations: bool = False, gates: str = "") -> Session:
    policy = load_policy(collect_plugins(), config, features=FeatureGates.parse(gates) if gates else None)
    documents = documents_of(objects, source="the test")
    return Session(documents, policy, honours_nominations=honours_nominations)
