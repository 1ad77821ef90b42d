"""Pods and nodes in one line, for tests and examples."""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

import msgspec

from moorage.common.errors import did_you_mean
from moorage.kube.api.affinity import Taint, Toleration
from moorage.kube.api.container import Container, ContainerPort, ResourceRequirements
from moorage.kube.api.meta import ObjectMeta, OwnerReference
from moorage.kube.api.node import ContainerImage, Node, NodeSpec, NodeStatus
from moorage.kube.api.pod import Pod, PodSpec, PodStatus
from moorage.kube.api.quantity import Quantity

_numbers = count(1)


def make_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    requests: Mapping[str, Quantity] | None = None,
    limits: Mapping[str, Quantity] | None = None,
    node: str = "",
    priority: int | None = None,
    tolerates: Iterable[Toleration | str] = (),
    host_ports: Iterable[ContainerPort | int] = (),
    image: str = "app:1",
    status: PodStatus | Mapping[str, Any] | None = None,
    owner: OwnerReference | None = None,
    uid: str = "",
    terminating: bool = False,
    metadata: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """Build a pod with one container.

    ``spec`` takes any other field of the spec, as in :class:`~moorage.kube.api.pod.PodSpec` or as plain data of a
    manifest. ``status`` and ``metadata`` take such data as well. As in the API, limits are the default of requests.

    >>> make_pod("web", requests={"cpu": "500m"}).requests
    {'cpu': 500}
    >>> make_pod("web", affinity={"nodeAffinity": {}}, annotations={"team": "shop"}).annotations
    {'team': 'shop'}
    """
    container = Container(
        name="main",
        image=image,
        resources=ResourceRequirements(requests={**(limits or {}), **(requests or {})}, limits=dict(limits or {})),
        ports=tuple(
            p if isinstance(p, ContainerPort) else ContainerPort(container_port=p, host_port=p) for p in host_ports
        ),
    )
    return Pod(
        metadata=ObjectMeta(
            **{
                "name": name,
                "namespace": namespace,
                "uid": uid or f"{namespace}/{name}/{next(_numbers)}",
                "labels": dict(labels or {}),
                "annotations": dict(annotations or {}),
                "owner_references": (owner,) if owner else (),
                "deletion_timestamp": "2026-01-01T00:00:00Z" if terminating else None,
                **_fields(ObjectMeta, metadata or {}),
            }
        ),
        spec=PodSpec(
            **{"containers": (container,), **_fields(PodSpec, spec)},
            node_name=node,
            priority=priority,
            tolerations=tuple(
                t if isinstance(t, Toleration) else Toleration(key=t, operator="Exists") for t in tolerates
            ),
        ),
        status=status if isinstance(status, PodStatus) else PodStatus(**_fields(PodStatus, status or {})),
    )


def make_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    allocatable: Mapping[str, Quantity] | None = None,
    taints: Iterable[Taint] = (),
    cordoned: bool = False,
    images: Mapping[str, int] | None = None,
    features: Iterable[str] = (),
    zone: str = "",
    metadata: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
) -> Node:
    """Build a node; by default it has 4 CPUs, 32Gi, 110 pods and its hostname label.

    ``metadata``, ``spec`` and ``status`` take any other fields, as structs or as plain data of a manifest.

    >>> make_node("n1", allocatable={"cpu": 8}).allocatable["cpu"]
    8000
    """
    base = {"kubernetes.io/hostname": name} | ({"topology.kubernetes.io/zone": zone} if zone else {})
    return Node(
        metadata=ObjectMeta(
            **{
                "name": name,
                "uid": f"node/{name}",
                "labels": base if labels is None else dict(base) | dict(labels),
                "annotations": dict(annotations or {}),
                **_fields(ObjectMeta, metadata or {}),
            }
        ),
        spec=NodeSpec(**{"unschedulable": cordoned, "taints": tuple(taints), **_fields(NodeSpec, spec or {})}),
        status=NodeStatus(
            **{
                "allocatable": {"cpu": 4, "memory": "32Gi", "pods": 110, **(allocatable or {})},
                "images": tuple(ContainerImage(names=(image,), size_bytes=x) for image, x in (images or {}).items()),
                "declared_features": tuple(features),
                **_fields(NodeStatus, status or {}),
            }
        ),
    )


def _fields(struct: type[msgspec.Struct], values: Mapping[str, Any]) -> dict[str, Any]:
    """Convert plain data to the fields of a struct. Names may be in snake_case or camelCase, unknown ones raise."""
    if not values:
        return {}  # most pods of a test. Resolving the annotations of a struct takes longer than building the pod
    fields = {name: field for field in msgspec.structs.fields(struct) for name in (field.name, field.encode_name)}
    converted: dict[str, Any] = {}
    for name, value in values.items():
        if name not in fields:
            raise TypeError(f"{struct.__name__} has no field {name!r}; {did_you_mean(name, fields)}".rstrip("; "))
        field = fields[name]
        converted[field.name] = value if _is_typed(value) else msgspec.convert(value, field.type)
    return converted


def _is_typed(value: object) -> bool:
    return isinstance(value, msgspec.Struct) or (
        isinstance(value, (tuple, list)) and any(isinstance(item, msgspec.Struct) for item in value)
    )
