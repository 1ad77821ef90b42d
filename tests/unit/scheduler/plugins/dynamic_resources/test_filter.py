"""Nodes and devices with gated features: compatibility groups, and devices without node operations."""

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.dynamic_resources.allocation.test_allocator import NODE, picked, search
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    device,
    exactly,
    held,
    make_claim,
    make_slice,
)

from moorage.kube.api.devices import (
    AllocationResult,
    Counter,
    Device,
    DeviceCounterConsumption,
    DeviceTaint,
)
from moorage.kube.api.node import Node, NodeStatus
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures
from moorage.scheduler.plugins.dynamic_resources.devices.pools import OPTIONAL_NODE_OPERATIONS, Slice

LISTS = DeviceFeatures(list_attributes=True)


GROUPS = DeviceFeatures(compatibility_groups=True)


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
    "D15 one that is compatible with devices in use": (PARTS, 1, [held("d2")], GROUPS, [["pool/d1"]]),
    "D16 the search goes back and finds others": (
        (part("d0", "a"), part("d1", "a", taint=TAINT), part("d2", "b"), part("d3", "b")),
        2,
        [],
        GROUPS,
        [["pool/d2", "pool/d3"]],
    ),
    "those without groups remain among themselves": (
        (part("d0", "a"), part("d1"), part("d2")),
        2,
        [],
        GROUPS,
        [["pool/d1", "pool/d2"]],
    ),
    "with the gate off the slice does not count": (PARTS, 1, [], DeviceFeatures(), None),
}


@pytest.mark.parametrize(("devices", "count", "occupied", "features", "want"), COMPATIBLE.values(), ids=COMPATIBLE)
def test_compatibility_groups(
    devices: tuple[Device, ...],
    count: int,
    occupied: list[AllocationResult],
    features: DeviceFeatures,
    want: list[list[str]] | None,
) -> None:
    slices = [make_slice(name="s0", of=2, counters={"units": "9"}), make_slice(*devices, name="s1", of=2)]
    assert picked(search(slices, make_claim(exactly(count=count)), taken=occupied, features=features)) == want


DECLARING = replace(NODE, status=NodeStatus(declared_features=(OPTIONAL_NODE_OPERATIONS,)))


SKIPS = DeviceFeatures(optional_node_operations=True)


SKIPPED = {
    "D13 a node that does without": (DECLARING, SKIPS, False),
    "D13 a node that does not declare it": (NODE, SKIPS, True),
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
