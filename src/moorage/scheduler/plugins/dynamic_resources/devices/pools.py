"""Slices of devices, assembled into the pools that a node reaches.

A pool consists of the newest generation of its slices. It is usable if the generation is complete and consistent.
Devices are tried by driver, pool and slice name, and position in the slice. Pools with binding conditions are last.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from msgspec.structs import replace

from moorage.common.errors import MoorageError, SelectorError
from moorage.kube.api.devices import (
    Device,
    DeviceTaint,
    DeviceTaintRule,
    DeviceToleration,
    ResourceSlice,
    ResourceSliceSpec,
)
from moorage.kube.api.node import Node
from moorage.kube.api.quantity import nano_value
from moorage.kube.api.selectors import NodeMatcher, NodeSelector, node_term_matcher
from moorage.scheduler.framework.node_selection import matching_nodes
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray
from moorage.scheduler.plugins.dynamic_resources.cel.program import Facts, device_facts
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures, DeviceId, PoolId

CounterKey = tuple[str, str]
OPTIONAL_NODE_OPERATIONS: Final = "DRAOptionalNodeOperations"
"""The feature of nodes that support devices without node operations."""
Counters = dict[CounterKey, int]


class PoolError(MoorageError):
    """The devices that a node reaches cannot be determined."""


class PooledDevice:
    """A device of a slice, with the taints of rules; compared by identity."""

    def __init__(
        self, device: Device, spec: ResourceSliceSpec, taints: tuple[DeviceTaint, ...], multiple: bool
    ) -> None:
        self.device = device
        self.spec = spec
        self.taints = taints
        self.is_shareable = multiple
        self.id = DeviceId(spec.driver, spec.pool.name, device.name)

    @cached_property
    def facts(self) -> Facts:
        """The device as CEL expressions see it."""
        return device_facts(self.id.driver, self.device)

    @cached_property
    def scored_facts(self) -> Facts:
        """The device as CEL expressions see it in scoring: as upstream, without allowMultipleAllocations.

        Kept with the device, because the facts contain the results of expressions.
        """
        return device_facts(self.id.driver, replace(self.device, allow_multiple_allocations=None))

    @cached_property
    def draws(self) -> Counters:
        """The counters that the device consumes while in use, in billionths."""
        total: Counters = {}
        for consumption in self.device.consumes_counters:
            for name, counter in consumption.counters.items():
                key = (consumption.counter_set, name)
                total[key] = total.get(key, 0) + nano_value(counter.value)
        return total

    @cached_property
    def groups(self) -> tuple[tuple[str, frozenset[str]], ...]:
        """The counter sets it consumes, each with its compatibility groups there."""
        consumptions = self.device.consumes_counters
        return tuple((item.counter_set, frozenset(item.compatibility_groups)) for item in consumptions)


class Slice:
    """A slice, parsed once for all nodes."""

    def __init__(
        self, resource_slice: ResourceSlice, rules: Iterable[DeviceTaintRule], features: DeviceFeatures
    ) -> None:
        spec = resource_slice.spec
        rules = tuple(rules)
        self.name = resource_slice.name
        self.spec = spec
        self.pool = PoolId(spec.driver, spec.pool.name)
        self.devices = tuple(
            PooledDevice(
                device,
                spec,
                (*device.taints, *added_taints(rules, spec, device)) if features.taints else (),
                features.consumable_capacity and bool(device.allow_multiple_allocations),
            )
            for device in spec.devices
        )
        self.holds_counters = features.partitionable and bool(spec.shared_counters)
        draws = [draw for device in spec.devices for draw in device.consumes_counters]
        # Without the gate DRADeviceCompatibilityGroups, slices with groups are ignored, so their pool is incomplete.
        has_groups = any(draw.compatibility_groups for draw in draws)
        self.is_unsupported = has_groups and not features.compatibility_groups
        self.is_ignored = self.is_unsupported or (
            not features.partitionable and (spec.per_device_node_selection is not None or bool(spec.shared_counters))
        )
        self._matchers: dict[int, NodeMatcher | SelectorError] = {}
        self._equal_matchers: dict[NodeSelector, NodeMatcher | SelectorError] = {}
        self._needs_feature = features.heeds_skipped_operations and bool(spec.skip_node_operations)
        self._may_skip = features.optional_node_operations

    def reach_of_nodes(self, nodes: NodeTable) -> BoolArray | None:
        """Find the devices (rows) that can be used on each node of a table; one row if the slice decides for all.

        ``None`` if this must be determined for each node: without selectors, or with an invalid one.
        """
        scopes: Sequence[ResourceSliceSpec | Device] = [self.spec]
        if self.spec.per_device_node_selection:
            if self.spec.all_nodes or self.spec.node_selector is not None:
                return None  # which the API forbids
            scopes = [item.device for item in self.devices]
        if all(scope.node_selector is None for scope in scopes):
            return None
        masks = np.zeros((len(scopes), len(nodes)), dtype=np.bool_)
        for mask, scope in zip(masks, scopes, strict=True):
            if scope.node_name:
                info = nodes.find(scope.node_name)
                if info is not None:
                    mask[info.row] = True
            elif scope.all_nodes:
                mask[:] = True
            elif scope.node_selector is not None:
                matcher = self._matcher(scope.node_selector)
                if isinstance(matcher, SelectorError):
                    return None
                mask[:] = matching_nodes(matcher, nodes)
        return masks

    def is_reachable(self, node: Node) -> bool:
        """Return whether some of its devices can be used on a node."""
        spec = self.spec
        if spec.node_name or spec.all_nodes or spec.node_selector is not None:
            return self._matches(node, spec, f"slice {self.name}")
        return bool(spec.per_device_node_selection) and any(
            self._matches(node, item.device, f"device {item.device.name} in slice {self.name}") for item in self.devices
        )

    def reach(self, node: Node) -> tuple[bool, ...] | None:
        """Return for each device whether it can be used on a node, or ``None`` if the slice decides for all devices."""
        if not self.spec.per_device_node_selection:
            return None
        return tuple(self._matches(node, item.device, f"device {item.device.name}") for item in self.devices)

    def is_blocked_on(self, node: Node) -> bool:
        """Return whether a node cannot use its devices because it does not support optional node operations."""
        return self._needs_feature and not (
            self._may_skip and OPTIONAL_NODE_OPERATIONS in node.status.declared_features
        )

    def _matches(self, node: Node, scope: ResourceSliceSpec | Device, subject: str) -> bool:
        if scope.node_name:
            return node.name == scope.node_name
        if scope.all_nodes:
            return True
        if scope.node_selector is None:
            return False
        matcher = self._matcher(scope.node_selector)
        if isinstance(matcher, SelectorError):
            raise PoolError(f"failed to perform node selection for {subject}: {matcher}") from matcher
        return matcher.matches(node.labels, node.name)

    def _matcher(self, selector: NodeSelector) -> NodeMatcher | SelectorError:
        # By identity first: the hash of a selector with 50,000 expressions takes longer than its evaluation.
        matcher = self._matchers.get(id(selector))
        if matcher is None:
            matcher = self._equal_matchers.get(selector)
            if matcher is None:
                try:
                    matcher = strict_matcher(selector)
                except SelectorError as error:
                    matcher = error
                self._equal_matchers[selector] = matcher
            self._matchers[id(selector)] = matcher
        return matcher


def strict_matcher(selector: NodeSelector) -> NodeMatcher:
    """Parse a node selector. Raise SelectorError if a term is invalid."""
    return NodeMatcher(tuple(node_term_matcher(term) for term in selector.node_selector_terms))


Reach = Mapping[Slice, tuple[bool, ...]]
"""For each device of a slice whether a node reaches it; one value if the slice decides for all devices."""


class Pool:
    """A pool as seen from some nodes; compared by identity, so nodes with the same view share it."""

    def __init__(self, pool: PoolId, *, is_incomplete: bool = False, is_invalid: bool = False) -> None:
        self.id = pool
        self.is_incomplete = is_incomplete
        self.is_invalid = is_invalid
        self.devices: tuple[PooledDevice, ...] = ()
        self.reached: tuple[bool, ...] = ()
        self.others: tuple[PooledDevice, ...] = ()
        self.blocked: frozenset[DeviceId] = frozenset()
        """Reachable devices that the node cannot use. They make requests for all devices fail."""
        self.counters: Counters = {}

    @property
    def is_usable(self) -> bool:
        """Whether devices may be taken from it."""
        return not self.is_incomplete and not self.is_invalid

    @cached_property
    def has_binding_conditions(self) -> bool:
        return any(item.device.binding_conditions for item in self.devices)


class DeviceView:
    """All pools of a node, in search order; nodes with the same pools share it."""

    def __init__(self, number: int, pools: Sequence[Pool], problem: str = "") -> None:
        self.number = number
        self.pools = tuple(pools)
        self.problem = problem

    @cached_property
    def candidates(self) -> tuple[tuple[PooledDevice, Pool, bool], ...]:
        """The devices of usable pools, and whether the node reaches them."""
        return tuple(
            (device, pool, reached)
            for pool in self.pools
            if pool.is_usable
            for device, reached in zip(pool.devices, pool.reached, strict=True)
        )


class PoolBuilder:
    """Builds the pools of a node from its slices."""

    def __init__(self, by_pool: Mapping[PoolId, Mapping[str, Slice]], features: DeviceFeatures) -> None:
        self._by_pool = by_pool
        self._counts = features.partitionable
        self._by_key: dict[tuple[object, ...], Pool] = {}

    def pools(self, node: Node, slices: Iterable[Slice], reach: Reach | None = None) -> list[Pool]:
        """Return the pools of a node in search order. ``reach`` has the devices of slices that are known already."""
        reach = {} if reach is None else reach
        newest: dict[PoolId, list[Slice]] = {}
        for item in slices:
            reach_by_node = reach.get(item)
            if not item.is_ignored and (item.is_reachable(node) if reach_by_node is None else any(reach_by_node)):
                own, generation = newest.setdefault(item.pool, []), item.spec.pool.generation
                if own and generation > own[0].spec.pool.generation:
                    own.clear()
                if not own or generation == own[0].spec.pool.generation:
                    own.append(item)
        pools = [pool for name, own in newest.items() if (pool := self._pool(name, own, node, reach)) is not None]
        return sorted(pools, key=lambda pool: (pool.has_binding_conditions, pool.id))

    def _pool(self, name: PoolId, own: list[Slice], node: Node, known_reach: Reach) -> Pool | None:
        generation, count = own[0].spec.pool.generation, own[0].spec.pool.resource_slice_count
        pool_slices = own
        if len(own) != count:
            all_slices = self._by_pool[name].values()
            if any(item.spec.pool.generation > generation for item in all_slices):
                # The driver is replacing the pool, and no slice of the new generation is for this node yet.
                return None
            pool_slices = [i for i in all_slices if i.spec.pool.generation == generation and not i.is_unsupported]
            if len(pool_slices) != count:
                return self._by_key.setdefault((name, "incomplete"), Pool(name, is_incomplete=True))
        own.sort(key=lambda item: item.name)
        reach = tuple(
            known_reach[item] if item in known_reach and item.spec.per_device_node_selection else item.reach(node)
            for item in own
        )
        blocked = tuple(item.is_blocked_on(node) for item in own)
        key = (name, *map(id, own), None, *map(id, pool_slices), reach, blocked)
        pool = self._by_key.get(key)
        if pool is None:
            pool = self._by_key[key] = _assemble(name, own, reach, pool_slices, counts=self._counts)
            if any(blocked):
                closed = [item for item, is_blocked in zip(own, blocked, strict=True) if is_blocked]
                ids = {device.id for item in closed for device in item.devices}
                near = {device.id for device, reached in zip(pool.devices, pool.reached, strict=True) if reached}
                pool.blocked = frozenset(ids & near)
                pool.reached = tuple(device.id in near - ids for device in pool.devices)
        return pool


def _assemble(
    name: PoolId,
    own: Sequence[Slice],
    reach: Sequence[tuple[bool, ...] | None],
    pool_slices: Sequence[Slice],
    *,
    counts: bool,
) -> Pool:
    """Assemble a complete pool. The pool is invalid if its slices are inconsistent."""
    own_names = {item.name for item in own}
    elsewhere = [item for item in pool_slices if item.name not in own_names]
    pool = Pool(name)
    for item, reached in zip(own, reach, strict=True):
        if not item.holds_counters:
            pool.devices += item.devices
            pool.reached += (True,) * len(item.devices) if reached is None else reached
    pool.others = tuple(device for item in elsewhere if not item.holds_counters for device in item.devices)
    if len({device.id for device in pool.devices}) != len(pool.devices):
        return Pool(name, is_invalid=True)
    if counts:
        shared = _counters(item for item in (*own, *elsewhere) if item.holds_counters)
        if shared is None or not _draws_exist((*pool.devices, *pool.others), *shared):
            return Pool(name, is_invalid=True)
        pool.counters = shared[1]
    return pool


def _counters(slices: Iterable[Slice]) -> tuple[set[str], Counters] | None:
    """Collect the counters of a pool. Return ``None`` if two sets have the same name."""
    counters: Counters = {}
    names: set[str] = set()
    for item in slices:
        for group in item.spec.shared_counters:
            if group.name in names:
                return None
            names.add(group.name)
            counters |= {(group.name, name): nano_value(counter.value) for name, counter in group.counters.items()}
    return names, counters


def _draws_exist(devices: Iterable[PooledDevice], sets: set[str], counters: Counters) -> bool:
    return all(
        draw.counter_set in sets and all((draw.counter_set, name) in counters for name in draw.counters)
        for device in devices
        for draw in device.device.consumes_counters
    )


BLOCKING: Final = ("NoSchedule", "NoExecute")


def added_taints(rules: Iterable[DeviceTaintRule], spec: ResourceSliceSpec, device: Device) -> tuple[DeviceTaint, ...]:
    """Return the taints that rules add to a device, in order. A rule without a selector matches no device."""
    return tuple(
        rule.spec.taint
        for rule in rules
        if (selector := rule.spec.device_selector) is not None
        and selector.driver in (None, spec.driver)
        and selector.pool in (None, spec.pool.name)
        and selector.device in (None, device.name)
    )


def repels(taints: Sequence[DeviceTaint], tolerations: Sequence[DeviceToleration]) -> bool:
    """Return whether a taint repels a request. Unknown effects are ignored."""
    return any(
        taint.effect in BLOCKING and not any(_tolerates(toleration, taint) for toleration in tolerations)
        for taint in taints
    )


def _tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    is_equal = toleration.operator in ("", "Equal") and toleration.value == taint.value
    return is_equal or toleration.operator == "Exists"
