"""Claims and devices for searches."""

from collections.abc import Iterable

from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    device,
    make_class,
    make_slice,
)

from moorage.kube.api.devices import (
    AllocationResult,
    DeviceConstraint,
    ResourceClaim,
    ResourceSlice,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import (
    Search,
    SearchBudget,
    Solution,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import parse_claim
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import AllocatedDevices, DeviceFeatures, PoolId
from moorage.scheduler.plugins.dynamic_resources.devices.pools import DeviceView, PoolBuilder, Slice
from moorage.testing import make_node

FEATURES = DeviceFeatures()


CLASSES = {"gpu": make_class("gpu"), "big": make_class("big", 'device.attributes["gpu.example"].size == "big"')}


NODE = make_node("n1", labels={"zone": "a"})


def search(
    slices: Iterable[ResourceSlice],
    *claims: ResourceClaim,
    taken: Iterable[AllocationResult] = (),
    features: DeviceFeatures = FEATURES,
    budget: SearchBudget | None = None,
) -> Solution | None:
    """Look for devices on node n1."""
    existing = [Slice(item, (), features) for item in slices]
    by_pool: dict[PoolId, dict[str, Slice]] = {}
    for item in existing:
        by_pool.setdefault(item.pool, {})[item.name] = item
    allocated = AllocatedDevices()
    for result in taken:
        allocated.add(result)
    view = DeviceView(0, PoolBuilder(by_pool, features).pools(NODE, existing))
    parsed_claims = tuple(parse_claim(claim.spec, CLASSES.get, features) for claim in claims)
    return Search(parsed_claims, view, allocated, features, budget).run()


def four(**fields: object) -> ResourceSlice:
    """Make a slice of four devices of two sizes and two NUMA nodes."""
    sizes = ("small", "big", "big", "small")
    return make_slice(
        *(device(f"d{i}", attributes={"size": size, "numa": i // 2}) for i, size in enumerate(sizes)),
        **fields,  # type: ignore[arg-type]
    )


SAME_NUMA = (DeviceConstraint(match_attribute="gpu.example/numa"),)


def shared(memory: str = "8Gi", **fields: object) -> ResourceSlice:
    return make_slice(device("d", shared=True, capacity={"memory": memory}, **fields))  # type: ignore[arg-type]
