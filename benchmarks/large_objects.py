"""`make bench-large`: how long one large object of any kind delays an ordinary pod that is created after it.

Each row is a field of a kind, filled until the object is as large as an API server accepts: 1.5 MiB in etcd and 3 MiB
in a request. The delay is the CPU time of the engine from the first byte of the object until the ordinary pod has its
node: decoding, queue, cache, the attempt of a pod that uses the object, and the ordinary pod itself. ``later`` is the
same for the next ordinary pod after a pod was bound, a pod was deleted and a node has changed. Each row runs in a
process forked from one prepared cluster.

``--waiting`` measures events instead: the CPU time of an event per thousand waiting pods, by the reason of waiting.
"""

import argparse
import asyncio
import gc
import itertools
import json
import os
import pickle
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

from msgspec.structs import replace
from rich.console import Console
from rich.table import Table

from benchmarks.drain import Rig
from benchmarks.engine_workloads import SMALL, WORKLOADS
from moorage.common.memory import freeze_gc
from moorage.kube.api.codec import decode
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.testing import make_pod

NODES: Final = 5_000
EXISTING: Final = 2_000
MAX_STORED: Final = 1_400_000
"""Bytes in etcd: its limit is 1.5 MiB for a request."""
MAX_SENT: Final = 3 << 20
MAX_SECONDS: Final = 10
GOAL_SECONDS: Final = 0.5
GOAL_MILLISECONDS: Final = 0.1
WAITING_NODES: Final = 50
TURNS: Final = 20
Json = dict[str, Any]
HOSTNAME: Final = "kubernetes.io/hostname"
ZONE: Final = "topology.kubernetes.io/zone"


class Case(NamedTuple):
    """A field with ``count`` elements; ``pods`` use the object, and ``most`` is the validation's limit."""

    kind: str
    field: str
    build: Callable[[int], Json]
    pods: tuple[Json, ...] = ()
    most: int = 1_000_000


def _pod(name: str = "large", *, labels: Json | None = None, status: Json | None = None, **spec: Any) -> Json:
    containers = spec.pop("containers", None) or [{"name": "main", "image": "a"}]
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}}
    return {"metadata": metadata, "spec": {"containers": containers, **spec}, "status": status or {}}


def _volumes(name: str, source: Callable[[int], Json]) -> Case:
    return Case(
        "Pod",
        f"spec.volumes ({name})",
        lambda n: _pod(volumes=[{"name": f"v{i}", **source(i)} for i in range(n)]),
    )


def _container(**fields: Any) -> Json:
    return _pod(containers=[{"name": "main", "image": "a", **fields}])


def _object(spec: Json | None = None, *, status: Json | None = None, **fields: Any) -> Json:
    metadata = {"name": "large", "namespace": "default", "uid": "uid-large", "resourceVersion": "1"}
    metadata |= fields.pop("metadata", {})
    return {"metadata": metadata, "spec": spec or {}, "status": status or {}, **fields}


def _map(count: int, value: Any = "") -> Json:
    return {f"k{number}": value for number in range(count)}


def _names(count: int) -> list[str]:
    return [f"v{number}" for number in range(count)]


def _expressions(count: int, operator: str = "Exists", **more: Any) -> list[Json]:
    return [{"key": f"k{number}", "operator": operator, **more} for number in range(count)]


def _node_affinity(terms: list[Json]) -> Json:
    return _pod(
        affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}
    )


def _preferred_nodes(terms: list[Json]) -> Json:
    preferred = [{"weight": 1, "preference": term} for term in terms]
    return _pod(affinity={"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}})


def _required(kind: str, terms: list[Json]) -> Json:
    return _pod(affinity={kind: {"requiredDuringSchedulingIgnoredDuringExecution": terms}})


def _preferred(kind: str, terms: list[Json]) -> Json:
    weighted = [{"weight": 1, "podAffinityTerm": term} for term in terms]
    return _pod(affinity={kind: {"preferredDuringSchedulingIgnoredDuringExecution": weighted}})


def _terms(count: int, key: str = HOSTNAME) -> list[Json]:
    """Make terms that each select other pods of the cluster."""
    return [
        {"topologyKey": key, "labelSelector": {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"}]}}
        for number in range(count)
    ]


def _in_terms(count: int) -> list[Json]:
    return [{"topologyKey": ZONE, "labelSelector": {"matchLabels": {"app": f"v{number}"}}} for number in range(count)]


def _key_terms(count: int) -> list[Json]:
    return [{"topologyKey": f"k{number}", "labelSelector": {"matchLabels": {"app": "v1"}}} for number in range(count)]


def _one_term(**selector: Any) -> list[Json]:
    return [{"topologyKey": ZONE, "labelSelector": selector}]


def _spread(constraints: list[Json]) -> Json:
    return _pod(labels={"app": "v1"}, topologySpreadConstraints=constraints)


def _constraints(count: int, action: str) -> list[Json]:
    return [
        {
            "maxSkew": 1,
            "topologyKey": f"k{number}",
            "whenUnsatisfiable": action,
            "labelSelector": {"matchExpressions": [{"key": f"k{number}", "operator": "DoesNotExist"}]},
        }
        for number in range(count)
    ]


def _one_constraint(action: str, **more: Any) -> list[Json]:
    return [{"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": action, **more}]


def _claim(name: str, **devices: Any) -> Json:
    return _object({"devices": devices}, metadata={"name": name})


def _request(name: str, **more: Any) -> Json:
    return {"name": name, "exactly": {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **more}}


def _cel(expression: str) -> Json:
    return {"cel": {"expression": expression}}


def _slice(devices: list[Json], **more: Any) -> Json:
    pool = {"name": "large", "generation": 1, "resourceSliceCount": 1}
    return _object({"driver": "gpu.example.com", "pool": pool, "allNodes": True, "devices": devices, **more})


def _uses_claim(name: str) -> tuple[Json, ...]:
    return (_pod("user", resourceClaims=[{"name": "gpu", "resourceClaimName": name}]),)


def _uses_volume(name: str) -> tuple[Json, ...]:
    return (_pod("user", volumes=[{"name": "a", "persistentVolumeClaim": {"claimName": name}}]),)


def _node(*, labels: Json | None = None, spec: Json | None = None, **status: Any) -> Json:
    capacity = {"cpu": "32", "memory": "256Gi", "pods": "250"}
    return _object(
        spec or {},
        metadata={"labels": {HOSTNAME: "large", ZONE: "zone-1", **(labels or {})}},
        status={"allocatable": capacity | status.pop("allocatable", {}), **status},
    )


PLAIN: Final = "x" * 8
USER: Final = (_pod("user", labels={"app": "v1"}),)
POD_CASES: Final = (
    Case("Pod", "metadata.labels", lambda n: _pod(labels=_map(n))),
    Case("Pod", "metadata.annotations", lambda n: _object(metadata={"annotations": {"k0": "x" * n}}), most=250_000),
    Case("Pod", "metadata.finalizers", lambda n: _object(metadata={"finalizers": [f"a.b/{i}" for i in range(n)]})),
    Case(
        "Pod",
        "metadata.ownerReferences",
        lambda n: _object(
            metadata={
                "ownerReferences": [{"apiVersion": "v1", "kind": "K", "name": f"v{i}", "uid": f"{i}"} for i in range(n)]
            }
        ),
    ),
    Case("Pod", "spec.containers", lambda n: _pod(containers=[{"name": f"v{i}", "image": f"i{i}"} for i in range(n)])),
    Case(
        "Pod",
        "spec.containers[*].resources",
        lambda n: _pod(
            containers=[
                {"name": f"v{i}", "image": "a", "resources": {"requests": {f"a.b/r{i}": "0"}}} for i in range(n)
            ]
        ),
    ),
    Case(
        "Pod", "spec.containers[0].env", lambda n: _container(env=[{"name": f"v{i}", "value": "x"} for i in range(n)])
    ),
    Case("Pod", "spec.containers[0].image", lambda n: _pod(containers=[{"name": "main", "image": "a" * n}])),
    Case(
        "Pod",
        "spec.containers[0].ports (host)",
        lambda n: _container(
            ports=[
                {"containerPort": 1, "hostPort": i % 65535 + 1, "protocol": ("TCP", "UDP", "SCTP")[i // 65535]}
                for i in range(n)
            ]
        ),
        most=196_000,
    ),
    Case(
        "Pod",
        "spec.containers[0].ports (host, addresses)",
        lambda n: _container(
            ports=[
                {"containerPort": 1, "hostPort": 80, "hostIP": f"10.{i >> 16}.{i >> 8 & 255}.{i & 255}"}
                for i in range(n)
            ]
        ),
    ),
    Case(
        "Pod",
        "spec.containers[0].ports",
        lambda n: _container(ports=[{"containerPort": i % 65535 + 1} for i in range(n)]),
    ),
    Case(
        "Pod",
        "spec.containers[0].resources.requests",
        lambda n: _container(resources={"requests": {f"a.b/r{i}": "1" for i in range(n)}}),
    ),
    Case(
        "Pod",
        "spec.containers[0].resources.requests (zero)",
        lambda n: _container(resources={"requests": {f"a.b/r{i}": "0" for i in range(n)}}),
    ),
    Case(
        "Pod",
        "spec.containers[0].volumeMounts",
        lambda n: _container(volumeMounts=[{"name": "a", "mountPath": f"/{i}"} for i in range(n)]),
    ),
    Case(
        "Pod",
        "spec.initContainers",
        lambda n: _pod(
            initContainers=[{"name": f"v{i}", "image": "a", "resources": {"requests": {"cpu": "1m"}}} for i in range(n)]
        ),
    ),
    Case(
        "Pod",
        "spec.initContainers (sidecars)",
        lambda n: _pod(
            initContainers=[
                {
                    "name": f"v{i}",
                    "image": "a",
                    "restartPolicy": "Always",
                    "resources": {"requests": {f"a.b/r{i}": "0"}},
                }
                for i in range(n)
            ]
        ),
    ),
    Case("Pod", "spec.nodeSelector", lambda n: _pod(nodeSelector=_map(n))),
    Case(
        "Pod",
        "nodeAffinity.required terms",
        lambda n: _node_affinity([{"matchExpressions": [item]} for item in _expressions(n)]),
    ),
    Case(
        "Pod",
        "nodeAffinity.required terms (negative)",
        lambda n: _node_affinity(
            [
                {
                    "matchExpressions": [
                        {"key": ZONE, "operator": "NotIn", "values": [f"zone-{z}" for z in range(10)]},
                        item,
                    ]
                }
                for item in _expressions(n, "DoesNotExist")
            ]
        ),
    ),
    Case(
        "Pod",
        "nodeAffinity.required expressions",
        lambda n: _node_affinity([{"matchExpressions": _expressions(n, "DoesNotExist")}]),
    ),
    Case(
        "Pod",
        "nodeAffinity.required expressions (numbers)",
        lambda n: _node_affinity(
            [{"matchExpressions": [{"key": HOSTNAME, "operator": "Gt", "values": [str(i)]} for i in range(n)]}]
        ),
    ),
    Case(
        "Pod",
        "nodeAffinity.required terms (numbers)",
        lambda n: _node_affinity(
            [{"matchExpressions": [{"key": HOSTNAME, "operator": "Gt", "values": [str(i)]}]} for i in range(n)]
        ),
    ),
    Case(
        "Pod",
        "nodeAffinity.required values",
        lambda n: _node_affinity([{"matchExpressions": [{"key": ZONE, "operator": "In", "values": _names(n)}]}]),
    ),
    Case(
        "Pod",
        "nodeAffinity.required terms (values)",
        lambda n: _node_affinity(
            [{"matchExpressions": [{"key": HOSTNAME, "operator": "NotIn", "values": [f"v{i}"]}]} for i in range(n)]
        ),
    ),
    Case(
        "Pod",
        "nodeAffinity.required fields",
        lambda n: _node_affinity(
            [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [f"node-{i}"]}]} for i in range(n)]
        ),
    ),
    Case(
        "Pod",
        "nodeAffinity.required fields (negative)",
        lambda n: _node_affinity(
            [
                {
                    "matchFields": [
                        {"key": "metadata.name", "operator": "NotIn", "values": [f"node-{i}"]} for i in range(n)
                    ]
                }
            ]
        ),
    ),
    Case(
        "Pod",
        "nodeAffinity.preferred terms",
        lambda n: _preferred_nodes([{"matchExpressions": [item]} for item in _expressions(n, "DoesNotExist")]),
    ),
    Case(
        "Pod",
        "nodeAffinity.preferred terms (values)",
        lambda n: _preferred_nodes(
            [{"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [f"node-{i}"]}]} for i in range(n)]
        ),
    ),
    Case("Pod", "podAffinity.required terms", lambda n: _required("podAffinity", _terms(n))),
    Case("Pod", "podAffinity.required terms (labels)", lambda n: _required("podAffinity", _in_terms(n))),
    Case("Pod", "podAffinity.required terms (keys)", lambda n: _required("podAffinity", _key_terms(n))),
    Case(
        "Pod",
        "podAffinity.required selector labels",
        lambda n: _required("podAffinity", _one_term(matchLabels=_map(n))),
    ),
    Case(
        "Pod",
        "podAffinity.required selector expressions",
        lambda n: _required("podAffinity", _one_term(matchExpressions=_expressions(n, "DoesNotExist"))),
    ),
    Case(
        "Pod",
        "podAffinity.required selector values",
        lambda n: _required(
            "podAffinity", _one_term(matchExpressions=[{"key": "app", "operator": "In", "values": _names(n)}])
        ),
    ),
    Case(
        "Pod",
        "podAffinity.required namespaces",
        lambda n: _required("podAffinity", [{**_terms(1)[0], "namespaces": _names(n)}]),
    ),
    Case(
        "Pod",
        "podAffinity.required namespaceSelector",
        lambda n: _required(
            "podAffinity",
            [{**_terms(1)[0], "namespaceSelector": {"matchExpressions": _expressions(n, "DoesNotExist")}}],
        ),
    ),
    Case(
        "Pod",
        "podAffinity.required terms (namespaceSelector)",
        lambda n: _required(
            "podAffinity",
            [
                {**term, "namespaceSelector": {"matchExpressions": [{"key": "k0", "operator": "DoesNotExist"}]}}
                for term in _terms(n)
            ],
        ),
    ),
    Case("Pod", "podAntiAffinity.required terms", lambda n: _required("podAntiAffinity", _terms(n))),
    Case("Pod", "podAntiAffinity.required terms (labels)", lambda n: _required("podAntiAffinity", _in_terms(n))),
    Case("Pod", "podAntiAffinity.required terms (keys)", lambda n: _required("podAntiAffinity", _key_terms(n))),
    Case(
        "Pod",
        "podAntiAffinity.required selector values",
        lambda n: _required(
            "podAntiAffinity", _one_term(matchExpressions=[{"key": "app", "operator": "NotIn", "values": _names(n)}])
        ),
    ),
    Case("Pod", "podAffinity.preferred terms", lambda n: _preferred("podAffinity", _terms(n))),
    Case("Pod", "podAffinity.preferred terms (labels)", lambda n: _preferred("podAffinity", _in_terms(n))),
    Case("Pod", "podAffinity.preferred terms (keys)", lambda n: _preferred("podAffinity", _key_terms(n))),
    Case("Pod", "podAntiAffinity.preferred terms", lambda n: _preferred("podAntiAffinity", _terms(n))),
    Case(
        "Pod",
        "spec.tolerations",
        lambda n: _pod(tolerations=[{"key": f"k{i}", "operator": "Exists"} for i in range(n)]),
    ),
    Case(
        "Pod",
        "spec.tolerations (numbers)",
        lambda n: _pod(tolerations=[{"key": "k0", "operator": "Gt", "value": str(i)} for i in range(n)]),
    ),
    Case("Pod", "topologySpreadConstraints (hard)", lambda n: _spread(_constraints(n, "DoNotSchedule"))),
    Case("Pod", "topologySpreadConstraints (soft)", lambda n: _spread(_constraints(n, "ScheduleAnyway"))),
    Case(
        "Pod",
        "topologySpreadConstraints selector values",
        lambda n: _spread(
            _one_constraint(
                "DoNotSchedule",
                labelSelector={"matchExpressions": [{"key": "app", "operator": "NotIn", "values": _names(n)}]},
            )
        ),
    ),
    Case(
        "Pod",
        "topologySpreadConstraints selector expressions",
        lambda n: _spread(
            _one_constraint("DoNotSchedule", labelSelector={"matchExpressions": _expressions(n, "DoesNotExist")})
        ),
    ),
    Case(
        "Pod",
        "topologySpreadConstraints.matchLabelKeys",
        lambda n: _pod(
            labels=_map(n),
            topologySpreadConstraints=_one_constraint("DoNotSchedule", labelSelector={}, matchLabelKeys=list(_map(n))),
        ),
    ),
    Case("Pod", "spec.schedulingGates", lambda n: _pod(schedulingGates=[{"name": f"v{i}"} for i in range(n)])),
    _volumes("claims", lambda i: {"persistentVolumeClaim": {"claimName": f"v{i}"}}),
    _volumes("one claim", lambda _: {"persistentVolumeClaim": {"claimName": "later"}}),
    _volumes("ephemeral", lambda _: {"ephemeral": {"volumeClaimTemplate": {"spec": {}}}}),
    _volumes("config maps", lambda _: {"configMap": {"name": "a"}}),
    _volumes("disks", lambda i: {"gcePersistentDisk": {"pdName": f"v{i}"}}),
    _volumes("images", lambda i: {"image": {"reference": f"v{i}"}}),
    _volumes("CSI", lambda _: {"csi": {"driver": "a"}}),
    _volumes("iSCSI", lambda i: {"iscsi": {"iqn": f"v{i}", "lun": 1, "targetPortal": "a"}}),
    Case(
        "Pod",
        "spec.volumes (RBD)",
        lambda n: _pod(
            volumes=[
                {"name": "v0", "rbd": {"image": "a", "monitors": _names(n)}},
                {"name": "v1", "rbd": {"image": "a", "monitors": ["z"]}},
            ]
        ),
    ),
    Case(
        "Pod",
        "spec.resourceClaims",
        lambda n: _pod(resourceClaims=[{"name": f"v{i}", "resourceClaimName": f"v{i}"} for i in range(n)]),
    ),
    Case(
        "Pod",
        "spec.resourceClaims (templates)",
        lambda n: _pod(resourceClaims=[{"name": f"v{i}", "resourceClaimTemplateName": "a"} for i in range(n)]),
    ),
    Case("Pod", "spec.overhead", lambda n: _pod(overhead={f"a.b/r{i}": "0" for i in range(n)})),
    Case(
        "Pod",
        "status.conditions",
        lambda n: _pod(status={"conditions": [{"type": f"v{i}", "status": "True"} for i in range(n)]}),
    ),
    Case(
        "Pod",
        "status.containerStatuses",
        lambda n: _pod(
            status={"containerStatuses": [{"name": f"v{i}", "allocatedResources": {"cpu": "1"}} for i in range(n)]}
        ),
    ),
)
OTHER_CASES: Final = (
    Case("Node", "metadata.labels", lambda n: _node(labels=_map(n)), USER),
    Case(
        "Node",
        "spec.taints",
        lambda n: _node(spec={"taints": [{"key": f"k{i}", "effect": "NoSchedule"} for i in range(n)]}),
        (_pod("user", tolerations=[{"key": f"z{i}", "operator": "Exists"} for i in range(50)]),),
    ),
    Case(
        "Node",
        "spec.taints (preferred)",
        lambda n: _node(spec={"taints": [{"key": f"k{i}", "effect": "PreferNoSchedule"} for i in range(n)]}),
        USER,
    ),
    Case(
        "Node",
        "status.images",
        lambda n: _node(images=[{"names": [f"v{i}"], "sizeBytes": 10**9} for i in range(n)]),
        USER,
    ),
    Case("Node", "status.allocatable", lambda n: _node(allocatable={f"a.b/r{i}": "1" for i in range(n)}), USER),
    Case(
        "Node",
        "status.conditions",
        lambda n: _node(conditions=[{"type": f"v{i}", "status": "True"} for i in range(n)]),
        USER,
    ),
    Case("Node", "status.declaredFeatures", lambda n: _node(declaredFeatures=_names(n)), USER),
    Case(
        "Namespace",
        "metadata.labels",
        lambda n: _object(metadata={"name": "default", "namespace": "", "labels": _map(n)}),
        USER,
    ),
    Case("Service", "spec.selector", lambda n: _object({"selector": _map(n)}), USER),
    Case(
        "Service",
        "spec.ports",
        lambda n: _object({"selector": {"app": "v1"}, "ports": [{"name": f"v{i}", "port": 1} for i in range(n)]}),
        USER,
    ),
    Case(
        "ReplicaSet",
        "spec.selector",
        lambda n: _object({"selector": {"matchLabels": _map(n)}}),
        (
            {
                **_pod("user"),
                "metadata": {
                    "name": "user",
                    "namespace": "default",
                    "uid": "user",
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": "ReplicaSet",
                            "name": "large",
                            "uid": "uid-large",
                            "controller": True,
                        }
                    ],
                },
            },
        ),
    ),
    Case(
        "StatefulSet",
        "spec.selector expressions",
        lambda n: _object({"selector": {"matchExpressions": _expressions(n, "DoesNotExist")}}),
        (
            {
                **_pod("user"),
                "metadata": {
                    "name": "user",
                    "namespace": "default",
                    "uid": "user",
                    "ownerReferences": [
                        {
                            "apiVersion": "apps/v1",
                            "kind": "StatefulSet",
                            "name": "large",
                            "uid": "uid-large",
                            "controller": True,
                        }
                    ],
                },
            },
        ),
    ),
    Case(
        "PodDisruptionBudget",
        "spec.selector",
        lambda n: _object({"selector": {"matchExpressions": _expressions(n, "DoesNotExist")}}),
        (_pod("user", priority=1000, containers=[{"name": "a", "resources": {"requests": {"cpu": "32"}}}]),),
    ),
    Case(
        "PodDisruptionBudget",
        "status.disruptedPods",
        lambda n: _object({"selector": {}}, status={"disruptedPods": _map(n, "2026-01-01T00:00:00Z")}),
        (_pod("user", priority=1000, containers=[{"name": "a", "resources": {"requests": {"cpu": "32"}}}]),),
    ),
    Case(
        "PersistentVolumeClaim",
        "spec.selector labels",
        lambda n: _object(
            {
                "storageClassName": "later",
                "selector": {"matchLabels": _map(n)},
                "resources": {"requests": {"storage": "1Gi"}},
            }
        ),
        _uses_volume("large"),
    ),
    Case(
        "PersistentVolumeClaim",
        "spec.selector values",
        lambda n: _object(
            {
                "storageClassName": "later",
                "selector": {"matchExpressions": [{"key": "app", "operator": "NotIn", "values": _names(n)}]},
                "resources": {"requests": {"storage": "1Gi"}},
            }
        ),
        _uses_volume("large"),
    ),
    Case(
        "PersistentVolumeClaim",
        "metadata.annotations",
        lambda n: _object({"storageClassName": "later"}, metadata={"annotations": _map(n)}),
        _uses_volume("large"),
    ),
    Case(
        "PersistentVolume",
        "spec.nodeAffinity terms",
        lambda n: _object(
            {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "later",
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": [item]} for item in _expressions(n)]}
                },
            },
            status={"phase": "Available"},
        ),
        _uses_volume("later"),
    ),
    Case(
        "PersistentVolume",
        "spec.nodeAffinity expressions",
        lambda n: _object(
            {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "later",
                "nodeAffinity": {
                    "required": {"nodeSelectorTerms": [{"matchExpressions": _expressions(n, "DoesNotExist")}]}
                },
            },
            status={"phase": "Available"},
        ),
        _uses_volume("later"),
    ),
    Case(
        "PersistentVolume",
        "metadata.labels (zones)",
        lambda n: _object(
            {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "later"},
            metadata={"labels": {ZONE: "__".join(_names(n)), **_map(n)}},
            status={"phase": "Available"},
        ),
        _uses_volume("later"),
    ),
    Case(
        "StorageClass",
        "allowedTopologies",
        lambda n: _object(
            metadata={"name": "later"},
            provisioner="csi.example.com",
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=[{"matchLabelExpressions": [{"key": f"k{i}", "values": ["a"]}]} for i in range(n)],
        ),
        _uses_volume("later"),
    ),
    Case(
        "StorageClass",
        "allowedTopologies values",
        lambda n: _object(
            metadata={"name": "later"},
            provisioner="csi.example.com",
            volumeBindingMode="WaitForFirstConsumer",
            allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": _names(n)}]}],
        ),
        _uses_volume("later"),
    ),
    Case(
        "StorageClass",
        "parameters",
        lambda n: _object(
            metadata={"name": "later"},
            provisioner="csi.example.com",
            volumeBindingMode="WaitForFirstConsumer",
            parameters=_map(n),
        ),
        _uses_volume("later"),
        most=512,
    ),
    Case(
        "CSIStorageCapacity",
        "nodeTopology",
        lambda n: _object(
            storageClassName="later", capacity="1Ti", nodeTopology={"matchExpressions": _expressions(n, "DoesNotExist")}
        ),
        _uses_volume("later"),
    ),
    Case(
        "CSINode",
        "spec.drivers",
        lambda n: _object(
            {"drivers": [{"name": f"v{i}", "nodeID": "a", "allocatable": {"count": 1}} for i in range(n)]},
            metadata={"name": "node-1"},
        ),
        _uses_volume("later"),
    ),
    Case(
        "ResourceClaim",
        "spec.devices.requests",
        lambda n: _claim("large", requests=[_request(f"v{i}") for i in range(n)]),
        _uses_claim("large"),
        most=32,
    ),
    Case(
        "ResourceClaim",
        "spec.devices.requests (count)",
        lambda n: _claim("large", requests=[_request("a", count=n)]),
        _uses_claim("large"),
        most=32,
    ),
    Case(
        "ResourceClaim",
        "spec.devices.requests[0].selectors",
        lambda n: _claim(
            "large",
            requests=[
                _request(
                    "a",
                    selectors=[
                        _cel(" && ".join([f'device.driver != "v{i}.{j}"' for j in range(300)])) for i in range(n)
                    ],
                )
            ],
        ),
        _uses_claim("large"),
        most=32,
    ),
    Case(
        "ResourceClaim",
        "spec.devices.constraints",
        lambda n: _claim(
            "large",
            requests=[_request(f"v{i}") for i in range(8)],
            constraints=[{"matchAttribute": f"gpu.example.com/a{i}"} for i in range(n)],
        ),
        _uses_claim("large"),
        most=32,
    ),
    Case(
        "ResourceClaim",
        "spec.devices.config",
        lambda n: _claim(
            "large",
            requests=[_request("a")],
            config=[{"opaque": {"driver": "gpu.example.com", "parameters": {"a": "x" * 10_000}}} for _ in range(n)],
        ),
        _uses_claim("large"),
        most=32,
    ),
    Case(
        "ResourceClaim",
        "status.reservedFor",
        lambda n: _object(
            {"devices": {"requests": [_request("a")]}},
            status={
                "allocation": {"devices": {"results": []}},
                "reservedFor": [{"resource": "pods", "name": f"v{i}", "uid": f"{i}"} for i in range(n)],
            },
        ),
        _uses_claim("large"),
        most=256,
    ),
    Case(
        "ResourceClaim",
        "status.allocation.nodeSelector",
        lambda n: _object(
            {"devices": {"requests": [_request("a")]}},
            status={
                "allocation": {
                    "devices": {"results": []},
                    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": _expressions(n, "DoesNotExist")}]},
                }
            },
        ),
        _uses_claim("large"),
    ),
    Case(
        "ResourceSlice",
        "spec.devices",
        lambda n: _slice(
            [{"name": f"v{i}", "attributes": {f"a{j}": {"string": "x" * 60} for j in range(32)}} for i in range(n)]
        ),
        _uses_claim("later"),
        most=128,
    ),
    Case(
        "ResourceSlice",
        "spec.devices[*].nodeSelector",
        lambda n: _slice(
            [
                {
                    "name": f"v{i}",
                    "nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": _expressions(100, "DoesNotExist")}]},
                }
                for i in range(n)
            ],
            allNodes=None,
            perDeviceNodeSelection=True,
        ),
        _uses_claim("later"),
        most=128,
    ),
    Case(
        "ResourceSlice",
        "spec.nodeSelector",
        lambda n: _slice(
            [{"name": "a"}],
            allNodes=None,
            nodeSelector={"nodeSelectorTerms": [{"matchExpressions": _expressions(n, "DoesNotExist")}]},
        ),
        _uses_claim("later"),
    ),
    Case(
        "DeviceClass",
        "spec.selectors",
        lambda n: _object(
            {"selectors": [_cel(" && ".join([f'device.driver != "v{i}.{j}"' for j in range(300)])) for i in range(n)]},
            metadata={"name": "gpu"},
        ),
        _uses_claim("later"),
        most=32,
    ),
    Case(
        "PodGroup",
        "metadata.labels",
        lambda n: _object({"schedulingPolicy": {"gang": {"minCount": 2}}}, metadata={"labels": _map(n)}),
        (_pod("user", schedulingGroup={"podGroupName": "large"}),),
    ),
    Case(
        "PodGroup",
        "spec.resourceClaims",
        lambda n: _object(
            {
                "schedulingPolicy": {"gang": {"minCount": 1}},
                "resourceClaims": [{"name": f"v{i}", "resourceClaimName": f"v{i}"} for i in range(n)],
            }
        ),
        (_pod("user", schedulingGroup={"podGroupName": "large"}),),
    ),
)


def cases() -> Iterator[Case]:
    """List the rows: every pod as a pending pod, and as one with a node."""
    yield from POD_CASES
    for case in POD_CASES:
        yield case._replace(field=f"{case.field}, bound", build=_bound(case.build), pods=USER)
    yield from OTHER_CASES


def _bound(build: Callable[[int], Json]) -> Callable[[int], Json]:
    def build_bound(count: int) -> Json:
        obj = build(count)
        return {**obj, "spec": {**obj["spec"], "nodeName": "node-7"}}

    return build_bound


def find_largest(case: Case) -> tuple[int, bytes]:
    """Return the number of elements of the largest object that an API server accepts, and the object as JSON."""
    low, high = 1, case.most
    while low < high:
        middle = (low + high + 1) // 2
        middle = min(middle, 2 * low + 64)
        obj = case.build(middle)
        if len(json.dumps(obj, separators=(",", ":"))) <= MAX_SENT and _stored(obj) <= MAX_STORED:
            low = middle
        else:
            high = middle - 1
    return low, json.dumps(case.build(low)).encode()


def _stored(value: Any) -> int:
    """Estimate the bytes of an object in protobuf. Keys of maps have a digit here, names of fields do not."""
    if isinstance(value, dict):
        return 2 + sum(_stored(item) + (len(key) + 4 if key[-1].isdigit() else 1) for key, item in value.items())
    if isinstance(value, list):
        return sum(_stored(item) + 1 for item in value)
    return len(value) + 1 if isinstance(value, str) else 2


class Measured(NamedTuple):
    """The seconds of one row."""

    kind: str
    field: str
    elements: int
    kilobytes: int
    delay: float
    later: float


async def prepared(nodes: int, existing: int = EXISTING) -> Rig:
    """Build the cluster: nodes, labeled pods, some with affinity, and the objects that rows refer to."""
    rig = Rig(WORKLOADS["devices"], nodes)
    for number in range(existing):
        rig.scheduler.handlers.pod_added(
            make_pod(
                f"old-{number}",
                node=f"node-{number % nodes}",
                requests=SMALL,
                labels={"app": f"v{number}", f"k{number}": ""},
            )
        )
    claim = {"metadata": {"name": "later", "namespace": "default", "uid": "later"}}
    apply_object(
        rig,
        "PersistentVolumeClaim",
        {
            **claim,
            "spec": {
                "storageClassName": "later",
                "accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}},
            },
            "status": {"phase": "Pending"},
        },
    )
    apply_object(
        rig,
        "StorageClass",
        {**claim, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"},
    )
    apply_object(rig, "ResourceClaim", _claim("later", requests=[_request("a")]))
    # The first claim after a start takes 0.4 s, because it reads the slices of all nodes.
    apply_object(rig, "ResourceClaim", _claim("first", requests=[_request("a")]))
    apply_object(rig, "Pod", _pod("warm", resourceClaims=[{"name": "gpu", "resourceClaimName": "first"}]))
    await _ordinary(rig, "first")
    return rig


def apply_object(rig: Rig, kind: str, content: Json | bytes) -> KubeObject:
    """Decode an object and apply it as a watch does."""
    body = content if isinstance(content, bytes) else json.dumps(content).encode()
    obj = decode(BY_NAME[kind].type, body)
    rig.scheduler.handlers.apply(None, obj)
    return obj


async def _ordinary(rig: Rig, name: str) -> None:
    """Add an ordinary pod, and schedule until it is bound."""
    pod = make_pod(name, requests=SMALL, labels={"app": name})
    rig.scheduler.handlers.pod_added(pod)
    while rig.scheduler.queue.where(pod) is not None or not rig.offline.is_idle:
        await rig.offline.loop.step()
        await asyncio.sleep(0)


async def measure(rig: Rig, case: Case, count: int, body: bytes) -> Measured:
    """Measure one row."""
    start = time.process_time()
    apply_object(rig, case.kind, body)
    for pod in case.pods:
        apply_object(rig, "Pod", pod)
    await _ordinary(rig, "next")
    delay = time.process_time() - start
    start = time.process_time()
    handlers = rig.scheduler.handlers
    running = make_pod("new", node="node-3", requests=SMALL, labels={"app": "new"})
    handlers.apply(None, running)
    handlers.apply(running, None)
    node = rig.scheduler.objects[Node].find("node-3")
    assert node is not None
    changed = decode(
        Node,
        json.dumps(
            {
                "metadata": {"name": "node-3", "uid": node.uid, "labels": {**node.labels, "changed": "yes"}},
                "status": {"allocatable": {"cpu": "32", "memory": "256Gi", "pods": "250"}},
            }
        ).encode(),
    )
    handlers.apply(node, changed)
    await _ordinary(rig, "later")
    return Measured(case.kind, case.field, count, len(body) // 1000, delay, time.process_time() - start)


def measured_apart(loop: asyncio.AbstractEventLoop, rig: Rig, case: Case) -> Measured:
    """Measure one row in a forked process; one that takes too long gets the time limit as its delay."""
    count, body = find_largest(case)
    reader, writer = os.pipe()
    if (child := os.fork()) == 0:
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        os.write(writer, pickle.dumps(loop.run_until_complete(measure(rig, case, count, body))))
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        result = pipe.read()
    os.waitpid(child, 0)
    if not result:
        return Measured(case.kind, case.field, count, len(body) // 1000, float(MAX_SECONDS), 0.0)
    row: Measured = pickle.loads(result)
    return row


def _waiting_pod(number: int, **spec: Any) -> Json:
    return _pod(f"waiting-{number}", labels={"app": f"waiting-{number}"}, **spec)


def _with_term(number: int, kind: str, **labels: str) -> Json:
    term = {"topologyKey": ZONE, "labelSelector": {"matchLabels": labels}}
    return _waiting_pod(number, **_required(kind, [term])["spec"])


WAITING: Final[dict[str, Callable[[int], Json]]] = {
    "affinity, one template": lambda n: _with_term(n, "podAffinity", app="absent"),
    "affinity, own terms": lambda n: _with_term(n, "podAffinity", app=f"absent-{n}"),
    "affinity, own negative terms": lambda n: (
        _required(
            "podAffinity",
            [{"topologyKey": f"absent-{n}", "labelSelector": {"matchExpressions": _expressions(1, "DoesNotExist")}}],
        )
        | {"metadata": {"name": f"waiting-{n}", "namespace": "default", "uid": f"uid-{n}"}}
    ),
    "spread": lambda n: _waiting_pod(
        n,
        topologySpreadConstraints=[
            {
                "maxSkew": 1,
                "topologyKey": "absent",
                "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": f"waiting-{n}"}},
            }
        ],
    ),
    "node selector": lambda n: _waiting_pod(n, nodeSelector={"absent": f"v{n}"}),
    "host port": lambda n: _waiting_pod(
        n, containers=[{"name": "a", "image": "a", "ports": [{"containerPort": 1, "hostPort": 70}]}]
    ),
    "volume claim": lambda n: _waiting_pod(
        n, volumes=[{"name": "a", "persistentVolumeClaim": {"claimName": f"absent-{n}"}}]
    ),
    "resource claim": lambda n: _waiting_pod(n, resourceClaims=[{"name": "a", "resourceClaimName": f"absent-{n}"}]),
    "CPU": lambda n: _waiting_pod(
        n, containers=[{"name": "a", "image": "a", "resources": {"requests": {"cpu": "64"}}}]
    ),
    "scheduling gate": lambda n: _waiting_pod(n, schedulingGates=[{"name": "a"}]),
    "gang": lambda n: _waiting_pod(n, schedulingGroup={"podGroupName": f"gang-{n}"}),
}


class Event(NamedTuple):
    """The seconds of an event per thousand waiting pods."""

    waiting: str
    pods: int
    event: str
    milliseconds: float


async def measure_events(name: str, pods: int, on_start: Callable[[], None] = gc.freeze) -> list[Event]:
    """Let pods wait, and measure events that do not concern them; ``on_start`` is called before the events."""
    rig = Rig(WORKLOADS["identical"], WAITING_NODES)
    handlers = rig.scheduler.handlers
    for number in range(WAITING_NODES):
        port = [70] if name == "host port" else []
        handlers.apply(None, make_pod(f"old-{number}", node=f"node-{number}", host_ports=port))
    for number in range(pods):
        if name == "gang":
            gang = {"schedulingPolicy": {"gang": {"minCount": 2}}}
            apply_object(rig, "PodGroup", _object(gang, metadata={"name": f"gang-{number}", "uid": f"gang-{number}"}))
        apply_object(rig, "Pod", WAITING[name](number))
    await rig.drain()
    gc.collect()
    node = rig.scheduler.objects[Node].find("node-3")
    assert node is not None
    running = [make_pod(f"new-{turn}", node="node-3", labels={"app": "new"}) for turn in range(TURNS)]
    relabelled = [
        replace(node, metadata=replace(node.metadata, labels={**node.labels, "turn": str(turn)}))
        for turn in range(TURNS)
    ]
    claims = [
        decode(BY_NAME["PersistentVolumeClaim"].type, json.dumps(_object(metadata={"name": f"new-{turn}"})).encode())
        for turn in range(TURNS)
    ]
    devices = [
        decode(BY_NAME["ResourceClaim"].type, json.dumps(_claim(f"new-{turn}")).encode()) for turn in range(TURNS)
    ]
    changes: dict[str, list[tuple[KubeObject | None, KubeObject | None]]] = {
        "pod bound": [(None, pod) for pod in running],
        "pod deleted": [(pod, None) for pod in running],
        "pod added": [(None, make_pod(f"pending-{turn}", scheduler_name="other")) for turn in range(TURNS)],
        "node label changed": list(itertools.pairwise((node, *relabelled))),
        "volume claim added": [(None, claim) for claim in claims],
        "resource claim added": [(None, claim) for claim in devices],
    }
    events = []
    on_start()
    for event, steps in changes.items():
        start = time.process_time()
        for before, after in steps:
            handlers.apply(before, after)
        spent = (time.process_time() - start) / len(steps)
        events.append(Event(name, pods, event, spent * 1e6 / pods))
    return events


def main() -> None:
    """Measure, print the table, and write the rows to the output file if there is one."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("fields", nargs="*", help="only rows that contain one of these texts")
    parser.add_argument("--nodes", type=int, default=NODES)
    parser.add_argument("--json", type=Path, help="write the rows to this file as well")
    parser.add_argument("--waiting", type=int, action="append", default=[], help="measure events with this many pods")
    options = parser.parse_args()
    loop = asyncio.new_event_loop()
    if options.waiting:
        events = [
            event
            for name in WAITING
            for pods in options.waiting
            if not options.fields or any(text in name for text in options.fields)
            for event in loop.run_until_complete(measure_events(name, pods))
        ]
        _show_events(events)
        return
    rig = loop.run_until_complete(prepared(options.nodes))
    gc.collect()
    freeze_gc()
    rows = []
    for case in cases():
        if not options.fields or any(text in f"{case.kind} {case.field}" for text in options.fields):
            row = measured_apart(loop, rig, case)
            sys.stderr.write(f"{row.kind:22} {row.field:52} {row.elements:8} {row.delay:8.3f} {row.later:8.3f}\n")
            rows.append(row)
    _show(rows)
    if options.json:
        options.json.write_text(json.dumps([row._asdict() for row in rows], indent=1) + "\n")


def _show_events(events: list[Event]) -> None:
    table = Table("waiting for", "pods", "event", "ms per thousand pods")
    for event in sorted(events, key=lambda event: -event.milliseconds):
        style = "red" if event.milliseconds > GOAL_MILLISECONDS else ""
        table.add_row(event.waiting, f"{event.pods:,}", event.event, f"{event.milliseconds:.3f}", style=style)
    Console(width=130).print(table)


def _show(rows: list[Measured]) -> None:
    table = Table("kind", "field", "elements", "kB", "delay (s)", "later (s)")
    for row in sorted(rows, key=lambda row: -max(row.delay, row.later)):
        cells = (row.kind, row.field, f"{row.elements:,}", f"{row.kilobytes:,}", f"{row.delay:.3f}", f"{row.later:.3f}")
        table.add_row(*cells, style="red" if max(row.delay, row.later) > GOAL_SECONDS else "")
    Console(width=130).print(table)


if __name__ == "__main__":
    main()
