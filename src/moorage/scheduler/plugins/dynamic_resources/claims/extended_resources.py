"""Extended resources that devices stand behind: a request for ``example.com/gpu: 2`` becomes a claim of the scheduler.

Which class stands behind a resource is given by ``spec.extendedResourceName``, or by the resource's own name:
``deviceclass.resource.kubernetes.io/<class>``. A node that offers the resource by itself, through a device plugin,
keeps serving it; only where its allocatable amount is zero the devices do.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final
from uuid import uuid4

from msgspec import Struct

from moorage.kube.api.container import Container
from moorage.kube.api.devices import EXACT_COUNT, DeviceRequest, ExactDeviceRequest, ResourceClaim
from moorage.kube.api.meta import ObjectMeta, OwnerReference
from moorage.kube.api.pod import ContainerExtendedResourceRequest, Pod
from moorage.kube.api.quantity import NANO, nano_value
from moorage.kube.api.requests import is_extended
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import EXTENDED_CLAIM_ANNOTATION
from moorage.scheduler.plugins.extended_resources import IMPLICIT_PREFIX, ExtendedResourceClasses

CLAIM_IN_MEMORY: Final = "<extended-resources>"
"""The name of a claim that is not written yet; no real claim can have it."""


def may_be_backed(resource: str) -> bool:
    """Return whether devices could stand behind a resource of this name."""
    return is_extended(resource) or resource.startswith(IMPLICIT_PREFIX)


def asks_for_devices(pod: Pod, classes: ExtendedResourceClasses) -> bool:
    """Return whether devices stand behind some resource a pod asks for; most pods ask for none with a slash."""
    for name, amount in pod.requests.items():
        if "/" in name and amount and may_be_backed(name) and classes.find(name) is not None:
            return True
    return False


class Requests(Struct, frozen=True):
    """The requests of a claim for extended resources, and which container they serve."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


def claim_for(pod: Pod) -> ResourceClaim:
    """Make the claim for a pod's extended resources, not written yet and without requests: these depend on the node."""
    return ResourceClaim(
        metadata=ObjectMeta(
            name=CLAIM_IN_MEMORY,
            namespace=pod.namespace,
            uid=str(uuid4()),
            generate_name=f"{pod.name}-extended-resources-",
            annotations={EXTENDED_CLAIM_ANNOTATION: "true"},
            owner_references=(OwnerReference("v1", "Pod", pod.name, pod.uid, controller=True),),
        )
    )


def requests_for(pod: Pod, resources: Iterable[str], classes: ExtendedResourceClasses) -> Requests:
    """Turn a pod's extended resources into device requests, one per container and resource.

    Init containers have ended when the others start, so they use the devices of those; what the hungriest of them
    needs beyond is one request more.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    early = [i for i, found in enumerate(pod.spec.init_containers) if not found.is_sidecar]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = classes.find(resource)
        if device_class is not None:
            found = _for_resource(resource, device_class.name, containers, early)
            requests += found.requests
            mappings += found.mappings
    return Requests(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


def _for_resource(resource: str, class_name: str, containers: Sequence[Container], early: Sequence[int]) -> Requests:
    lasting: dict[int, DeviceRequest] = {}
    for index, container in enumerate(containers):
        if index not in early and (amount := _amount(container, resource)):
            lasting[index] = _request(index, container, resource, class_name, amount)
    extra: list[DeviceRequest] = []
    uses: list[tuple[Container, str, bool]] = []
    for index in early:
        missing = _amount(containers[index], resource)
        for later in (request for place, request in lasting.items() if place >= index):
            if missing <= 0:
                break
            uses.append((containers[index], later.name, False))
            missing -= _count(later)
        if missing > 0:
            extra.append(_request(index, containers[index], resource, class_name, missing))
            uses.append((containers[index], "", True))
    # max() takes the first of equals, as upstream's strict comparison does.
    hungriest = max(extra, key=_count, default=None)
    served = chain(
        ((containers[index], request.name) for index, request in lasting.items()),
        ((found, hungriest.name if own and hungriest else name) for found, name, own in uses),
    )
    return Requests(
        (*(() if hungriest is None else (hungriest,)), *lasting.values()),
        tuple(ContainerExtendedResourceRequest(found.name, resource, name) for found, name in served),
    )


def _request(index: int, container: Container, resource: str, class_name: str, count: int) -> DeviceRequest:
    place = sorted(container.resources.requests).index(resource)
    wanted = ExactDeviceRequest(device_class_name=class_name, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(name=f"container-{index}-request-{place}", exactly=wanted)


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _amount(container: Container, resource: str) -> int:
    """Return how many devices a container asks for; what is not a whole number asks for none."""
    whole, rest = divmod(nano_value(container.resources.requests.get(resource, 0)), NANO)
    return 0 if rest else whole
