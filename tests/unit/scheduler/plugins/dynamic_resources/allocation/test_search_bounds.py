"""Hard searches: pruning branches and caching dead ends changes only the duration."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.plugins.dynamic_resources.allocation.test_allocator import search
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    device,
    exactly,
    first_of,
    held,
    make_claim,
    make_slice,
)

from moorage.kube.api.devices import AllocationResult, DeviceConstraint, DeviceRequest, ResourceClaim, ResourceSlice
from moorage.scheduler.plugins.dynamic_resources.allocation import allocator
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import ClaimFault

SELECTORS = (
    (),
    ("true",),
    ('device.attributes["gpu.example"].size == "big"',),
    ('device.attributes["gpu.example"].numa == 0',),
    ("device.allowMultipleAllocations",),
)
FAILING = ('device.attributes["gpu.example"].rare == 1',)
ATTRIBUTES = ("gpu.example/numa", "gpu.example/size", "gpu.example/rare")


def outcome(
    slices: list[ResourceSlice], claims: list[ResourceClaim], occupied: list[AllocationResult], *, hard: int
) -> object:
    """Search with or without bounds; return the devices, or the fault."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(allocator, "MAX_EASY_STEPS", hard)
        try:
            result = search(slices, *claims, taken=occupied)
        except ClaimFault as fault:
            return fault.text, fault.claim
    if result is None:
        return None
    devices = [
        [(item.device.id, item.alternative.qualified, item.consumed) for item in part] for part in result.choices
    ]
    return devices, [[alternative.qualified for alternative in part] for part in result.alternatives]


@settings(max_examples=400, deadline=None)
@given(st.randoms(use_true_random=False))
def test_a_hard_search_finds_the_same_as_a_plain_search(chance: Random) -> None:
    slices = some_slices(chance)
    claims = [some_claim(chance, f"c{number}") for number in range(chance.choice((1, 1, 2)))]
    allocated = [held("d0", "d1")] if chance.random() < 0.3 else []
    assert outcome(slices, claims, allocated, hard=1) == outcome(slices, claims, allocated, hard=-1)


def some_slices(chance: Random) -> list[ResourceSlice]:
    devices = []
    has_counters = chance.random() < 0.3
    for number in range(chance.randint(1, 6)):
        attributes: dict[str, str | int] = {"numa": chance.randint(0, 1), "size": chance.choice(("big", "small"))}
        if chance.random() < 0.5:
            attributes["rare"] = chance.randint(0, 1)
        shared = chance.random() < 0.2
        draws = {"memory": str(chance.randint(1, 3))} if has_counters and not shared else None
        capacity = {"memory": "4Gi"} if shared else None
        devices.append(device(f"d{number}", attributes=attributes, shared=shared, capacity=capacity, draws=draws))
    counters = [make_slice(name="counters", of=2, counters={"memory": "6"})] if has_counters else []
    return [*counters, make_slice(*devices, name="devices", of=1 + len(counters))]


def some_claim(chance: Random, name: str) -> ResourceClaim:
    requests = [some_request(chance, f"r{number}") for number in range(chance.randint(1, 4))]
    constraints = []
    if chance.random() < 0.6:
        names = tuple(request.name for request in requests if chance.random() < 0.5)
        if requests[0].first_available and chance.random() < 0.5:
            names = (f"{requests[0].name}/s0",)
        kind = chance.choice(("match_attribute", "distinct_attribute"))
        constraints.append(DeviceConstraint(requests=names, **{kind: chance.choice(ATTRIBUTES)}))
    return make_claim(*requests, name=name, constraints=constraints)


def some_request(chance: Random, name: str) -> DeviceRequest:
    if chance.random() < 0.25:
        return first_of(name, *(wanted(chance, f"s{number}") for number in range(chance.randint(1, 3))))
    return wanted(chance, name, admin_access=True) if chance.random() < 0.1 else wanted(chance, name)


def wanted(chance: Random, name: str, **fields: bool) -> DeviceRequest:
    if chance.random() < 0.1:
        return exactly(name, allocation_mode="All", count=0, **fields)
    capacity = {"memory": "1Gi"} if chance.random() < 0.1 else None
    expressions = FAILING if chance.random() < 0.05 else chance.choice(SELECTORS)
    return exactly(name, *expressions, count=chance.choice((1, 1, 2, 3)), capacity=capacity, **fields)


HOPELESS = {
    "more of a kind than there are": [exactly(f"r{number}") for number in range(12)],
    "each with a separate expression": [exactly(f"r{number}", "true" + " && true" * number) for number in range(12)],
    "one request for many, after others": [exactly("a"), exactly("b"), exactly("c", count=10)],
    "too many alternatives": [
        *(exactly(f"r{number}") for number in range(9)),
        first_of("last", exactly("x", count=4), exactly("y", count=3)),
    ],
}


@pytest.mark.parametrize("requests", HOPELESS.values(), ids=HOPELESS)
@pytest.mark.parametrize("size", [11, 100])
def test_infeasible_claims_are_detected_early(
    requests: list[DeviceRequest], size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups of eleven, and twelve devices wanted of one: by trying everything it would take longer than one lives."""
    monkeypatch.setattr(allocator, "MAX_STEPS", 20_000)
    devices = [device(f"d{number}", attributes={"group": number // 11}) for number in range(size // 11 * 11)]
    claim = make_claim(*requests, constraints=[DeviceConstraint(match_attribute="gpu.example/group")])
    assert search([make_slice(*devices)], claim, budget=allocator.SearchBudget(timeout=10)) is None


def test_dead_ends_are_met_once_where_looking_ahead_does_not_help(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values that must differ, and one value too few: the same devices in any order are the same dead end."""
    monkeypatch.setattr(allocator, "MAX_STEPS", 50_000)
    devices = [device(f"d{number}", attributes={"slot": number % 8}) for number in range(9)]
    claim = make_claim(
        *(exactly(f"r{number}", "true" + " && true" * number) for number in range(9)),
        constraints=[DeviceConstraint(distinct_attribute="gpu.example/slot")],
    )
    assert search([make_slice(*devices)], claim, budget=allocator.SearchBudget(timeout=10)) is None


def test_the_same_devices_under_another_value_are_searched() -> None:
    """The first request is free: which of the two devices the second has decides about the third."""
    devices = [device(f"d{number}", attributes={"numa": numa}) for number, numa in enumerate((1, 0, 1))]
    constraint = DeviceConstraint(requests=("b", "c"), match_attribute="gpu.example/numa")
    claim = make_claim(*(exactly(name) for name in "abc"), constraints=[constraint])
    slices = [make_slice(*devices)]
    assert outcome(slices, [claim], [], hard=1) == outcome(slices, [claim], [], hard=-1) is not None
