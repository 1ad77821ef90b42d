"""Constraints between devices: list attributes and derived attributes."""

from collections.abc import Iterable

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.dynamic_resources.allocation.test_allocator import picked, search
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    device,
    exactly,
    first_of,
    make_claim,
    make_slice,
)

from moorage.kube.api.devices import (
    DerivedAttribute,
    Device,
    DeviceAttribute,
    DeviceConstraint,
    DeviceRequest,
    ResourceClaim,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import ClaimFault
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures

LISTS = DeviceFeatures(list_attributes=True)


DERIVED = DeviceFeatures(derived_attributes=True)


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
    "D14 two neighbors have": (CHAIN, asking(2, SAME), LISTS, [["pool/d0", "pool/d1"]]),
    "a single value is a list of one": ((numa("d0", 0, 1), ONE), asking(2, SAME), LISTS, [["pool/d0", "pool/d1"]]),
    "texts are not numbers": ((numa("d0", string_values=("1",)), ONE), asking(2, SAME), LISTS, None),
    "distinct lists have nothing in common": (CHAIN, asking(2, DISTINCT), LISTS, [["pool/d0", "pool/d2"]]),
    "three devices are too many": (CHAIN, asking(3, DISTINCT), LISTS, None),
    "with the gate off lists are unknown": (CHAIN, asking(2, SAME), DeviceFeatures(), None),
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
    "D17 the values of an expression are equal": (
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
    "derived attributes without a constraint are not evaluated": (
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
    "an invalid number": (
        "dyn(1.5)",
        "evaluate derived attribute gpu.example/numa on device gpu.example/pool/d0 failed: unsupported CEL return "
        "type: float64",
    ),
    "an invalid type": (
        "1.5",
        "compile derived attribute gpu.example/numa failed: must evaluate to a primitive scalar (string, integer, "
        "boolean, semver) or a list of these scalars, not double",
    ),
    "a method of 1.38": (
        "cidr('10.0.0.0/8').isMask()",
        "compile derived attribute gpu.example/numa failed: compilation failed: ERROR: undeclared reference to "
        "'isMask' (in container '')",
    ),
}


@pytest.mark.parametrize(("expression", "want"), FAULTS.values(), ids=FAULTS)
def test_errors_of_derived_attributes(expression: str, want: str) -> None:
    claim = make_claim(deriving("a", expression), constraints=SAME)
    with pytest.raises(ClaimFault) as caught:
        search([make_slice(*PLACES)], claim, features=DERIVED)
    assert caught.value.about(["default/claim"]) == want


def test_derived_attributes_call_is_mask_from_1_38() -> None:
    claim = make_claim(deriving("a", "cidr('10.0.0.0/8').isMask()"), constraints=SAME)
    features = DeviceFeatures(derived_attributes=True, cidr_masks=True)
    assert search([make_slice(*PLACES)], claim, features=features) is not None


def test_derived_attributes_without_the_gate_are_an_error() -> None:
    with pytest.raises(ClaimFault) as caught:
        search([make_slice(*PLACES)], make_claim(deriving("a", "1"), constraints=SAME))
    want = "claim default/claim, request a: cannot handle request with derived attributes, the feature is disabled"
    assert caught.value.about(["default/claim"]) == want
