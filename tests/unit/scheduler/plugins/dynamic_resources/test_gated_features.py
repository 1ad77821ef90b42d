"""Allocation with features that are off by default: lists, derived attributes, compatible partitions, skipped work.

D numbers are rows of the reference.
"""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.dynamic_resources.allocation.test_allocator import NODE, picked, search
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    device,
    exactly,
    first_of,
    held,
    make_claim,
    make_slice,
)

from moorage.kube.api.devices import (
    AllocationResult,
    Counter,
    DerivedAttribute,
    Device,
    DeviceAttribute,
    DeviceConstraint,
    DeviceCounterConsumption,
    DeviceRequest,
    DeviceTaint,
    ResourceClaim,
)
from moorage.kube.api.node import Node, NodeStatus
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import ClaimFault
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures
from moorage.scheduler.plugins.dynamic_resources.devices.pools import OPTIONAL_NODE_OPERATIONS, Slice

LISTS = DeviceFeatures(list_attributes=True)
DERIVED = DeviceFeatures(derived_attributes=True)
GROUPS = DeviceFeatures(compatibility_groups=True)
SAME = (DeviceConstraint(match_attribute="gpu.example/numa"),)
DISTINCT = (DeviceConstraint(distinct_attribute="gpu.example/numa"),)


def numa(name: str, *nodes: int, **several: tuple[str, ...]) -> Device:
    result = DeviceAttribute(**several) if several else DeviceAttribute(int_values=nodes)  # type: ignore[arg-type]
    return replace(device(name), attributes={"numa": result})


def asking(count: int, constraints: Iterable[DeviceConstraint]) -> ResourceClaim:
    return make_claim(exactly(count=count), constraints=constraints)


CHAIN = (numa("d0", 0, 1), numa("d1", 1, 2), numa("d2", 2, 3))
ONE = replace(device("d1"), attributes={"numa": DeviceAttribute(int_value=1)})
LISTED = {
    "D14 three that have nothing in common": (CHAIN, asking(3, SAME), LISTS, None),
    "D14 two neighbours have": (CHAIN, asking(2, SAME), LISTS, [["pool/d0", "pool/d1"]]),
    "a single value is a list of one": ((numa("d0", 0, 1), ONE), asking(2, SAME), LISTS, [["pool/d0", "pool/d1"]]),
    "texts are no numbers": ((numa("d0", string_values=("1",)), ONE), asking(2, SAME), LISTS, None),
    "distinct lists have nothing in common": (CHAIN, asking(2, DISTINCT), LISTS, [["pool/d0", "pool/d2"]]),
    "three of them are too many": (CHAIN, asking(3, DISTINCT), LISTS, None),
    "with the gate off nobody knows what a list is": (CHAIN, asking(2, SAME), DeviceFeatures(), None),
    "one device has itself in common": (CHAIN, asking(1, SAME), DeviceFeatures(), [["pool/d0"]]),
}


@pytest.mark.parametrize(("devices", "claim", "features", "want"), LISTED.values(), ids=LISTED)
def test_lists(
    devices: tuple[Device, ...], claim: ResourceClaim, features: DeviceFeatures, want: list[list[str]] | None
) -> None:
    assert picked(search([make_slice(*devices)], claim, features=features)) == want


def deriving(name: str, expression: str, **fields: int) -> DeviceRequest:
    return exactly(name, derived_attributes=(DerivedAttribute("gpu.example/numa", expression),), **fields)


def alternatives(*requests: DeviceRequest) -> DeviceRequest:
    options = first_of("r", *requests)
    derived = [item.exactly.derived_attributes for item in requests if item.exactly is not None]
    subs = zip(options.first_available, derived, strict=True)
    return replace(options, first_available=tuple(replace(sub, derived_attributes=own) for sub, own in subs))


PLACES = tuple(device(f"d{i}", attributes={"place": place}) for i, place in enumerate(("a/0", "b/1", "c/1", "d/0")))
SIDE = 'device.attributes["gpu.example"].place.split("/")[1]'
WORKED_OUT = {
    "D17 what a text says is in common": (
        [deriving("a", SIDE), deriving("b", SIDE, count=1)],
        SAME,
        [["pool/d0", "pool/d3"]],
    ),
    "each request has its own": ([deriving("a", "1"), deriving("b", "2")], SAME, None),
    "D18 an alternative that cannot match gives way": (
        [deriving("a", "1"), alternatives(deriving("x", "2"), deriving("y", "1"))],
        SAME,
        [["pool/d0", "pool/d1"]],
    ),
    "versions are compared as such": (
        [deriving("a", 'semver("1.2.3")'), deriving("b", 'semver("1.2.3")')],
        SAME,
        [["pool/d0", "pool/d1"]],
    ),
    "types count": ([deriving("a", "1"), deriving("b", '"1"')], SAME, None),
    "distinct ones differ": ([deriving("a", SIDE, count=2)], DISTINCT, [["pool/d0", "pool/d1"]]),
    "nobody asks for what no constraint is about": (
        [deriving("a", 'device.attributes["x"].y')],
        (),
        [["pool/d0"]],
    ),
}


@pytest.mark.parametrize(("requests", "constraints", "want"), WORKED_OUT.values(), ids=WORKED_OUT)
def test_derived_attributes(
    requests: list[DeviceRequest], constraints: tuple[DeviceConstraint, ...], want: list[list[str]] | None
) -> None:
    claim = make_claim(*requests, constraints=constraints)
    assert picked(search([make_slice(*PLACES)], claim, features=DERIVED)) == want


def test_an_empty_list_never_matches() -> None:
    features = DeviceFeatures(derived_attributes=True, list_attributes=True)
    for constraints in (SAME, DISTINCT):
        claim = make_claim(deriving("a", "[]"), constraints=constraints)
        assert search([make_slice(*PLACES)], claim, features=features) is None


FAULTS = {
    "D19 a key that is missing": (
        'device.attributes["x"].y',
        "evaluate derived attribute gpu.example/numa on device gpu.example/pool/d0 failed: no such key: y",
    ),
    "a number that is none": (
        "dyn(1.5)",
        "evaluate derived attribute gpu.example/numa on device gpu.example/pool/d0 failed: unsupported CEL return "
        "type: float64",
    ),
    "a type that is none": (
        "1.5",
        "compile derived attribute gpu.example/numa failed: must evaluate to a primitive scalar (string, integer, "
        "boolean, semver) or a list of these scalars, not double",
    ),
}


@pytest.mark.parametrize(("expression", "want"), FAULTS.values(), ids=FAULTS)
def test_errors_of_derived_attributes(expression: str, want: str) -> None:
    claim = make_claim(deriving("a", expression), constraints=SAME)
    with pytest.raises(ClaimFault) as caught:
        search([make_slice(*PLACES)], claim, features=DERIVED)
    assert caught.value.about(["default/claim"]) == want


def test_derived_attributes_without_the_gate_are_an_error() -> None:
    with pytest.raises(ClaimFault) as caught:
        search([make_slice(*PLACES)], make_claim(deriving("a", "1"), constraints=SAME))
    want = "claim default/claim, request a: cannot handle request with derived attributes, the feature is disabled"
    assert caught.value.about(["default/claim"]) == want


def part(name: str, *groups: str, taint: DeviceTaint | None = None) -> Device:
    drawn = DeviceCounterConsumption("chip", {"units": Counter("1")}, groups)
    return replace(device(name, taint=taint), consumes_counters=(drawn,))


TAINT = DeviceTaint("broken", effect="NoSchedule")
PARTS = (part("d0", "a"), part("d1", "a", "b"), part("d2", "b"))
COMPATIBLE: dict[
    str, tuple[tuple[Device, ...], int, list[AllocationResult], DeviceFeatures, list[list[str]] | None]
] = {
    "D15 two that get on": (PARTS, 2, [], GROUPS, [["pool/d0", "pool/d1"]]),
    "three do not": (PARTS, 3, [], GROUPS, None),
    "D15 one that gets on with what is in use": (PARTS, 1, [held("d2")], GROUPS, [["pool/d1"]]),
    "D16 the search goes back and finds others": (
        (part("d0", "a"), part("d1", "a", taint=TAINT), part("d2", "b"), part("d3", "b")),
        2,
        [],
        GROUPS,
        [["pool/d2", "pool/d3"]],
    ),
    "those without groups stay among themselves": (
        (part("d0", "a"), part("d1"), part("d2")),
        2,
        [],
        GROUPS,
        [["pool/d1", "pool/d2"]],
    ),
    "with the gate off the slice does not count": (PARTS, 1, [], DeviceFeatures(), None),
}


@pytest.mark.parametrize(("devices", "count", "taken", "features", "want"), COMPATIBLE.values(), ids=COMPATIBLE)
def test_compatibility_groups(
    devices: tuple[Device, ...],
    count: int,
    taken: list[AllocationResult],
    features: DeviceFeatures,
    want: list[list[str]] | None,
) -> None:
    slices = [make_slice(name="s0", of=2, counters={"units": "9"}), make_slice(*devices, name="s1", of=2)]
    assert picked(search(slices, make_claim(exactly(count=count)), taken=taken, features=features)) == want


DECLARING = replace(NODE, status=NodeStatus(declared_features=(OPTIONAL_NODE_OPERATIONS,)))
SKIPS = DeviceFeatures(optional_node_operations=True)
SKIPPED = {
    "D13 a node that does without": (DECLARING, SKIPS, False),
    "D13 a node that does not say so": (NODE, SKIPS, True),
    "with another new feature on, no node": (DECLARING, LISTS, True),
    "with all of them off, every node": (NODE, DeviceFeatures(), False),
}


@pytest.mark.parametrize(("node", "features", "want"), SKIPPED.values(), ids=SKIPPED)
def test_devices_without_work_on_nodes(node: Node, features: DeviceFeatures, want: bool) -> None:
    result = make_slice(device("d0"), skip_node_operations=("*",))
    assert Slice(result, (), features).is_blocked_on(node) is want


def test_all_devices_mode_fails_if_one_device_is_unusable() -> None:
    blocked = make_slice(device("d0"), name="s0", pool="other", skip_node_operations=("*",))
    slices = [make_slice(device("d1")), blocked]
    assert picked(search(slices, make_claim(), features=SKIPS)) == [["pool/d1"]]
    everything = make_claim(exactly(allocation_mode="All", count=0))
    assert search(slices, everything, features=SKIPS) is None
