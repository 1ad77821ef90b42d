"""The search for devices."""

from collections.abc import Iterable, Sequence
from itertools import combinations, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.scheduler.plugins.dynamic_resources.allocation.search_builders import (
    CLASSES,
    FEATURES,
    NODE,
    SAME_NUMA,
    four,
    search,
    shared,
)
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    device,
    exactly,
    first_of,
    held,
    make_claim,
    make_slice,
)

from moorage.common.clock import VirtualClock
from moorage.kube.api.devices import (
    AllocationResult,
    DeviceConstraint,
    DeviceTaint,
    DeviceToleration,
    ResourceClaim,
    ResourceSlice,
)
from moorage.kube.api.quantity import nano_value
from moorage.scheduler.plugins.dynamic_resources.allocation import allocator
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import (
    Search,
    SearchBudget,
    SearchTimeout,
    Solution,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import parse_claim
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import AllocatedDevices
from moorage.scheduler.plugins.dynamic_resources.devices.pools import DeviceView, PoolBuilder, Slice


def picked(solution: Solution | None) -> list[list[str]] | None:
    """Name the devices each claim got."""
    if solution is None:
        return None
    return [[f"{item.device.id.pool}/{item.device.id.name}" for item in selection] for selection in solution.choices]


BIG = 'device.attributes["gpu.example"].size == "big"'


PICKED = {
    "the first device in the slice": ([make_claim()], (), [["pool/d0"]]),
    "the first free device": ([make_claim()], [held("d0", "d1")], [["pool/d2"]]),
    "one held with admin access is free": ([make_claim()], [held("d0", admin_access=True)], [["pool/d0"]]),
    "the first of the class": ([make_claim(exactly(device_class_name="big"))], (), [["pool/d1"]]),
    "the first that passes the request's own test": ([make_claim(exactly("r", BIG))], (), [["pool/d1"]]),
    "several": ([make_claim(exactly(count=3))], (), [["pool/d0", "pool/d1", "pool/d2"]]),
    "requests one after the other": (
        [make_claim(exactly("a"), exactly("b", BIG), exactly("c"))],
        (),
        [["pool/d0", "pool/d1", "pool/d2"]],
    ),
    "claims one after the other": ([make_claim(), make_claim(name="b")], (), [["pool/d0"], ["pool/d1"]]),
    "an earlier request gives way to a later one": (
        [make_claim(exactly("a"), exactly("b", BIG, count=2))],
        [held("d0")],
        [["pool/d3", "pool/d1", "pool/d2"]],
    ),
    "an earlier claim gives way to a later one": (
        [make_claim(), make_claim(exactly("b", BIG, count=2), name="b")],
        [held("d0")],
        [["pool/d3"], ["pool/d1", "pool/d2"]],
    ),
    "all of them": ([make_claim(exactly(allocation_mode="All", count=0))], (), [[f"pool/d{i}" for i in range(4)]]),
    "all that pass": ([make_claim(exactly("r", BIG, allocation_mode="All", count=0))], (), [["pool/d1", "pool/d2"]]),
    "all, but one is taken": ([make_claim(exactly(allocation_mode="All", count=0))], [held("d2")], None),
    "all, but none passes": ([make_claim(exactly("r", "false", allocation_mode="All", count=0))], (), None),
    "more than there are": ([make_claim(exactly(count=5))], (), None),
    "of the same value": (
        [make_claim(exactly(count=2), constraints=SAME_NUMA)],
        [held("d1")],
        [["pool/d2", "pool/d3"]],
    ),
    "of the same value, in some requests only": (
        [
            make_claim(
                exactly("a"),
                exactly("b"),
                exactly("c"),
                constraints=[DeviceConstraint(("a", "c"), match_attribute="gpu.example/numa")],
            )
        ],
        [held("d1")],
        [["pool/d2", "pool/d0", "pool/d3"]],
    ),
    "of different values": (
        [make_claim(exactly(count=2), constraints=[DeviceConstraint(distinct_attribute="gpu.example/numa")])],
        (),
        [["pool/d0", "pool/d2"]],
    ),
    "an attribute of no device satisfies nothing": (
        [make_claim(constraints=[DeviceConstraint(match_attribute="gpu.example/nope")])],
        (),
        None,
    ),
    "the first alternative": ([make_claim(first_of("r", exactly("s0"), exactly("s1", BIG)))], (), [["pool/d0"]]),
    "the next if the first cannot be had": (
        [make_claim(first_of("r", exactly("s0", count=5), exactly("s1", BIG)))],
        (),
        [["pool/d1"]],
    ),
    "the next if a later request needs it": (
        [make_claim(first_of("r", exactly("s0", BIG, count=2), exactly("s1")), exactly("b", BIG))],
        (),
        [["pool/d0", "pool/d1"]],
    ),
    "a list that would be too long gives way": (
        [make_claim(first_of("r", exactly("s0", count=40), exactly("s1")))],
        (),
        [["pool/d0"]],
    ),
    "admin access looks at a device in use": ([make_claim(exactly(admin_access=True))], [held("d0")], [["pool/d0"]]),
    "but not at the same one twice": (
        [make_claim(exactly(admin_access=True, count=2))],
        (),
        [["pool/d0", "pool/d1"]],
    ),
}


@pytest.mark.parametrize(("claims", "occupied", "want"), PICKED.values(), ids=PICKED)
def test_picks(
    claims: Sequence[ResourceClaim], occupied: Iterable[AllocationResult], want: list[list[str]] | None
) -> None:
    assert picked(search([four()], *claims, taken=occupied)) == want


ORDER = {
    "pools by driver, then name": (
        [
            make_slice(device("d"), name="1", pool="a", driver="z.example"),
            make_slice(device("d"), name="2", pool="c"),
            make_slice(device("d"), name="3", pool="b"),
        ],
        ["b/d", "c/d", "a/d"],
    ),
    "slices by name": (
        [make_slice(device("x"), name="2", of=2), make_slice(device("y"), name="1", of=2)],
        ["pool/y", "pool/x"],
    ),
    "pools with binding conditions last": (
        [
            make_slice(device("d", binding_conditions=("ready",)), name="1", pool="a"),
            make_slice(device("d"), name="2", pool="b"),
        ],
        ["b/d", "a/d"],
    ),
}


@pytest.mark.parametrize(("slices", "want"), ORDER.values(), ids=ORDER)
def test_order(slices: Sequence[ResourceSlice], want: list[str]) -> None:
    assert picked(search(slices, make_claim(exactly(count=len(want))))) == [want]


TAINT = DeviceTaint("k", "v", "NoSchedule")


TOLERATED = {
    "no toleration": ((), False),
    "of the key": ((DeviceToleration("k", "Exists"),), True),
    "of the value": ((DeviceToleration("k", "Equal", "v"),), True),
    "of another value": ((DeviceToleration("k", "", "w"),), False),
    "of everything": ((DeviceToleration(operator="Exists"),), True),
    "of another effect": ((DeviceToleration("k", "Exists", effect="NoExecute"),), False),
    "with an unknown operator": ((DeviceToleration("k", "Gt"),), False),
}


@pytest.mark.parametrize(("tolerations", "want"), TOLERATED.values(), ids=TOLERATED)
def test_taints(tolerations: tuple[DeviceToleration, ...], want: bool) -> None:
    tainted = make_slice(device("d", taint=TAINT))
    assert (search([tainted], make_claim(exactly(tolerations=tolerations))) is not None) == want


def test_unknown_taint_effects_are_ignored() -> None:
    assert search([make_slice(device("d", taint=DeviceTaint("k", "v", "None")))], make_claim()) is not None


PARTS = [
    make_slice(name="counters", of=2, counters={"memory": "8", "engines": "3"}),
    make_slice(
        device("whole", draws={"memory": "8", "engines": "3"}),
        device("half", draws={"memory": "4", "engines": "1"}),
        device("other-half", draws={"memory": "4", "engines": "1"}),
        device("quarter", draws={"memory": "2", "engines": "1"}),
        name="devices",
        of=2,
    ),
]


COUNTED = {
    "the complete leaves nothing": (1, [held("whole")], None),
    "the remaining part is allocated next": (1, [held("half")], ["pool/other-half"]),
    "two halves leave no memory": (1, [held("half", "other-half")], None),
    "two halves are the complete": (2, (), ["pool/half", "pool/other-half"]),
    "devices seen by an administrator draw nothing": (1, [held("whole", admin_access=True)], ["pool/whole"]),
    "three are one too many": (3, (), None),
}


@pytest.mark.parametrize(("count", "occupied", "want"), COUNTED.values(), ids=COUNTED)
def test_counters(count: int, occupied: Iterable[AllocationResult], want: list[str] | None) -> None:
    result = picked(search(PARTS, make_claim(exactly(count=count)), taken=occupied))
    assert result == (None if want is None else [want])


def test_a_shared_device_serves_as_many_as_its_capacity_allows() -> None:
    claim = make_claim(*(exactly(f"r{i}", capacity={"memory": "3Gi"}) for i in range(3)))
    assert search([shared("9Gi")], claim) is not None
    assert search([shared("8Gi")], claim) is None


def test_shares_of_other_claims_count() -> None:
    share = held("d", share_id="s", consumed_capacity={"memory": "6Gi"})
    assert search([shared()], make_claim(exactly(capacity={"memory": "2Gi"})), taken=[share]) is not None
    assert search([shared()], make_claim(exactly(capacity={"memory": "3Gi"})), taken=[share]) is None


def test_the_shares_of_a_device_draw_its_counters_once() -> None:
    slices = [
        make_slice(name="counters", of=2, counters={"engines": "1"}),
        make_slice(
            device("d", shared=True, capacity={"memory": "8Gi"}, draws={"engines": "1"}),
            device("x", draws={"engines": "1"}),
            name="devices",
            of=2,
        ),
    ]
    two = make_claim(exactly("a", capacity={"memory": "1Gi"}), exactly("b", capacity={"memory": "1Gi"}))
    assert picked(search(slices, two)) == [["pool/d", "pool/d"]]


class Ticking:
    """A clock that moves on a second whenever it is read."""

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        self._now += 1
        return self._now


def hopeless_search(budget: SearchBudget) -> Search:
    """Request more devices of one kind than exist, with constraints that hide this from the search."""
    kinds = [device(f"d{number}", attributes={"kind": f"k{number % 4}"}) for number in range(36)]
    existing = Slice(make_slice(*kinds), (), FEATURES)
    view = DeviceView(0, PoolBuilder({existing.pool: {existing.name: existing}}, FEATURES).pools(NODE, [existing]))
    requests = [
        *(exactly(f"r{number}", "true" + " && true" * number) for number in range(10)),
        first_of("last", exactly("a", count=1), exactly("b", count=30)),
    ]
    claim = make_claim(*requests, constraints=[DeviceConstraint(match_attribute="gpu.example/kind")])
    parsed_claims = (parse_claim(claim.spec, CLASSES.get, FEATURES),)
    return Search(parsed_claims, view, AllocatedDevices(), FEATURES, budget)


def test_a_search_ends_when_its_time_is_up() -> None:
    with pytest.raises(SearchTimeout):
        hopeless_search(SearchBudget(Ticking(), 10)).run()


def test_steps_are_limited_when_the_clock_does_not_advance(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "MAX_STEPS", 2000)
    with pytest.raises(SearchTimeout):
        hopeless_search(SearchBudget(VirtualClock(), 10)).run()


def test_searches_of_an_attempt_share_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocator, "MAX_STEPS", 2000)
    budget, took_most = SearchBudget(VirtualClock(), 10), []
    for _ in range(2):
        budget.start_search()
        with pytest.raises(SearchTimeout):
            hopeless_search(budget).run()
        took_most.append(budget.last_search_took_most())
    assert took_most == [True, False]


DEVICES = st.lists(
    st.tuples(st.sampled_from(["big", "small"]), st.integers(0, 1), st.integers(1, 4)), min_size=1, max_size=5
)


WISHES = st.lists(st.tuples(st.booleans(), st.integers(1, 2)), min_size=1, max_size=3)


@given(devices=DEVICES, wishes=WISHES, same=st.booleans(), room=st.integers(2, 8))
def test_the_first_solution_in_order_is_found(
    devices: list[tuple[str, int, int]], wishes: list[tuple[bool, int]], same: bool, room: int
) -> None:
    """Compare with trying everything: combinations in order, requests in order."""
    slices = [
        make_slice(name="counters", of=2, counters={"memory": str(room)}),
        make_slice(
            *(
                device(f"d{i}", attributes={"size": size, "numa": numa}, draws={"memory": str(weight)})
                for i, (size, numa, weight) in enumerate(devices)
            ),
            name="devices",
            of=2,
        ),
    ]
    requests = [exactly(f"r{i}", *([BIG] if big else []), count=count) for i, (big, count) in enumerate(wishes)]
    result = picked(search(slices, make_claim(*requests, constraints=SAME_NUMA if same else ())))
    want = _by_trying(devices, wishes, same, room)
    assert result == (None if want is None else [[f"pool/d{i}" for i in want]])


def _by_trying(
    devices: list[tuple[str, int, int]], wishes: list[tuple[bool, int]], same: bool, room: int
) -> list[int] | None:
    everything = range(len(devices))
    options = [
        combinations([i for i in everything if not big or devices[i][0] == "big"], count) for big, count in wishes
    ]
    for choice in product(*options):
        selection = [i for part in choice for i in part]
        fits = sum(devices[i][2] for i in selection) <= room and len(set(selection)) == len(selection)
        if fits and (not same or len({devices[i][1] for i in selection}) <= 1):
            return selection
    return None


@given(
    amounts=st.lists(st.integers(1, 6), min_size=1, max_size=5),
    rooms=st.lists(st.integers(1, 8), min_size=1, max_size=3),
)
def test_no_device_is_given_more_than_it_has(amounts: list[int], rooms: list[int]) -> None:
    slices = [
        make_slice(*(device(f"d{i}", shared=True, capacity={"memory": f"{room}Gi"}) for i, room in enumerate(rooms)))
    ]
    claim = make_claim(*(exactly(f"r{i}", capacity={"memory": f"{amount}Gi"}) for i, amount in enumerate(amounts)))
    solution = search(slices, claim)
    given_out: dict[str, int] = {}
    for item in solution.choices[0] if solution is not None else ():
        assert item.consumed is not None
        name = item.device.id.name
        given_out[name] = given_out.get(name, 0) + item.consumed["memory"]
    assert all(total <= nano_value(f"{rooms[int(name[1:])]}Gi") for name, total in given_out.items())
