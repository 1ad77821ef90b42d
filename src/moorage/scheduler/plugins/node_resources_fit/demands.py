"""The resource requests of a pod, and the insufficient resources of a node."""

from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from moorage.common.caches import cached
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import NATIVE, PODS, is_extended
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.extended_resources import ExtendedResourceClasses

TOO_MANY_PODS: Final = Status.unschedulable("Too many pods")


class Demand(NamedTuple):
    """A request for one resource, and the statuses of nodes with too little free or too little in total."""

    resource: str
    amount: int
    insufficient: Status
    unresolvable: Status
    is_delegable: bool
    """Whether devices back the resource on nodes without it; DynamicResources filters these nodes."""


class DemandReader:
    """Reads the requests of pods, without ignored extended resources."""

    def __init__(
        self, classes: ExtendedResourceClasses, ignored: Collection[str] = (), ignored_groups: Collection[str] = ()
    ) -> None:
        self._classes = classes
        self._ignored = frozenset(ignored)
        self._ignored_groups = frozenset(ignored_groups)

    def read(self, pod: Pod) -> tuple[Demand, ...]:
        """List the requests that must be free on a node; the number of pods is checked separately."""
        amounts = pod.requests
        # CPU, memory and storage come first; the order of other resources is random upstream, here by name.
        names = [*NATIVE, *sorted([name for name in amounts if name not in NATIVE and name != PODS])]
        return tuple(
            [
                Demand(name, amounts[name], *_insufficient(name), name not in NATIVE and self.is_delegable(name))
                for name in names
                if name in amounts and amounts[name] > 0 and (name in NATIVE or not self._is_ignored(name))
            ]
        )

    def is_delegable(self, resource: str) -> bool:
        """Return whether a device class backs the resource."""
        return resource not in NATIVE and self._classes.find(resource) is not None

    def _is_ignored(self, resource: str) -> bool:
        if not self._ignored and not self._ignored_groups:
            return False
        is_listed = resource in self._ignored or resource.partition("/")[0] in self._ignored_groups
        return is_listed and is_extended(resource)


def shortages(demands: Sequence[Demand], node: NodeInfo) -> list[Status]:
    """List all insufficient resources of a node."""
    allocatable, requested = node.allocatable, node.requested
    statuses = [TOO_MANY_PODS] if len(node.pods) >= allocatable.get(PODS, 0) else []
    for resource, amount, insufficient, unresolvable, is_delegable in demands:
        capacity = allocatable.get(resource, 0)
        if amount > capacity - requested.get(resource, 0) and not (is_delegable and capacity <= 0):
            statuses.append(unresolvable if amount > capacity else insufficient)
    return statuses


@cached(1024)
def _insufficient(resource: str) -> tuple[Status, Status]:
    reason = f"Insufficient {resource}"
    return Status.unschedulable(reason), Status.unresolvable(reason)
