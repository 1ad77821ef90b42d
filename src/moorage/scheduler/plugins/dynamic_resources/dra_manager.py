"""The DRA manager: claims, classes, slices and cached allocations, shared by all profiles; and device counts."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from moorage.common.caches import LRU
from moorage.kube.api.devices import DeviceClass, ResourceClaim
from moorage.kube.api.node import Node
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.handle import Handle, Lister
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.plugins.dynamic_resources.allocation.cached_allocations import CachedAllocations
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import parse_claim
from moorage.scheduler.plugins.dynamic_resources.cel.program import (
    CelCompileError,
    CelRuntimeError,
    compile_selector,
)
from moorage.scheduler.plugins.dynamic_resources.claims.extended_resource_claims import (
    ExtendedResourceClasses,
    may_have_class,
)
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import ClaimTracker
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures
from moorage.scheduler.plugins.dynamic_resources.devices.pools import PooledDevice, PoolError
from moorage.scheduler.plugins.dynamic_resources.devices.views import DeviceViews

MAX_CACHED: Final = 32


class DraManager:
    """Devices and claims of a cluster, shared by all profiles."""

    def __init__(self, handle: Handle) -> None:
        self.features = DeviceFeatures.of(handle.features)
        self.classes: Lister[DeviceClass] = handle.lister(DeviceClass)
        self.extended = ExtendedResourceClasses(handle)
        self.views = DeviceViews(handle, self.features)
        self.claims = ClaimTracker(
            handle.lister(ResourceClaim),
            shares=self.features.consumable_capacity,
            on_change=self.views.touch,
            with_groups=self.features.group_claims,
            qualifies=self.features.qualifies_capacities,
        )
        self._allocations: LRU[tuple[object, ...], CachedAllocations] = LRU("device allocations", MAX_CACHED)

    def refresh(self) -> None:
        """Apply observed changes, slices and nodes first, so that claims find their pools."""
        self.views.refresh()
        self.claims.refresh()

    def find_allocations(self, claims: Sequence[ResourceClaim]) -> CachedAllocations:
        """Return up-to-date cached allocations for claims with these specs."""
        # A changed class may change the meaning of any spec.
        key = (self.classes.version, *(claim.spec_key for claim in claims))
        cached = self._allocations.find(key)
        if cached is None:
            parsed_claims = tuple(parse_claim(claim.spec, self.classes.get, self.features) for claim in claims)
            cached = CachedAllocations(parsed_claims, self.views, self.claims, self.features)
            self._allocations.put(key, cached)
        cached.refresh()
        return cached


DRA_MANAGER: Final = StateKey["DraManager"]("the devices of the cluster")


def shared_dra_manager(handle: Handle) -> DraManager:
    """Return the manager of the handle's cluster, shared by the plugins of all profiles."""
    return handle.shared(DRA_MANAGER, lambda: DraManager(handle))


class DeviceCounts:
    """Counts the devices of a class on a node, and those in use. Device plugins take precedence."""

    def __init__(self, manager: DraManager) -> None:
        self._manager = manager

    def concerns(self, resources: Mapping[str, int], scored: Iterable[str]) -> bool:
        """Return whether a device class backs a requested resource that is scored."""
        return any(
            resources.get(name, 0) and may_have_class(name) and self._manager.extended.find(name) is not None
            for name in scored
        )

    def refresh(self) -> None:
        """Apply observed changes. Call before scoring."""
        self._manager.refresh()

    def on_node(self, info: NodeInfo, resource: str) -> tuple[int, int]:
        """Return the number of devices for a resource without device plugin on a node, and the number in use."""
        device_class = self._manager.extended.find(resource) if may_have_class(resource) else None
        if device_class is None or info.allocatable.get(resource, 0):
            return 0, 0
        allocated = self._manager.claims.allocated
        try:
            masks = self._manager.features.cidr_masks
            devices = [
                device for device in self._devices(info.node) if _matches_class(device, device_class, masks=masks)
            ]
        except (CelCompileError, CelRuntimeError, PoolError):
            # As upstream, resources that cannot be counted are ignored.
            return 0, 0
        return len(devices), sum(allocated.is_taken(device.id) for device in devices)

    def on_nodes(
        self, nodes: NodeTable, resource: str, capacity: IntArray, usage: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Replace capacity and usage by device counts where the capacity is zero."""
        if not may_have_class(resource) or self._manager.extended.find(resource) is None:
            return capacity, usage
        capacity, usage = capacity.copy(), usage.copy()
        for index in np.flatnonzero(capacity == 0):
            count, allocated = self.on_node(nodes[int(index)], resource)
            if count:
                capacity[index], usage[index] = count, allocated
        return capacity, usage

    def _devices(self, node: Node) -> Iterator[PooledDevice]:
        """Yield all reachable devices; as upstream, independent of the state of their pools."""
        for item in self._manager.views.index.select_slices(node):
            reached = item.reach(node)
            if reached is not None:
                yield from (device for device, is_near in zip(item.devices, reached, strict=True) if is_near)
            else:
                spec = item.spec
                is_unbound = not spec.node_name and not spec.all_nodes and spec.node_selector is None
                if is_unbound or item.is_reachable(node):
                    yield from item.devices


def device_counts(handle: Handle, scored: Iterable[str]) -> DeviceCounts | None:
    """Return the device counts if a device class could back one of the scored resources."""
    is_on = handle.features.enabled("DRAExtendedResource")
    return DeviceCounts(shared_dra_manager(handle)) if is_on and any(map(may_have_class, scored)) else None


def _matches_class(device: PooledDevice, device_class: DeviceClass, *, masks: bool) -> bool:
    return all(
        compile_selector(selector.cel.expression, masks=masks).matches(device.scored_facts)
        for selector in device_class.spec.selectors
        if selector.cel is not None
    )
