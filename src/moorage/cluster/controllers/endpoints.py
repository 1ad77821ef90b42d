"""Endpoints and EndpointSlices: the addresses of the pods that a service selects."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.kubelet import pod_address
from moorage.cluster.controllers.ownership import is_ready, owner_reference
from moorage.kube.api.cluster import Endpoints, EndpointSlice, Service, ServicePort
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import ZONE_LABEL, Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import StatefulSet

SERVICE_LABEL: Final = "kubernetes.io/service-name"
HEADLESS_LABEL: Final = "service.kubernetes.io/headless"
MANAGER_OF_ENDPOINTS: Final = {"endpoints.kubernetes.io/managed-by": "endpoint-controller"}
MANAGER_OF_SLICES: Final = {"endpointslice.kubernetes.io/managed-by": "endpointslice-controller.k8s.io"}
MAX_ENDPOINTS: Final = 100
"""Addresses per slice."""


class EndpointsController(BaseController):
    """Lists the addresses of a service's pods in one Endpoints object and in slices."""

    name = "endpoints"
    kinds = (Service, Pod, Endpoints, EndpointSlice, Node, StatefulSet)
    pause = 0.1

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        match obj:
            case Service() | Endpoints():
                return (obj.key,)
            case EndpointSlice():
                return (f"{obj.namespace}/{obj.labels.get(SERVICE_LABEL, '')}",)
            case Pod():
                services = cache[Service].in_namespace(obj.namespace)
                return [service.key for service in services if _selects(service, obj)]
        return ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Write the addresses of a service. Slices of a deleted service are garbage."""
        service, endpoints = cache[Service].get(key), cache[Endpoints].get(key)
        if service is None:
            if endpoints is not None and endpoints.labels.items() >= MANAGER_OF_ENDPOINTS.items():
                yield Delete(endpoints)
            return
        if service.is_terminating or not service.spec.selector or service.spec.type == "ExternalName":
            return
        pods = [pod for pod in cache[Pod].in_namespace(service.namespace) if _selects(service, pod) and _is_used(pod)]
        pods.sort(key=lambda pod: pod.name)
        labels = {**service.labels, **({HEADLESS_LABEL: ""} if _is_headless(service) else {})}
        yield from _endpoints_actions(service, endpoints, pods, cache, labels | MANAGER_OF_ENDPOINTS)
        slices = [
            item
            for item in cache[EndpointSlice].in_namespace(service.namespace)
            if item.labels.items() >= ({SERVICE_LABEL: service.name} | MANAGER_OF_SLICES).items()
        ]
        yield from _slice_actions(
            service, slices, pods, cache, labels | {SERVICE_LABEL: service.name} | MANAGER_OF_SLICES
        )


def _selects(service: Service, pod: Pod) -> bool:
    selector = service.spec.selector
    return bool(selector) and selector is not None and selector.items() <= pod.labels.items()


def _is_used(pod: Pod) -> bool:
    """Return whether a pod has an address: pending and finished pods have none."""
    return bool(pod.node_name) and pod.status.phase == "Running"


def _endpoints_actions(
    service: Service, current: Endpoints | None, pods: Sequence[Pod], cache: InformerCache, labels: dict[str, str]
) -> Iterator[ControllerAction]:
    has_all = service.spec.publish_not_ready_addresses
    by_ports: dict[str, Data] = {}
    for pod in pods:
        ports = [{key: value for key, value in port.items() if value} for port in _ports(service, pod)]
        if (pod.is_terminating and not has_all) or (not ports and (service.spec.ports or not _is_headless(service))):
            continue
        subset = by_ports.setdefault(msgspec.json.encode(ports).decode(), {"ports": ports} if ports else {})
        subset.setdefault("addresses" if has_all or is_ready(pod) else "notReadyAddresses", []).append(
            {
                "ip": pod_address(pod),
                "nodeName": pod.node_name,
                "targetRef": _reference(pod),
                **_name(service, pod, cache),
            }
        )
    subsets = list(by_ports.values())
    if current is None:
        metadata = {"name": service.name, "namespace": service.namespace, "labels": labels}
        yield Create(Endpoints, {"metadata": metadata, **({"subsets": subsets} if subsets else {})})
    elif (current.subsets or []) != subsets or current.labels != labels:
        yield Patch(current, {"metadata": {"labels": _replace(current, labels)}, "subsets": subsets}, if_unchanged=True)


def _slice_actions(
    service: Service, slices: Sequence[EndpointSlice], pods: Sequence[Pod], cache: InformerCache, labels: dict[str, str]
) -> Iterator[ControllerAction]:
    by_ports: dict[str, tuple[list[Data], list[Data]]] = {}
    for pod in pods:
        ports = _ports(service, pod)
        group = by_ports.setdefault(msgspec.json.encode(ports).decode(), (ports, []))
        group[1].append(_endpoint(service, pod, cache))
    desired = [
        (ports, endpoints[start : start + MAX_ENDPOINTS])
        for ports, endpoints in by_ports.values()
        for start in range(0, len(endpoints), MAX_ENDPOINTS)
    ]
    unused = list(slices)
    # A slice with the same ports is updated. A service without pods keeps one empty slice.
    for ports, endpoints in desired or [([], [])]:
        current = next((item for item in unused if (item.ports or []) == ports or not item.endpoints), None)
        if current is None:
            metadata = {
                "generateName": f"{service.name}-",
                "namespace": service.namespace,
                "labels": labels,
                "ownerReferences": [owner_reference(service)],
            }
            content: Data = {"addressType": "IPv4", "endpoints": endpoints, "ports": ports}
            yield Create(EndpointSlice, {"metadata": metadata, **content})
            continue
        unused.remove(current)
        if (current.endpoints or [], current.ports or [], current.labels) != (endpoints, ports, labels):
            content = {"metadata": {"labels": _replace(current, labels)}, "endpoints": endpoints, "ports": ports}
            yield Patch(current, content, if_unchanged=True)
    yield from map(Delete, unused)


def _endpoint(service: Service, pod: Pod, cache: InformerCache) -> Data:
    is_serving = is_ready(pod)
    node = cache[Node].get(pod.node_name)
    zone = node.labels.get(ZONE_LABEL) if node is not None else None
    return {
        "addresses": [pod_address(pod)],
        "conditions": {
            "ready": service.spec.publish_not_ready_addresses or (is_serving and not pod.is_terminating),
            "serving": is_serving,
            "terminating": pod.is_terminating,
        },
        **_name(service, pod, cache),
        "nodeName": pod.node_name,
        "targetRef": _reference(pod),
        **({"zone": zone} if zone else {}),
    }


def _is_headless(service: Service) -> bool:
    return service.spec.cluster_ip == "None"


def _ports(service: Service, pod: Pod) -> list[Data]:
    """Return the ports of a service on a pod. Named ports that no container has are omitted."""
    numbers = ((port, _find_port(port, pod)) for port in service.spec.ports)
    return [
        {"name": port.name, "port": number, "protocol": port.protocol}
        | ({"appProtocol": port.app_protocol} if port.app_protocol else {})
        for port, number in numbers
        if number
    ]


def _find_port(port: ServicePort, pod: Pod) -> int:
    target = port.target_port or port.port
    if isinstance(target, int):
        return target
    restartable = (item for item in pod.spec.init_containers if item.restart_policy == "Always")
    for container in (*pod.spec.containers, *restartable):
        for item in container.ports:
            if item.name == target and (item.protocol or "TCP") == port.protocol:
                return item.container_port
    return 0


def _reference(pod: Pod) -> Data:
    return {"kind": "Pod", "namespace": pod.namespace, "name": pod.name, "uid": pod.uid}


def _name(service: Service, pod: Pod, cache: InformerCache) -> Data:
    """Return the host name of a pod of a StatefulSet that uses the service for the names of its pods."""
    owner = pod.metadata.controller
    workload = cache[StatefulSet].get(f"{pod.namespace}/{owner.name}") if owner is not None else None
    if workload is None or owner is None or workload.uid != owner.uid or workload.spec.service_name != service.name:
        return {}
    return {"hostname": pod.name}


def _replace(obj: KubeObject, labels: dict[str, str]) -> Data:
    """Return a merge patch for labels: a key is removed only if its value is null."""
    return {**dict.fromkeys(obj.labels), **labels}
