"""Invalid claims, and requests that need a feature gate."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.dynamic_resources.allocation.search_builders import SAME_NUMA, four, search, shared
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    device,
    exactly,
    first_of,
    make_claim,
    make_slice,
)

from moorage.kube.api.devices import (
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
    ResourceSlice,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import ClaimFault
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures

FAULTS = {
    "more devices than a claim can hold": (
        [four()],
        make_claim(exactly("a", count=20), exactly("b", count=13)),
        ", request b: adding 13 devices exceeds the claim limit of 32, with 20 already accounted for",
    ),
    "all of a pool that is being updated": (
        [four(of=2)],
        make_claim(exactly(allocation_mode="All", count=0)),
        ", request r: asks for all devices, but resource pool gpu.example/pool is currently being updated",
    ),
    "all of a pool that is invalid": (
        [make_slice(device("d"), device("d"))],
        make_claim(exactly(allocation_mode="All", count=0)),
        ", request r: asks for all devices, but resource pool gpu.example/pool is currently invalid",
    ),
    "all, against a constraint": (
        [four()],
        make_claim(exactly(allocation_mode="All", count=0), constraints=SAME_NUMA),
        ", request r: cannot add device gpu.example/pool/d2 because a claim constraint would not be satisfied",
    ),
    "a class that is not there": (
        [four()],
        make_claim(exactly(device_class_name="nope")),
        ', request r: could not retrieve device class nope: deviceclass.resource.k8s.io "nope" not found',
    ),
    "an unknown mode": (
        [four()],
        make_claim(exactly(allocation_mode="Some")),
        ", request r: unsupported count mode Some",
    ),
    "an unknown constraint": (
        [four()],
        make_claim(constraints=[DeviceConstraint()]),
        ", constraint #0: empty constraint (unsupported constraint type?)",
    ),
    "an expression that fails": (
        [four()],
        make_claim(exactly("r", 'device.attributes["gpu.example"].nope')),
        ": selector #0 on device gpu.example/pool/d0: CEL runtime error: ",
    ),
    "an expression that does not compile": (
        [four()],
        make_claim(exactly("r", "true", "device.nope")),
        ": selector #1: CEL compile error: ",
    ),
    "a negative amount": (
        [shared()],
        make_claim(exactly(capacity={"memory": "-1"})),
        ', request r: checking capacity for device gpu.example/pool/d: capacity "memory": capacity value is negative',
    ),
}


@pytest.mark.parametrize(("slices", "claim", "text"), FAULTS.values(), ids=FAULTS)
def test_faults(slices: Sequence[ResourceSlice], claim: ResourceClaim, text: str) -> None:
    with pytest.raises(ClaimFault) as caught:
        search(slices, claim)
    assert caught.value.about(["default/claim"]).startswith(f"claim default/claim{text}")


GATED = {
    "admin access": (DeviceFeatures(admin_access=False), exactly(admin_access=True), "the feature is disabled"),
    "lists": (DeviceFeatures(prioritized_list=False), first_of("r", exactly("s")), "DRAPrioritizedList feature"),
    "capacity": (
        DeviceFeatures(consumable_capacity=False),
        exactly(capacity={"memory": "1"}),
        "DRAConsumableCapacity feature is disabled",
    ),
}


@pytest.mark.parametrize(("features", "request_", "text"), GATED.values(), ids=GATED)
def test_gates(features: DeviceFeatures, request_: DeviceRequest, text: str) -> None:
    with pytest.raises(ClaimFault, match=text):
        search([four()], make_claim(request_), features=features)


OLDEST_ALLOCATOR = DeviceFeatures(consumable_capacity=False, binding_conditions=False)
DISTINCT = {
    "defaults": (DeviceFeatures(), True),
    "the oldest allocator": (OLDEST_ALLOCATOR, False),
    "partitionable devices off": (replace(OLDEST_ALLOCATOR, partitionable=False), False),
    "taints off": (replace(OLDEST_ALLOCATOR, taints=False), False),
    "consumable capacity": (replace(OLDEST_ALLOCATOR, consumable_capacity=True), True),
    "binding conditions": (replace(OLDEST_ALLOCATOR, binding_conditions=True), True),
    "list attributes": (replace(OLDEST_ALLOCATOR, list_attributes=True), True),
    "compatibility groups": (replace(OLDEST_ALLOCATOR, compatibility_groups=True), True),
    "derived attributes": (replace(OLDEST_ALLOCATOR, derived_attributes=True), True),
    "optional node operations": (replace(OLDEST_ALLOCATOR, optional_node_operations=True), True),
}


@pytest.mark.parametrize("case", DISTINCT)
def test_distinct_values_need_a_newer_allocator(case: str) -> None:
    features, is_supported = DISTINCT[case]
    claim = make_claim(constraints=[DeviceConstraint(distinct_attribute="gpu.example/numa")])
    if is_supported:
        search([four()], claim, features=features)
        return
    with pytest.raises(ClaimFault, match="empty constraint"):
        search([four()], claim, features=features)


def test_the_oldest_allocator_ignores_requested_capacities() -> None:
    claim = make_claim(exactly(capacity={"memory": "1"}))
    search([four()], claim, features=OLDEST_ALLOCATOR)


def test_a_class_is_named_when_its_expression_fails() -> None:
    with pytest.raises(ClaimFault) as caught:
        search([make_slice(device("d"))], make_claim(exactly(device_class_name="big")))
    assert caught.value.about(["default/claim"]).startswith("class big: selector #0 on device gpu.example/pool/d: CEL")
