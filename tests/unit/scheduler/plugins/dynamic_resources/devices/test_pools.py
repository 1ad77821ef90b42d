"""Pools of a node: which slices count, and when a pool can be used."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import device, in_zone, make_slice

from moorage.kube.api.devices import (
    Counter,
    DeviceCounterConsumption,
    DeviceTaint,
    DeviceTaintRule,
    DeviceTaintRuleSpec,
    DeviceTaintSelector,
    ResourceSlice,
)
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures, PoolId
from moorage.scheduler.plugins.dynamic_resources.devices.pools import Pool, PoolBuilder, PoolError, Slice
from moorage.testing import make_node

NODE = make_node("n1", labels={"zone": "a"})
FEATURES = DeviceFeatures()
GROUPED = replace(device("g"), consumes_counters=(DeviceCounterConsumption("chip", {"c": Counter(1)}, ("group",)),))
ODD = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("zone", "Near", ("a",)),)),))


def pools(
    *slices: ResourceSlice, features: DeviceFeatures = FEATURES, rules: Sequence[DeviceTaintRule] = ()
) -> list[Pool]:
    """Return what node n1 sees."""
    existing = [Slice(result, rules, features) for result in slices]
    by_pool: dict[PoolId, dict[str, Slice]] = {}
    for result in existing:
        by_pool.setdefault(result.pool, {})[result.name] = result
    return PoolBuilder(by_pool, features).pools(NODE, existing)


def described(pools: Sequence[Pool]) -> list[str]:
    """Summarize the visible pools."""
    return [
        "incomplete"
        if pool.is_incomplete
        else "invalid"
        if pool.is_invalid
        else " ".join(
            item.device.name if reached else f"({item.device.name})"
            for item, reached in zip(pool.devices, pool.reached, strict=True)
        )
        for pool in pools
    ]


SEEN = {
    "a slice of the node": ([make_slice(device("d"))], ["d"]),
    "not one of another": ([make_slice(device("d"), node="n2")], []),
    "one for all nodes": ([make_slice(device("d"), all_nodes=True)], ["d"]),
    "one for nodes of its zone": ([make_slice(device("d"), node_selector=in_zone("a"))], ["d"]),
    "not one for other zones": ([make_slice(device("d"), node_selector=in_zone("b"))], []),
    "a slice without a node selection matches no node": ([make_slice(device("d"), node=None)], []),
    "devices that choose their nodes": (
        [
            make_slice(
                device("a", node_name="n1"),
                device("b", node_name="n2"),
                device("c", all_nodes=True),
                device("d", node_selector=in_zone("b")),
                device("e"),
                per_device_node_selection=True,
            )
        ],
        ["a (b) c (d) (e)"],
    ),
    "devices that do not select this node": (
        [make_slice(device("b", node_name="n2"), per_device_node_selection=True)],
        [],
    ),
    "the newest generation": (
        [make_slice(device("old"), name="1"), make_slice(device("new"), name="2", generation=2)],
        ["new"],
    ),
    "in any order": (
        [make_slice(device("new"), name="2", generation=2), make_slice(device("old"), name="1")],
        ["new"],
    ),
    "nothing while a newer generation appears elsewhere": (
        [make_slice(device("old"), name="1", of=2), make_slice(device("x"), name="2", node="n2", generation=2, of=2)],
        [],
    ),
    "a slice is missing": ([make_slice(device("d"), of=2)], ["incomplete"]),
    "the others may be for other nodes": (
        [make_slice(device("d"), of=2), make_slice(device("x"), name="2", node="n2", of=2)],
        ["d"],
    ),
    "a slice too many": ([make_slice(device("d")), make_slice(device("e"), name="2")], ["incomplete"]),
    "two devices of one name": ([make_slice(device("d"), device("d"))], ["invalid"]),
    "counters of the same name twice": (
        [
            make_slice(name="1", of=3, counters={"c": "1"}),
            make_slice(name="2", of=3, counters={"c": "1"}),
            make_slice(device("d"), name="3", of=3),
        ],
        ["invalid"],
    ),
    "counters that are not there": ([make_slice(device("d", draws={"c": "1"}))], ["invalid"]),
    "a counter that is not in the set": (
        [make_slice(name="1", of=2, counters={"x": "1"}), make_slice(device("d", draws={"c": "1"}), name="2", of=2)],
        ["invalid"],
    ),
    "drawn from elsewhere": (
        [
            make_slice(name="1", of=3, counters={"c": "1"}),
            make_slice(device("d"), name="2", of=3),
            make_slice(device("x", draws={"nope": "1"}), name="3", of=3, node="n2"),
        ],
        ["invalid"],
    ),
    "counters of another node's slice": (
        [
            make_slice(name="1", of=2, node="n2", counters={"c": "1"}),
            make_slice(device("d", draws={"c": "1"}), name="2", of=2),
        ],
        ["d"],
    ),
    "a slice with compatibility groups is omitted, and missed": (
        [make_slice(device("d"), name="1", of=2), make_slice(GROUPED, name="2", of=2)],
        ["incomplete"],
    ),
}


@pytest.mark.parametrize(("slices", "want"), SEEN.values(), ids=SEEN)
def test_seen(slices: Sequence[ResourceSlice], want: list[str]) -> None:
    assert described(pools(*slices)) == want


def test_without_partitions_slices_that_use_them_are_omitted() -> None:
    off = DeviceFeatures(partitionable=False)
    slices = [
        make_slice(name="1", pool="a", counters={"c": "1"}),
        make_slice(device("d", all_nodes=True), name="2", pool="b", per_device_node_selection=True),
        make_slice(device("d"), name="3", pool="c"),
    ]
    assert described(pools(*slices, features=off)) == ["d"]


def test_a_selector_that_makes_no_sense_is_an_error() -> None:
    with pytest.raises(PoolError, match="failed to perform node selection for slice slice"):
        pools(make_slice(device("d"), node_selector=ODD))


RULES = {
    "for every device": (DeviceTaintSelector(), ["a", "b"]),
    "for a driver": (DeviceTaintSelector(driver="gpu.example"), ["a", "b"]),
    "for another driver": (DeviceTaintSelector(driver="nic.example"), []),
    "for another pool": (DeviceTaintSelector(pool="other"), []),
    "for one device": (DeviceTaintSelector(device="b"), ["b"]),
    "without a selector, for none": (None, []),
}


@pytest.mark.parametrize(("selector", "want"), RULES.values(), ids=RULES)
def test_rules_taint_devices(selector: DeviceTaintSelector | None, want: list[str]) -> None:
    rule = DeviceTaintRule(spec=DeviceTaintRuleSpec(selector, DeviceTaint("k", "", "NoSchedule")))
    (pool,) = pools(make_slice(device("a"), device("b")), rules=[rule])
    assert [item.device.name for item in pool.devices if item.taints] == want


def test_nodes_with_the_same_slices_share_a_pool() -> None:
    existing = Slice(make_slice(device("d"), all_nodes=True), (), FEATURES)
    builder = PoolBuilder({existing.pool: {existing.name: existing}}, FEATURES)
    assert builder.pools(NODE, [existing]) == builder.pools(make_node("n2"), [existing])
