"""Pods and nodes in one line, for tests and examples."""

from collections.abc import Iterable, Mapping
from itertools import count
from typing import Any

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
    requests: Mapping[str, Quantity] | None = None,
    node: str = "",
    priority: int | None = None,
    tolerates: Iterable[Toleration | str] = (),
    host_ports: Iterable[ContainerPort | int] = (),
    image: str = "app:1",
    status: PodStatus | None = None,
    owner: OwnerReference | None = None,
    uid: str = "",
    terminating: bool = False,
    **spec: Any,
) -> Pod:
    """Build a pod with one container; ``spec`` takes any other field of :class:`~moorage.kube.api.pod.PodSpec`.

    >>> make_pod("web", requests={"cpu": "500m"}).requests
    {'cpu': 500}
    """
    container = Container(
        name="main",
        image=image,
        resources=ResourceRequirements(requests=dict(requests or {})),
        ports=tuple(
            p if isinstance(p, ContainerPort) else ContainerPort(container_port=p, host_port=p) for p in host_ports
        ),
    )
    return Pod(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=uid or f"{namespace}/{name}/{next(_numbers)}",
            labels=dict(labels or {}),
            owner_references=(owner,) if owner else (),
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
        ),
        spec=PodSpec(
            **{"containers": (container,), **spec},
            node_name=node,
            priority=priority,
            tolerations=tuple(
                t if isinstance(t, Toleration) else Toleration(key=t, operator="Exists") for t in tolerates
            ),
        ),
        status=status or PodStatus(),
    )


def make_node(
    name: str = "node",
    *,
    labels: Mapping[str, str] | None = None,
    allocatable: Mapping[str, Quantity] | None = None,
    taints: Iterable[Taint] = (),
    cordoned: bool = False,
    images: Mapping[str, int] | None = None,
    features: Iterable[str] = (),
    zone: str = "",
) -> Node:
    """Build a node; by default it has 4 CPUs, 32Gi, 110 pods and its hostname label.

    >>> make_node("n1", allocatable={"cpu": 8}).allocatable["cpu"]
    8000
    """
    base = {"kubernetes.io/hostname": name} | ({"topology.kubernetes.io/zone": zone} if zone else {})
    return Node(
        metadata=ObjectMeta(
            name=name, uid=f"node/{name}", labels=base if labels is None else dict(base) | dict(labels)
        ),
        spec=NodeSpec(unschedulable=cordoned, taints=tuple(taints)),
        status=NodeStatus(
            allocatable={"cpu": 4, "memory": "32Gi", "pods": 110, **(allocatable or {})},
            images=tuple(ContainerImage(names=(image,), size_bytes=size) for image, size in (images or {}).items()),
            declared_features=tuple(features),
        ),
    )
