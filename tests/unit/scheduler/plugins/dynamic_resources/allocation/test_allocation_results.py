"""Allocation results of claims."""

from collections.abc import Iterable, Sequence

import pytest
from tests.unit.scheduler.plugins.dynamic_resources.allocation.search_builders import (
    CLASSES,
    FEATURES,
    four,
    search,
    shared,
)
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    DRIVER,
    device,
    exactly,
    first_of,
    make_claim,
    make_slice,
)

from moorage.kube.api.devices import (
    AllocationResult,
    DeviceClaimConfiguration,
    OpaqueDeviceConfiguration,
    ResourceClaim,
    ResourceSlice,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.allocation_results import allocation
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import parse_claim
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures


def write(slices: Iterable[ResourceSlice], claim: ResourceClaim) -> AllocationResult:
    """Write down what a claim gets."""
    solution = search(slices, claim)
    assert solution is not None
    ask = parse_claim(claim.spec, CLASSES.get, FEATURES)
    return allocation(ask, solution.choices[0], solution.alternatives[0], node_name="n1", features=DeviceFeatures())


def test_allocation_result_fields() -> None:
    claim = make_claim(first_of("r", exactly("s0", count=9), exactly("s1")), exactly("b", admin_access=True))
    first, second = write([four()], claim).devices.results
    assert (first.request, first.driver, first.pool, first.device) == ("r/s1", DRIVER, "pool", "d0")
    assert (first.admin_access, second.admin_access) == (None, True)
    assert first.share_id is None


def test_a_share_has_an_id_and_consumed_capacity() -> None:
    claim = make_claim(exactly("a", capacity={"memory": "2Gi"}), exactly("b", capacity={"memory": "3Gi"}))
    first, second = write([shared()], claim).devices.results
    assert first.consumed_capacity == {"memory": "2Gi"}
    assert first.share_id
    assert second.share_id not in (None, first.share_id)


PLACES = {
    "devices of a node are used there": ([four()], "n1"),
    "a device that binds to a node, too": ([make_slice(device("d", binds_to_node=True), all_nodes=True)], "n1"),
    "others everywhere": ([make_slice(device("d"), all_nodes=True)], None),
}


@pytest.mark.parametrize(("slices", "want"), PLACES.values(), ids=PLACES)
def test_where_devices_can_be_used(slices: Sequence[ResourceSlice], want: str | None) -> None:
    selector = write(slices, make_claim()).node_selector
    assert (selector.node_selector_terms[0].match_fields[0].values if selector else None) == ((want,) if want else None)


def test_configuration_for_all_requests_has_no_names() -> None:
    sample, every = OpaqueDeviceConfiguration(DRIVER, {"a": 1}), OpaqueDeviceConfiguration(DRIVER, {"b": 2})
    config = [
        DeviceClaimConfiguration(("b",), sample),
        DeviceClaimConfiguration((), every),
        DeviceClaimConfiguration(("a", "b"), every),
        DeviceClaimConfiguration(("x",), sample),
    ]
    result = write([four()], make_claim(exactly("a"), exactly("b"), config=config)).devices.config
    assert [(item.source, item.requests, item.opaque) for item in result] == [
        ("FromClaim", ("b",), sample),
        ("FromClaim", (), every),
        ("FromClaim", (), every),
    ]
