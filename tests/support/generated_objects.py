"""Objects of every served kind: each field set once, and each field of a rich object omitted once."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from tests.support.api import Data

from moorage.kube.api.kinds import KINDS, Kind
from moorage.kube.schema import Field, Schema, find_kind_schema, find_schema

MAX_DEPTH: Final = 7
"""Deeper fields belong to types that occur elsewhere too."""
LABELS: Final = {"app": "web"}
SELECTOR: Final = {"matchLabels": LABELS}
CONTAINER: Final = {"name": "web", "image": "web:1"}
TEMPLATE: Final = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
ONE_SHOT: Final = {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}}
WORKLOAD: Final = {"spec": {"selector": SELECTOR, "template": TEMPLATE}}
CLAIM_SPEC: Final = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
WEBHOOK: Final = {
    "name": "a.example.org",
    "clientConfig": {"service": {"name": "hook", "namespace": "default"}},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
    "rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}],
}
ROLE_REF: Final = {"kind": "ClusterRole", "name": "view"}
MINIMAL: Final[Mapping[str, Data]] = {
    "APIService": {
        "metadata": {"name": "v1.example.org"},
        "spec": {
            "group": "example.org",
            "version": "v1",
            "groupPriorityMinimum": 100,
            "versionPriority": 10,
            "insecureSkipTLSVerify": True,
            "service": {"name": "api", "namespace": "default"},
        },
    },
    "CSIDriver": {"spec": {}},
    "CSINode": {"spec": {"drivers": [{"name": "d.example.org", "nodeID": "n", "topologyKeys": ["zone"]}]}},
    "ClusterRole": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "ClusterRoleBinding": {"roleRef": ROLE_REF, "subjects": [{"kind": "User", "name": "ann"}]},
    "ConfigMap": {"data": {"a": "b"}},
    "ControllerRevision": {"revision": 1, "data": {"a": 1}},
    "CronJob": {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": ONE_SHOT}}}},
    "CustomResourceDefinition": {
        "metadata": {"name": "quotas.example.org"},
        "spec": {
            "group": "example.org",
            "scope": "Namespaced",
            "names": {"plural": "quotas", "kind": "Quota"},
            "versions": [
                {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
            ],
        },
    },
    "DaemonSet": WORKLOAD,
    "Deployment": WORKLOAD,
    "EndpointSlice": {"addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.3"]}], "ports": [{"port": 80}]},
    "Endpoints": {"subsets": [{"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 80}]}]},
    "HorizontalPodAutoscaler": {
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}
    },
    "Ingress": {"spec": {"defaultBackend": {"service": {"name": "web", "port": {"number": 80}}}}},
    "IngressClass": {"spec": {"controller": "example.org/controller"}},
    "Job": {"spec": {"template": ONE_SHOT}},
    "Lease": {"spec": {}},
    "LimitRange": {"spec": {"limits": [{"type": "Container", "max": {"cpu": "1"}}]}},
    "MutatingWebhookConfiguration": {"webhooks": [WEBHOOK]},
    "Namespace": {},
    "NetworkPolicy": {"spec": {"podSelector": {}, "ingress": [{"ports": [{"port": 80}]}]}},
    "Node": {},
    "PersistentVolume": {
        "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}
    },
    "PersistentVolumeClaim": {"spec": CLAIM_SPEC},
    "Pod": {"spec": {"containers": [CONTAINER]}},
    "PodDisruptionBudget": {"spec": {"minAvailable": 1, "selector": SELECTOR}},
    "PodTemplate": {"template": TEMPLATE},
    "PriorityClass": {"value": 10},
    "ReplicaSet": WORKLOAD,
    "ReplicationController": {"spec": {"template": TEMPLATE}},
    "ResourceQuota": {"spec": {"hard": {"pods": "3"}}},
    "Role": {"rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]},
    "RoleBinding": {"roleRef": ROLE_REF, "subjects": [{"kind": "Group", "name": "devs"}]},
    "RuntimeClass": {"handler": "runc"},
    "Secret": {"data": {"a": "Yg=="}},
    "Service": {"spec": {"ports": [{"port": 80}]}},
    "ServiceAccount": {},
    "StatefulSet": {"spec": {"selector": SELECTOR, "serviceName": "web", "template": TEMPLATE}},
    "StorageClass": {"provisioner": "example.org/disk"},
    "ValidatingWebhookConfiguration": {"webhooks": [WEBHOOK]},
}
"""A valid object of each kind with little more than its required fields."""
PROBE_HANDLERS: Final[tuple[Data, ...]] = (
    {"httpGet": {"port": 80}},
    {"tcpSocket": {"port": 80}},
    {"grpc": {"port": 80}},
    {"exec": {"command": ["true"]}},
)
VOLUMES: Final[tuple[Data, ...]] = (
    {},
    {"secret": {"secretName": "s"}},
    {"configMap": {"name": "c"}},
    {"hostPath": {"path": "/data"}},
    {"downwardAPI": {"items": [{"path": "a", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    {"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}, {"configMap": {"name": "c"}}]}},
    {"ephemeral": {"volumeClaimTemplate": {"spec": CLAIM_SPEC}}},
    {"persistentVolumeClaim": {"claimName": "c"}},
    {"rbd": {"monitors": ["m"], "image": "i"}},
    {"iscsi": {"targetPortal": "1.2.3.4:3260", "iqn": "iqn.2001-04.com.example:storage", "lun": 0}},
    {"azureDisk": {"diskName": "d", "diskURI": "https://b/d.vhd"}},
    {"image": {"reference": "data:latest"}},
    {"nfs": {"server": "s", "path": "/p"}},
    {"csi": {"driver": "d.example.org"}},
)
IMAGES: Final = (
    "web",
    "web:latest",
    "web:1",
    "reg:5000/a/web",
    "web@sha256:" + "a" * 64,
    "Web",
    "UP.io/web",
    "<image>",
)
ENVIRONMENT: Final = [
    {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "B", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
    {"name": "C", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    {"name": "D", "value": ""},
]
AMOUNTS: Final = ({"cpu": "1000m"}, {"cpu": 0.5}, {"memory": "1024Mi"}, {"cpu": 2, "memory": "1e3"}, {"cpu": "100u"})
CONTAINERS: Final[tuple[Data, ...]] = (
    *({probe: handler} for probe in ("livenessProbe", "readinessProbe", "startupProbe") for handler in PROBE_HANDLERS),
    {"lifecycle": {"preStop": {"httpGet": {"port": 80}}}},
    *({"image": image} for image in IMAGES),
    *({"resources": {"limits": amounts}} for amounts in AMOUNTS),
    {"env": ENVIRONMENT},
    {"ports": [{"containerPort": 80}]},
    {"ports": [{"containerPort": 80, "hostPort": 0, "name": ""}]},
    {"stdin": False, "command": [], "env": None},
)
POD_SPECS: Final[tuple[Data, ...]] = (
    *({"containers": [CONTAINER | fields]} for fields in CONTAINERS),
    *({"initContainers": [{**CONTAINER, "name": "init"} | fields]} for fields in CONTAINERS[12:]),
    *({"volumes": [{"name": "v", **volume}]} for volume in VOLUMES),
    {"serviceAccount": "builder"},
    {"serviceAccountName": "builder"},
    {"hostNetwork": True, "containers": [{**CONTAINER, "ports": [{"containerPort": 80}]}]},
    {"hostNetwork": False, "nodeSelector": {}, "tolerations": [], "schedulerName": ""},
    {"topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]},
)
RICH: Final[Mapping[str, tuple[Data, ...]]] = {
    "ClusterRole": ({"rules": []}, {"rules": None}, {"aggregationRule": {"clusterRoleSelectors": [SELECTOR]}}),
    "CustomResourceDefinition": (
        {
            "spec": {
                "conversion": {
                    "strategy": "Webhook",
                    "webhook": {
                        "conversionReviewVersions": ["v1"],
                        "clientConfig": {"service": {"name": "c", "namespace": "default"}},
                    },
                }
            }
        },
    ),
    "DaemonSet": ({"spec": {"updateStrategy": {"type": "OnDelete"}}},),
    "Deployment": ({"spec": {"strategy": {"type": "Recreate"}}},),
    "Ingress": (
        {"spec": {"rules": [{"host": "*.example.org"}]}},
        {"spec": {"rules": [{"host": "a_b.example.org"}]}},
        {"spec": {"rules": [{"host": "10.1.2.3"}]}},
        {"spec": {"defaultBackend": None}},
        {"spec": {"tls": [{"hosts": ["a.example.org"]}]}},
    ),
    "Job": (
        {"spec": {"backoffLimitPerIndex": 1, "completionMode": "Indexed", "completions": 2}},
        {"spec": {"template": {"metadata": {"labels": LABELS}}}},
    ),
    "NetworkPolicy": ({"spec": {"egress": [{"to": [{"podSelector": {}}]}]}},),
    "ClusterRoleBinding": (
        {"subjects": [{"kind": "ServiceAccount", "name": "a"}]},
        {"subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "default"}]},
    ),
    "RoleBinding": (
        {"subjects": [{"kind": "ServiceAccount", "name": "a"}]},
        {"subjects": [{"kind": "Robot", "name": "a"}]},
        {"roleRef": {"kind": "ClusterRole", "name": ""}},
    ),
    "Secret": ({"data": {"a": "not base64!"}}, {"stringData": {"a": "b"}}, {"type": "kubernetes.io/tls"}),
    "APIService": ({"metadata": {"name": "other"}},),
    "Service": (
        *({"spec": {"type": kind}} for kind in ("NodePort", "LoadBalancer", "ClusterIP")),
        {"spec": {"type": "ExternalName", "externalName": "example.org"}},
        {"spec": {"sessionAffinity": "ClientIP"}},
        {"spec": {"externalIPs": ["1.2.3.4"]}},
        {"spec": {"clusterIP": "None"}},
    ),
    "StatefulSet": (
        {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM_SPEC}]}},
        {"spec": {"volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {}}]}},
        {"spec": {"updateStrategy": {"type": "OnDelete"}}},
        {"spec": {"updateStrategy": {"type": "RollingUpdate"}}},
        {
            "spec": {
                "template": {
                    "spec": {"containers": [{**CONTAINER, "volumeMounts": [{"name": "data", "mountPath": "/d"}]}]}
                },
                "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": CLAIM_SPEC}],
            }
        },
    ),
    "HorizontalPodAutoscaler": ({"spec": {"behavior": {"scaleUp": {"stabilizationWindowSeconds": 3}}}},),
}
"""Changes of the minimal object that set fields with defaults that depend on each other."""
POD_PATHS: Final[Mapping[str, tuple[str, ...]]] = {
    "Pod": ("spec",),
    "PodTemplate": ("template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
    **dict.fromkeys(
        ("DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet"),
        ("spec", "template", "spec"),
    ),
}
"""The pod spec of each kind that has one."""
SAMPLES: Final[Mapping[str, Any]] = {
    "bool": True,
    "bytes": "Yg==",
    "double": 1.5,
    "duration": "3s",
    "int32": 3,
    "int64": 3,
    "intorstring": 1,
    "microtime": "2026-01-02T03:04:05.000000Z",
    "quantity": "1500m",
    "string": "sample",
    "time": "2026-01-02T03:04:05Z",
}


def served_kinds() -> Iterator[Kind]:
    """Yield the kinds with a minimal object."""
    return (kind for kind in KINDS if kind.name in MINIMAL and "update" in kind.verbs)


def objects(kind: Kind) -> Iterator[tuple[str, Data]]:
    """Yield named objects of a kind."""
    minimal = {"apiVersion": kind.api_version, "kind": kind.name, **copy.deepcopy(MINIMAL.get(kind.name, {}))}
    minimal.setdefault("metadata", {}).setdefault("name", "sample")
    yield "minimal", minimal
    for number, change in enumerate(_changes(kind.name)):
        yield f"change {number}", _merged(minimal, change)
    schema = find_kind_schema(kind.api_version, kind.name)
    assert schema is not None
    for path in _paths(minimal):
        if path[0] not in ("apiVersion", "kind", "metadata"):
            yield f"without {_text(path)}", _without(minimal, path)
    for path, sample in _fields(minimal, schema, (), MAX_DEPTH):
        yield f"with {_text(path)}", _with(minimal, path, sample)


def _changes(kind: str) -> Iterator[Data]:
    yield from RICH.get(kind, ())
    for spec in POD_SPECS if kind in POD_PATHS else ():
        change: Data = spec
        for key in reversed(POD_PATHS[kind]):
            change = {key: change}
        yield change


def _fields(data: Any, schema: Schema, path: tuple[Any, ...], depth: int) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Yield each field that an object lacks with a sample, at every struct that the object has."""
    skipped = {"managedFields"} if path else {"apiVersion", "kind", "metadata", "status"}
    for name, field in schema.by_name.items():
        if name in skipped or not name:
            continue
        here = (*path, name)
        if name not in data:
            if (sample := _sample(field, depth - len(path))) is not None:
                yield here, sample
        elif (below := field.schema) is not None:
            content = data[name]
            items = [((), content)] if not field.shape else [((key,), item) for key, item in _entries(content)]
            for key, item in items:
                if isinstance(item, dict):
                    yield from _fields(item, below, (*here, *key), depth)


def _sample(field: Field, depth: int) -> Any:
    single: Any = SAMPLES.get(field.type)
    if single is None:
        below = find_schema(field.type)
        if below is None or depth <= 0:
            return None
        required = (item for item in below.by_name.values() if item.name and item.required)
        filled = {item.name: _sample(item, depth - 1) for item in required}
        single = {name: content for name, content in filled.items() if content is not None}
    return [single] if field.shape == "list" else {"sample": single} if field.shape == "map" else single


def _entries(content: Any) -> list[tuple[Any, Any]]:
    return list(content.items()) if isinstance(content, dict) else list(enumerate(content or ()))


def _paths(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    for key, content in _entries(data):
        yield (*path, key)
        if isinstance(content, dict | list):
            yield from _paths(content, (*path, key))


def _without(data: Data, path: tuple[Any, ...]) -> Data:
    changed = copy.deepcopy(data)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    del inner[path[-1]]
    return changed


def _with(data: Data, path: tuple[Any, ...], content: Any) -> Data:
    changed = copy.deepcopy(data)
    inner: Any = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = copy.deepcopy(content)
    return changed


def _merged(data: Any, change: Any) -> Any:
    if not isinstance(data, dict) or not isinstance(change, dict):
        return copy.deepcopy(change)
    return {**data, **{key: _merged(data.get(key), content) for key, content in change.items()}}


def _text(path: tuple[Any, ...]) -> str:
    return ".".join(map(str, path))
