"""Extended resources backed by device classes: a request for ``example.com/gpu: 2`` becomes a claim of the scheduler.

The class of a resource is given by ``spec.extendedResourceName``, or by the resource name
``deviceclass.resource.kubernetes.io/<class>``. Nodes with a device plugin for the resource keep serving it. Devices
are used only if the allocatable amount is zero.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Final
from uuid import uuid4

from msgspec import Struct

from moorage.kube.api.container import Container
from moorage.kube.api.devices import EXACT_COUNT, DeviceClass, DeviceRequest, ExactDeviceRequest, ResourceClaim
from moorage.kube.api.meta import ObjectMeta, OwnerReference, parse_time
from moorage.kube.api.pod import ContainerExtendedResourceRequest, Pod
from moorage.kube.api.quantity import NANO, nano_value
from moorage.kube.api.requests import is_extended
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import EXTENDED_CLAIM_ANNOTATION

UNSAVED_CLAIM_NAME: Final = "<extended-resources>"
"""The name of a claim that is not written yet; API objects cannot have it."""
IMPLICIT_PREFIX: Final = "deviceclass.resource.kubernetes.io/"
"""Prefix of the resource name that every class has implicitly."""


class ExtendedResourceClasses:
    """Device classes by extended resource name. No class backs a resource if the feature is off."""

    def __init__(self, handle: Handle) -> None:
        self._is_on = handle.features.enabled("DRAExtendedResource")
        self._classes = handle.lister(DeviceClass)
        self._by_resource: dict[str, DeviceClass] = {}
        self._read_at = -1

    @property
    def version(self) -> int:
        """The version of the classes. It grows with every change."""
        return self._classes.version

    def find(self, resource: str) -> DeviceClass | None:
        """Return the class that backs a resource, if any."""
        return self.by_resource().get(resource)

    def by_resource(self) -> Mapping[str, DeviceClass]:
        """Return the class of each resource that has one."""
        if self._is_on and self._read_at != self._classes.version:
            self._read_at = self._classes.version
            # As upstream, the newest class of a resource wins; with equal age, the first by name.
            by_name = sorted(self._classes.list(), key=lambda item: item.name, reverse=True)
            by_age = {item.spec.extended_resource_name or "": item for item in sorted(by_name, key=_creation_time)}
            self._by_resource = {name: item for name, item in by_age.items() if not name.startswith(IMPLICIT_PREFIX)}
            self._by_resource |= {IMPLICIT_PREFIX + item.name: item for item in by_name}
        return self._by_resource


def _creation_time(item: DeviceClass) -> float:
    moment = item.metadata.creation_timestamp
    return parse_time(moment) if moment else float("-inf")


def may_have_class(resource: str) -> bool:
    """Return whether a device class could back a resource of this name."""
    return is_extended(resource) or resource.startswith(IMPLICIT_PREFIX)


def requests_devices(pod: Pod, classes: ExtendedResourceClasses) -> bool:
    """Return whether a device class backs a requested resource; most pods request no name with a slash."""
    requests, by_resource = pod.requests, classes.by_resource()
    if not by_resource:
        return False
    names = requests if len(requests) < len(by_resource) else by_resource
    return any("/" in name and name in by_resource and requests.get(name, 0) and may_have_class(name) for name in names)


class Requests(Struct, frozen=True):
    """The device requests for extended resources, and their mapping to containers."""

    requests: tuple[DeviceRequest, ...]
    mappings: tuple[ContainerExtendedResourceRequest, ...]


def make_extended_claim(pod: Pod) -> ResourceClaim:
    """Create the unsaved claim for a pod's extended resources. Its requests depend on the node."""
    return ResourceClaim(
        metadata=ObjectMeta(
            name=UNSAVED_CLAIM_NAME,
            namespace=pod.namespace,
            uid=str(uuid4()),
            generate_name=f"{pod.name}-extended-resources-",
            annotations={EXTENDED_CLAIM_ANNOTATION: "true"},
            owner_references=(OwnerReference("v1", "Pod", pod.name, pod.uid, controller=True),),
        )
    )


def make_extended_requests(pod: Pod, resources: Iterable[str], classes: ExtendedResourceClasses) -> Requests:
    """Convert a pod's extended resources to device requests, one per container and resource.

    Init containers end before the other containers start, so they share the devices of those; one extra request covers
    the init container with the largest remaining need.
    """
    containers = (*pod.spec.init_containers, *pod.spec.containers)
    init_indexes = [i for i, container in enumerate(pod.spec.init_containers) if not container.is_sidecar]
    requests: list[DeviceRequest] = []
    mappings: list[ContainerExtendedResourceRequest] = []
    for resource in sorted(resources):
        device_class = classes.find(resource)
        if device_class is not None:
            converted = _for_resource(resource, device_class.name, containers, init_indexes)
            requests += converted.requests
            mappings += converted.mappings
    return Requests(tuple(sorted(requests, key=lambda request: request.name)), tuple(mappings))


def _for_resource(
    resource: str, class_name: str, containers: Sequence[Container], init_indexes: Sequence[int]
) -> Requests:
    lasting: dict[int, DeviceRequest] = {}
    for index, container in enumerate(containers):
        if index not in init_indexes and (amount := _amount(container, resource)):
            lasting[index] = _request(index, container, resource, class_name, amount)
    extra: list[DeviceRequest] = []
    uses: list[tuple[Container, str, bool]] = []
    for index in init_indexes:
        missing_amount = _amount(containers[index], resource)
        for later in (request for position, request in lasting.items() if position >= index):
            if missing_amount <= 0:
                break
            uses.append((containers[index], later.name, False))
            missing_amount -= _count(later)
        if missing_amount > 0:
            extra.append(_request(index, containers[index], resource, class_name, missing_amount))
            uses.append((containers[index], "", True))
    # max() returns the first of equal requests, as upstream's strict comparison.
    hungriest = max(extra, key=_count, default=None)
    served = chain(
        ((containers[index], request.name) for index, request in lasting.items()),
        ((user, hungriest.name if own and hungriest else name) for user, name, own in uses),
    )
    return Requests(
        (*(() if hungriest is None else (hungriest,)), *lasting.values()),
        tuple(ContainerExtendedResourceRequest(user.name, resource, name) for user, name in served),
    )


def _request(index: int, container: Container, resource: str, class_name: str, count: int) -> DeviceRequest:
    position = sorted(container.resources.requests).index(resource)
    exact = ExactDeviceRequest(device_class_name=class_name, allocation_mode=EXACT_COUNT, count=count)
    return DeviceRequest(name=f"container-{index}-request-{position}", exactly=exact)


def _count(request: DeviceRequest) -> int:
    return request.exactly.count if request.exactly is not None else 0


def _amount(container: Container, resource: str) -> int:
    """Return the number of devices that a container requests. Fractions are treated as zero."""
    count, fraction = divmod(nano_value(container.resources.requests.get(resource, 0)), NANO)
    return 0 if fraction else count
