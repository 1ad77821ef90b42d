"""Devices, slices, classes and claims in one line."""

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.kube.api.devices import (
    AllocationResult,
    CapacityRequirements,
    CELDeviceSelector,
    Counter,
    CounterSet,
    Device,
    DeviceAllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceRequestAllocationResult,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourceClaimStatus,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from moorage.kube.api.meta import ObjectMeta, OwnerReference
from moorage.kube.api.pod import Pod, PodResourceClaim
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Status, Verdict
from moorage.testing import make_pod

DRIVER = "gpu.example"


def attribute(value: bool | int | str) -> DeviceAttribute:
    """Make an attribute of the value's type; ``v1.2.3`` is a version."""
    if isinstance(value, bool):
        return DeviceAttribute(bool_value=value)
    if isinstance(value, int):
        return DeviceAttribute(int_value=value)
    return DeviceAttribute(version_value=value[1:]) if value[:1] == "v" else DeviceAttribute(string_value=value)


def device(
    name: str,
    *,
    capacity: Mapping[str, DeviceCapacity | str] | None = None,
    draws: Mapping[str, str] | None = None,
    taint: DeviceTaint | None = None,
    shared: bool = False,
    attributes: Mapping[str, bool | int | str] | None = None,
    **fields: Any,
) -> Device:
    """Make a device; ``draws`` are the counters it consumes from the set ``chip``."""
    return Device(
        name=name,
        attributes={key: attribute(value) for key, value in (attributes or {}).items()},
        capacity={
            key: value if isinstance(value, DeviceCapacity) else DeviceCapacity(value=value)
            for key, value in (capacity or {}).items()
        },
        consumes_counters=(
            (DeviceCounterConsumption("chip", {key: Counter(value) for key, value in draws.items()}),) if draws else ()
        ),
        taints=(taint,) if taint is not None else (),
        allow_multiple_allocations=shared or None,
        **fields,
    )


def make_slice(
    *devices: Device,
    name: str = "slice",
    pool: str = "pool",
    driver: str = DRIVER,
    node: str | None = "n1",
    generation: int = 1,
    of: int = 1,
    counters: Mapping[str, str] | None = None,
    **fields: Any,
) -> ResourceSlice:
    """Make a slice of a pool with ``of`` slices, on a node unless ``fields`` select other nodes."""
    everywhere = {"node_selector", "all_nodes", "per_device_node_selection"} & fields.keys()
    return ResourceSlice(
        metadata=ObjectMeta(name=name),
        spec=ResourceSliceSpec(
            driver=driver,
            pool=ResourcePool(pool, generation, of),
            node_name=None if everywhere else node,
            devices=devices,
            shared_counters=(
                (CounterSet("chip", {key: Counter(value) for key, value in counters.items()}),) if counters else ()
            ),
            **fields,
        ),
    )


def make_class(name: str = "gpu", *expressions: str, resource: str | None = None, **meta: Any) -> DeviceClass:
    """Make a class of the devices that pass the expressions."""
    return DeviceClass(
        metadata=ObjectMeta(name=name, **meta),
        spec=DeviceClassSpec(selectors=selectors(*expressions), extended_resource_name=resource),
    )


def selectors(*expressions: str) -> tuple[DeviceSelector, ...]:
    """Make selectors of CEL expressions."""
    return tuple(DeviceSelector(CELDeviceSelector(expression)) for expression in expressions)


def exactly(
    name: str = "r", *expressions: str, capacity: Mapping[str, str] | None = None, **fields: Any
) -> DeviceRequest:
    """Request devices of one class; by default one of class ``gpu``."""
    selection: dict[str, Any] = {"device_class_name": "gpu", "allocation_mode": "ExactCount", "count": 1} | fields
    needs = CapacityRequirements(dict(capacity)) if capacity else None
    return DeviceRequest(name, ExactDeviceRequest(selectors=selectors(*expressions), capacity=needs, **selection))


def first_of(name: str, *alternatives: DeviceRequest) -> DeviceRequest:
    """Request the first available of some requests."""
    subs = []
    for result in alternatives:
        requested = result.exactly
        assert requested is not None
        subs.append(
            DeviceSubRequest(
                name=result.name,
                device_class_name=requested.device_class_name,
                selectors=requested.selectors,
                allocation_mode=requested.allocation_mode,
                count=requested.count,
                tolerations=requested.tolerations,
                capacity=requested.capacity,
            )
        )
    return DeviceRequest(name, first_available=tuple(subs))


def make_claim(
    *requests: DeviceRequest,
    name: str = "claim",
    constraints: Iterable[DeviceConstraint] = (),
    allocation: AllocationResult | None = None,
    owner: Pod | None = None,
    config: Any = (),
    **meta: Any,
) -> ResourceClaim:
    """Make a claim; by default with one request for a device of class ``gpu``."""
    owners = (OwnerReference("v1", "Pod", owner.name, owner.uid, controller=True),) if owner is not None else ()
    return ResourceClaim(
        metadata=ObjectMeta(
            **{"name": name, "namespace": "default", "uid": f"uid-{name}", "owner_references": owners, **meta}
        ),
        spec=ResourceClaimSpec(DeviceClaim(requests or (exactly(),), tuple(constraints), tuple(config))),
        status=ResourceClaimStatus(allocation=allocation),
    )


def held(
    *names: str, pool: str = "pool", node: str | None = "n1", request: str = "r", **fields: Any
) -> AllocationResult:
    """Make an allocation of whole devices, to be used on a node or, without one, everywhere."""
    where = None
    if node is not None:
        field = NodeSelectorRequirement("metadata.name", "In", (node,))
        where = NodeSelector((NodeSelectorTerm(match_fields=(field,)),))
    results = tuple(DeviceRequestAllocationResult(request, DRIVER, pool, name, **fields) for name in names)
    return AllocationResult(DeviceAllocationResult(results), where)


def in_zone(zone: str) -> NodeSelector:
    """Select nodes by their zone."""
    return NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("zone", "In", (zone,)),)),))


def claiming(*claims: str, name: str = "pod", **fields: Any) -> Pod:
    """Make a pod that names claims."""
    entries = tuple(PodResourceClaim(f"entry{i}", resource_claim_name=claim) for i, claim in enumerate(claims))
    return make_pod(name, resource_claims=entries, **fields)


def refusals(verdict: Verdict, nodes: NodeTable) -> NodeStatuses:
    """Return the rejections of a verdict by node, as PostFilter gets them."""
    result = {nodes[row].name: verdict.status_at(row) for row in range(len(nodes))}
    return NodeStatuses({name: status for name, status in result.items() if status is not None}, Status.unresolvable())
