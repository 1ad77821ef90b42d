"""Capacity requests rounded by a device's policy, and whether they fit."""

import pytest
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import device

from moorage.kube.api.devices import CapacityRange, CapacityRequestPolicy, DeviceCapacity
from moorage.kube.api.quantity import nano_value
from moorage.scheduler.plugins.dynamic_resources.devices.consumable_capacity import (
    CapacityError,
    consumption,
    fits,
    format_quantity,
)

RANGE = CapacityRequestPolicy(default="2Gi", valid_range=CapacityRange(min="1Gi", max="4Gi", step="1Gi"))
VALUES = CapacityRequestPolicy(default="1Gi", valid_values=("1Gi", "2Gi", "4Gi"))
FRACTIONS = CapacityRequestPolicy(default="500m", valid_range=CapacityRange(min="250m", step="250m"))
OPEN = CapacityRequestPolicy(valid_range=CapacityRange(min="1Gi"))

ROUNDED = {
    "without a policy an empty request means everything": (None, None, "8Gi"),
    "and a request is used unchanged": (None, "3Gi", "3Gi"),
    "an empty request means the default": (RANGE, None, "2Gi"),
    "less than the minimum is raised to it": (RANGE, "1Mi", "1Gi"),
    "between two steps is raised to the next": (RANGE, "1500Mi", "2Gi"),
    "a complete step is kept": (RANGE, "3Gi", "3Gi"),
    "without steps a request is unchanged": (OPEN, "1500Mi", "1500Mi"),
    "the next of the valid values is taken": (VALUES, "1500Mi", "2Gi"),
    "beyond all of them a request is unchanged": (VALUES, "6Gi", "6Gi"),
    "thousandths are counted exactly": (FRACTIONS, "300m", "500m"),
}


@pytest.mark.parametrize(("policy", "requested", "want"), ROUNDED.values(), ids=ROUNDED)
def test_rounding(policy: CapacityRequestPolicy | None, requested: str | None, want: str) -> None:
    result = device("d", capacity={"memory": DeviceCapacity("8Gi", policy)})
    allocated = consumption(result, {"memory": requested} if requested else {}, fractions=True)
    assert allocated == {"memory": nano_value(want)}


def test_without_fractions_everything_is_a_whole_number() -> None:
    result = device("d", capacity={"share": DeviceCapacity("2", FRACTIONS)})
    assert consumption(result, {"share": "300m"}, fractions=False) == {"share": nano_value(1)}


def test_a_capacity_the_device_lacks_cannot_be_taken() -> None:
    assert consumption(device("d", capacity={"memory": "8Gi"}), {"cores": "1"}, fractions=True) is None


FITTING = {
    "capacity is left": (RANGE, "2Gi", "4Gi", True),
    "the last bit": (RANGE, "2Gi", "6Gi", True),
    "more than is left": (RANGE, "3Gi", "6Gi", False),
    "more than the maximum": (RANGE, "5Gi", "0", False),
    "not one of the valid values": (VALUES, "6Gi", "0", False),
    "the default is always allowed": (CapacityRequestPolicy(default="3Gi", valid_values=("1Gi",)), None, "0", True),
}


@pytest.mark.parametrize(("policy", "requested", "consumed", "want"), FITTING.values(), ids=FITTING)
def test_fitting(policy: CapacityRequestPolicy, requested: str | None, consumed: str, want: bool) -> None:
    result = device("d", capacity={"memory": DeviceCapacity("8Gi", policy)})
    allocated = consumption(result, {"memory": requested} if requested else {}, fractions=True)
    assert allocated is not None
    assert fits(result, allocated, {"memory": nano_value(consumed)}, fractions=True) == want


def test_unrepresentable_capacity_is_an_error() -> None:
    fractional = device("d", capacity={"share": DeviceCapacity("2", FRACTIONS)})
    with pytest.raises(CapacityError, match='capacity "share": capacity request cannot be represented'):
        consumption(fractional, {"share": "300100u"}, fractions=True)
    with pytest.raises(CapacityError, match="capacity value is negative"):
        consumption(device("d", capacity={"share": "1"}), {"share": "-1"}, fractions=True)


WRITTEN = {
    "powers of 1024": ("2Gi", "1Gi", "2Gi"),
    "powers of 1000": ("2000", "1", "2k"),
    "thousandths": ("1500m", "1", "1500m"),
    "billionths": ("1n", "1", "1n"),
    "nothing": ("0", "1Gi", "0"),
}


@pytest.mark.parametrize(("amount", "like", "want"), WRITTEN.values(), ids=WRITTEN)
def test_writing(amount: str, like: str, want: str) -> None:
    assert format_quantity(nano_value(amount), like=like) == want


DRIVER = "nic.example.com"
BARE, QUALIFIED, FOREIGN = "bandwidth", f"{DRIVER}/bandwidth", "example.com/bandwidth"
FORMS: dict[str, tuple[dict[str, str], dict[str, str], dict[str, str] | None]] = {
    "published and requested without a domain": ({BARE: "8"}, {BARE: "2"}, {BARE: "2"}),
    "requested with the driver's domain": ({BARE: "8"}, {QUALIFIED: "2"}, {BARE: "2"}),
    "published with the driver's domain": ({QUALIFIED: "8"}, {BARE: "2"}, {QUALIFIED: "2"}),
    "both with the domain": ({QUALIFIED: "8"}, {QUALIFIED: "2"}, {QUALIFIED: "2"}),
    "a foreign domain is another capacity": ({FOREIGN: "8"}, {BARE: "2"}, None),
    "requested with a foreign domain": ({BARE: "8"}, {FOREIGN: "2"}, None),
    "the qualified form of a device counts": ({QUALIFIED: "8", BARE: "1"}, {BARE: "2"}, {QUALIFIED: "2"}),
    "in any order": ({BARE: "1", QUALIFIED: "8"}, {QUALIFIED: "2"}, {QUALIFIED: "2"}),
    "a missing capacity": ({BARE: "8"}, {"cores": "2"}, None),
}


@pytest.mark.parametrize(("published", "requested", "want"), FORMS.values(), ids=FORMS)
def test_capacity_names_without_a_domain_are_the_drivers(
    published: dict[str, str], requested: dict[str, str], want: dict[str, str] | None
) -> None:
    amounts = consumption(device("d", capacity=published), requested, fractions=True, driver=DRIVER)
    assert amounts == (None if want is None else {name: nano_value(amount) for name, amount in want.items()})


@pytest.mark.provisional("1.38")
def test_a_capacity_requested_in_both_forms_is_ambiguous() -> None:
    with pytest.raises(CapacityError, match=r'ambiguous capacity request: "nic.example.com/bandwidth"'):
        consumption(device("d", capacity={BARE: "8"}), {BARE: "2", QUALIFIED: "2"}, fractions=True, driver=DRIVER)


def test_consumed_capacity_may_have_the_other_form() -> None:
    shared = device("d", capacity={BARE: "8"})
    amounts = consumption(shared, {QUALIFIED: "6"}, fractions=True, driver=DRIVER)
    assert amounts is not None
    consumed = {QUALIFIED: nano_value("3")}
    assert not fits(shared, amounts, consumed, fractions=True, driver=DRIVER)
    assert fits(shared, amounts, consumed, fractions=True), "1.37 compares names literally"
