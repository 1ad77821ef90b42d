"""The requests of a pod, summed as Kubernetes does: containers, sidecars, init containers, overhead, resizes.

Sums are exact billionths and are rounded up once per pod: three containers of "100u" request 1m, not 3m.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from moorage.common.caches import cached
from moorage.kube.api.container import Container, ContainerStatus
from moorage.kube.api.quantity import (
    ResourceList,
    milli_value,
    nano_to_milli,
    nano_to_unit,
    nano_value,
    unit_value,
)
from moorage.kube.api.selectors import check_qualified_name

if TYPE_CHECKING:
    from moorage.kube.api.pod import NodeAllocatableClaimStatus, Pod

CPU: Final = "cpu"
MEMORY: Final = "memory"
EPHEMERAL_STORAGE: Final = "ephemeral-storage"
PODS: Final = "pods"
HUGEPAGES: Final = "hugepages-"
NATIVE: Final = (CPU, MEMORY, EPHEMERAL_STORAGE)
DEFAULT_MILLI_CPU: Final = 100
DEFAULT_MEMORY: Final = 200 * 1024 * 1024
RESIZE_PENDING: Final = "PodResizePending"


class Amounts(dict[str, int]):
    """Amounts by resource. An absent resource is treated as 0: ``amounts["nvidia.com/gpu"]`` does not raise.

    >>> amounts = Amounts(cpu=500)
    >>> amounts["cpu"], amounts["memory"], "memory" in amounts
    (500, 0, False)
    """

    __slots__ = ()

    def __missing__(self, resource: str) -> int:
        return 0


Nanos = dict[str, int]
RequestsOf = Callable[[Container], Nanos]

_SCORING_DEFAULTS: Final = {CPU: DEFAULT_MILLI_CPU, MEMORY: DEFAULT_MEMORY}
_NONZERO_DEFAULTS: Final[Nanos] = {CPU: DEFAULT_MILLI_CPU * 10**6, MEMORY: DEFAULT_MEMORY * 10**9}


@cached(4096)
def is_extended(name: str) -> bool:
    """Return whether a resource is an extended resource: its prefix is not one of Kubernetes."""
    return _has_own_prefix(name)


def _has_own_prefix(name: str) -> bool:
    if "/" not in name or "kubernetes.io/" in name or name.startswith("requests."):
        return False
    return check_qualified_name(f"requests.{name}")


@cached(4096)
def is_scalar(name: str) -> bool:
    """Return whether a resource is counted in addition to CPU, memory and storage. Other resources are ignored."""
    # Not the cached functions: a pod may request 80,000 resources, and the caches hold 4,096.
    if _has_own_prefix(name) or name.startswith((HUGEPAGES, "attachable-volumes-")):
        return True
    return "kubernetes.io/" in name


def countable(resources: ResourceList) -> Amounts:
    """Convert quantities to the integers of the scheduler. Unknown resources are omitted."""
    amounts = Amounts()
    for name, quantity in resources.items():
        if _is_counted(name):
            amounts[name] = milli_value(quantity) if name == CPU else unit_value(quantity)
    return amounts


def spec_requests(pod: "Pod") -> Amounts:
    """Return the sum of the requests in the spec, including pod-level requests and overhead."""
    spec = pod.spec
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead or spec.resources):
        # Most pods are as plain as this, and every pod that arrives comes through here.
        return countable(spec.containers[0].resources.requests)
    return _round(_with_pod_level(pod, _spec_total(pod), use_status=False))


def scoring_requests(pod: "Pod", of_spec: Amounts) -> Amounts:
    """Return the requests of an incoming pod for scores: containers without a CPU or memory request get a default.

    Pod-level requests are omitted, as in upstream's scorer.
    """
    spec = pod.spec
    if len(spec.containers) == 1 and not (spec.init_containers or spec.overhead):
        requests = countable(spec.containers[0].resources.requests) if spec.resources else of_spec
        return requests if CPU in requests and MEMORY in requests else Amounts(_SCORING_DEFAULTS | requests)
    if spec.resources:
        return _round(_with_overhead(pod, _spec_total(pod, _NONZERO_DEFAULTS)))
    # Only CPU and memory have defaults: the other amounts, which may be 80,000, are those of the spec.
    total = _aggregate(pod, lambda container: _NONZERO_DEFAULTS | _cpu_and_memory(container.resources.requests))
    return Amounts(of_spec | _round(_sum((total, _cpu_and_memory(spec.overhead)))))


def _cpu_and_memory(resources: ResourceList) -> Nanos:
    return {name: nano_value(resources[name]) for name in _NONZERO_DEFAULTS if name in resources}


def placed_requests(pod: "Pod") -> Amounts:
    """Return the resources that a pod uses on its node, including allocated and actuated amounts of the kubelet."""
    return _round(_with_pod_level(pod, _status_total(pod, {}), use_status=True))


def placed_milli_requests(pod: "Pod") -> dict[str, int]:
    """Return the same sum in thousandths, with unknown resources, to detect changes of a pod."""
    total = _with_pod_level(pod, _status_total(pod, {}), use_status=True)
    return {name: nano_to_milli(nanos) for name, nanos in total.items()}


def placed_nonzero_requests(pod: "Pod", scoring: dict[str, int], *, has_report: bool) -> tuple[int, int]:
    """Return milli-CPU and memory of a pod on its node, with defaults for missing requests."""
    if not _has_pod_level(pod):
        if not has_report:
            # A pod without containers requests nothing, not even the defaults.
            return scoring.get(CPU, 0), scoring.get(MEMORY, 0)
        total = _with_overhead(pod, _status_total(pod, _NONZERO_DEFAULTS))
    else:
        # With pod-level requests, the default applies only to resources that the pod does not request.
        total = _with_pod_level(pod, _status_total(pod, {}), use_status=True)
        defaults = {name: nanos for name, nanos in _NONZERO_DEFAULTS.items() if name not in total}
        if defaults:
            total = _with_pod_level(pod, _status_total(pod, defaults), use_status=True)
    rounded = _round({name: total[name] for name in _NONZERO_DEFAULTS if name in total})
    return rounded.get(CPU, 0), rounded.get(MEMORY, 0)


def claimed_nanos(statuses: "Iterable[NodeAllocatableClaimStatus]") -> Nanos:
    """Return the sum of the node resources of devices, per pod and per container that uses them."""
    total: Nanos = {}
    for status in statuses:
        amounts = [(item.name, nano_value(item.quantity)) for item in status.mapping]
        for item in status.overhead:
            amounts.append((item.name, nano_value(item.per_pod or 0)))
            amounts.append((item.name, nano_value(item.per_container or 0) * len(status.containers)))
        for name, amount in amounts:
            total[name] = total.get(name, 0) + amount
    return {name: amount for name, amount in total.items() if amount}


def container_nanos(pod: "Pod") -> Nanos:
    """Return the sum of the requests of a pod's containers."""
    return _spec_total(pod)


def limit_nanos(pod: "Pod") -> Nanos:
    """Return the sum of the limits of a pod's containers."""
    return _aggregate(pod, lambda container: _nanos(container.resources.limits))


def limits_total(pod: "Pod") -> dict[str, int]:
    """Return the rounded sum of a pod's limits, as resource metrics report it."""
    return _round(limit_nanos(pod))


def _round(total: Nanos) -> Amounts:
    return Amounts(
        (name, nano_to_milli(nanos) if name == CPU else nano_to_unit(nanos))
        for name, nanos in total.items()
        if _is_counted(name)
    )


def _is_counted(name: str) -> bool:
    return name in NATIVE or name == PODS or is_scalar(name)


def _nanos(resources: ResourceList) -> Nanos:
    return {name: nano_value(quantity) for name, quantity in resources.items()}


def _spec_total(pod: "Pod", defaults: Nanos | None = None) -> Nanos:
    if defaults is None:
        return _aggregate(pod, lambda container: _nanos(container.resources.requests))
    return _aggregate(pod, lambda container: defaults | _nanos(container.resources.requests))


def _aggregate(pod: "Pod", requests_of: RequestsOf) -> Nanos:
    """Sum up a pod: sidecars run with the containers, and each init container with the sidecars before it."""
    spec = pod.spec
    if len(spec.containers) == 1 and not spec.init_containers:
        return requests_of(spec.containers[0])
    total = _sum(requests_of(container) for container in spec.containers)
    sidecars: Nanos = {}
    peak: Nanos = {}
    for container in spec.init_containers:
        # Only the resources of this container change: a pod may have thousands of containers and resources.
        for name, nanos in requests_of(container).items():
            running = nanos + sidecars.get(name, 0)
            if container.is_sidecar:
                total[name] = total.get(name, 0) + nanos
                sidecars[name] = running
            if name not in peak or running > peak[name]:
                peak[name] = running
    return _max(total, peak)


def _status_total(pod: "Pod", defaults: Nanos) -> Nanos:
    """Return the maximum of requested, allocated and actuated amounts, without an infeasible resize."""
    status = pod.status
    spec = _spec_total(pod, defaults)
    if not has_kubelet_report(pod):
        return spec
    infeasible = _resize_is_infeasible(pod)
    claimed = claimed_nanos(status.node_allocatable_resource_claim_statuses)
    spec = _sum((spec, claimed)) if claimed else spec
    by_name = {item.name: item for item in (*status.container_statuses, *status.init_container_statuses)}
    allocated = _aggregate(pod, lambda c: defaults | _read_allocated(c, by_name.get(c.name), infeasible))
    actuated = _aggregate(pod, lambda c: defaults | _read_actuated(c, by_name.get(c.name), infeasible))
    if status.allocated_resources is not None and status.resources is not None and status.resources.requests:
        allocated, actuated = _nanos(status.allocated_resources), _nanos(status.resources.requests)
    allocated = _sum((allocated, claimed)) if claimed else allocated
    current = _max(actuated, allocated)
    return current if infeasible else _max(spec, current)


def _read_allocated(container: Container, status: ContainerStatus | None, infeasible: bool) -> Nanos:
    if status is not None and status.allocated_resources is not None:
        return _nanos(status.allocated_resources)
    return {} if infeasible else _nanos(container.resources.requests)


def _read_actuated(container: Container, status: ContainerStatus | None, infeasible: bool) -> Nanos:
    if status is not None and status.resources is not None and status.resources.requests:
        return _nanos(status.resources.requests)
    return _read_allocated(container, status, infeasible)


def has_kubelet_report(pod: "Pod") -> bool:
    """Return whether the status reports resources. That of a pending pod does not."""
    status = pod.status
    if status.resources is not None or status.allocated_resources is not None:
        return True
    if status.node_allocatable_resource_claim_statuses:
        return True
    for condition in status.conditions:
        if condition.type == RESIZE_PENDING:
            return True
    for items in (status.container_statuses, status.init_container_statuses):
        for item in items:
            if item.allocated_resources is not None or item.resources is not None:
                return True
    return False


def _resize_is_infeasible(pod: "Pod") -> bool:
    condition = pod.condition(RESIZE_PENDING)
    return condition is not None and condition.reason == "Infeasible"


def is_pod_level(name: str) -> bool:
    """Return whether a resource can be requested at pod level."""
    return name in (CPU, MEMORY) or name.startswith(HUGEPAGES)


def _has_pod_level(pod: "Pod") -> bool:
    return pod.spec.resources is not None and any(is_pod_level(name) for name in pod.spec.resources.requests)


def _with_pod_level(pod: "Pod", total: Nanos, *, use_status: bool) -> Nanos:
    if not _has_pod_level(pod):
        return _with_overhead(pod, total)
    assert pod.spec.resources is not None
    level = {name: nano for name, nano in _nanos(pod.spec.resources.requests).items() if is_pod_level(name)}
    if use_status and pod.status.resources is not None:
        current = _max(_nanos(pod.status.resources.requests), _nanos(pod.status.allocated_resources or {}))
        current = {name: nano for name, nano in current.items() if is_pod_level(name)}
        level = current if _resize_is_infeasible(pod) else _max(level, current)
    return _with_overhead(pod, total | level)


def _with_overhead(pod: "Pod", total: Nanos) -> Nanos:
    return _sum((total, _nanos(pod.spec.overhead))) if pod.spec.overhead else total


def _sum(parts: Iterable[Nanos]) -> Nanos:
    total: Nanos = {}
    for part in parts:
        for name, nanos in part.items():
            total[name] = total.get(name, 0) + nanos
    return total


def _max(left: Nanos, right: Nanos) -> Nanos:
    larger = dict(left)
    for name, nanos in right.items():
        if name not in larger or nanos > larger[name]:
            larger[name] = nanos
    return larger
