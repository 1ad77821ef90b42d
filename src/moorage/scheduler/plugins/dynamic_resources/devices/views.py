"""All slices of the cluster, and the devices visible to each row of the node table."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np

from moorage.common.arrays import NDArray
from moorage.kube.api.devices import Device, DeviceTaintRule, ResourceSlice
from moorage.kube.api.node import Node
from moorage.scheduler.framework.handle import Handle, Lister
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures, DeviceId, PoolId
from moorage.scheduler.plugins.dynamic_resources.devices.pools import DeviceView, PoolBuilder, PoolError, Reach, Slice
from moorage.scheduler.state.objects import ChangeLog

UNKNOWN: Final = -1
MIN_VIEWS: Final = 1024
NumberArray = NDArray[np.int64]


class SliceIndex:
    """Slices by node and by pool, updated from the listers; finds the nodes that a change affects."""

    def __init__(self, handle: Handle, features: DeviceFeatures) -> None:
        self._features = features
        self._slices: Lister[ResourceSlice] = handle.lister(ResourceSlice)
        self._rules: Lister[DeviceTaintRule] | None = handle.lister(DeviceTaintRule) if features.taint_rules else None
        self._versions = (-1, -1)
        self._by_name: dict[str, Slice] = {}
        self._local: dict[str, dict[str, Slice]] = {}
        self._shared: dict[str, Slice] = {}
        self._by_pool: dict[PoolId, dict[str, Slice]] = {}
        self.builder = PoolBuilder(self._by_pool, features)

    def refresh(self) -> set[str] | None:
        """Apply changes. Return the names of the affected nodes, or ``None`` if all may be affected."""
        rules_version = self._rules.version if self._rules is not None else 0
        if self._versions == (self._slices.version, rules_version):
            return set()
        changed_slices = self._slices.changed_since(self._versions[0]) if self._versions[1] == rules_version else None
        self._versions = (self._slices.version, rules_version)
        if changed_slices is None:
            self._by_name.clear()
            self._local.clear()
            self._shared.clear()
            self._by_pool.clear()
            self.builder = PoolBuilder(self._by_pool, self._features)
            for resource_slice in self._slices.list():
                self._add_slice(self._parse(resource_slice))
            return None
        nodes: set[str] = set()
        is_local = True
        for name in changed_slices:
            concerned = self._replace(name, self._slices.find(name))
            is_local = is_local and concerned is not None
            nodes |= concerned or set()
        return nodes if is_local else None

    def select_slices(self, node: Node) -> Iterable[Slice]:
        own = self._local.get(node.name)
        return (*own.values(), *self._shared.values()) if own else self._shared.values()

    def reach_of_nodes(self, nodes: NodeTable) -> dict[Slice, BoolArray]:
        """Evaluate the selectors of slices for all nodes."""
        masks = {item: item.reach_of_nodes(nodes) for item in self._shared.values()}
        return {item: mask for item, mask in masks.items() if mask is not None}

    def device(self, device_id: DeviceId) -> Device | None:
        slices = self._by_pool.get(PoolId(device_id.driver, device_id.pool), {}).values()
        return next(
            (pooled.device for resource_slice in slices for pooled in resource_slice.devices if pooled.id == device_id),
            None,
        )

    def _replace(self, name: str, resource_slice: ResourceSlice | None) -> set[str] | None:
        """Replace a slice by name. Return the nodes of its pools, ``None`` for all nodes."""
        before = self._by_name.get(name)
        pools = set() if before is None else {before.pool}
        nodes = set() if before is None else self._find_nodes(before.pool)
        if before is not None:
            del self._by_name[name], self._by_pool[before.pool][name]
            (self._local[before.spec.node_name] if before.spec.node_name else self._shared).pop(name)
        if resource_slice is not None:
            after = self._parse(resource_slice)
            self._add_slice(after)
            pools.add(after.pool)
        reached = [nodes, *(self._find_nodes(pool) for pool in pools)]
        # Pools built from deleted slices would only use memory.
        self.builder = PoolBuilder(self._by_pool, self._features)
        return None if None in reached else set().union(*(names for names in reached if names))

    def _find_nodes(self, pool: PoolId) -> set[str] | None:
        slices = self._by_pool.get(pool, {}).values()
        return None if any(not item.spec.node_name for item in slices) else {str(i.spec.node_name) for i in slices}

    def _parse(self, resource_slice: ResourceSlice) -> Slice:
        return Slice(resource_slice, self._rules.list() if self._rules is not None else (), self._features)

    def _add_slice(self, item: Slice) -> None:
        self._by_name[item.name] = item
        self._by_pool.setdefault(item.pool, {})[item.name] = item
        if item.spec.node_name:
            self._local.setdefault(item.spec.node_name, {})[item.name] = item
        else:
            self._shared[item.name] = item


class DeviceViews:
    """The devices visible to each node, numbered so that one column describes the cluster.

    Nodes with the same pools have the same number. ``touched`` logs the views with changed devices.
    ``generation`` changes when all views are renumbered.
    """

    def __init__(self, handle: Handle, features: DeviceFeatures) -> None:
        self.index = SliceIndex(handle, features)
        self._handle = handle
        self._by_pools: dict[tuple[int, ...], DeviceView] = {}
        self._by_pool: dict[PoolId, list[DeviceView]] = {}
        self.all: list[DeviceView] = []
        self.generation = 0
        self.touched = ChangeLog[int]()
        self._nodes: list[Node | None] = []
        self._numbers: NumberArray = np.zeros(0, dtype=np.int64)
        self._position = -1

    def refresh(self) -> None:
        """Apply changes of slices and nodes, once per cycle."""
        nodes = self._handle.nodes
        concerned = self.index.refresh()
        rows: Sequence[int] | None = nodes.changed_since(self._position)
        reach_of_nodes: dict[Slice, BoolArray] = {}
        if concerned is None or rows is None or len(self.all) > 4 * len(nodes) + MIN_VIEWS:
            self.generation += 1
            self._by_pools.clear()
            self._by_pool.clear()
            self.all = []
            self.touched = ChangeLog[int]()
            self._nodes = [None] * len(nodes)
            self._numbers = np.full(max(len(nodes), 64), UNKNOWN, dtype=np.int64)
            rows = range(len(nodes))
            reach_of_nodes = self.index.reach_of_nodes(nodes)
        else:
            rows = [*rows, *self._forget(nodes, concerned)]
        if rows or len(nodes) != len(self._nodes):
            count = len(nodes)
            if count > len(self._numbers):
                self._numbers = np.concatenate([self._numbers, np.full(count, UNKNOWN, dtype=np.int64)])
            self._nodes += [None] * (count - len(self._nodes))
            del self._nodes[count:]
            for row in rows:
                if row < count and self._nodes[row] is not (node := nodes[row].node):
                    self._nodes[row] = node
                    view = self.of(node, {item: tuple(mask[:, row].tolist()) for item, mask in reach_of_nodes.items()})
                    if view.number == UNKNOWN:
                        view.number = len(self.all)
                        self.all.append(view)
                    self._numbers[row] = view.number
        self._position = nodes.position

    def _forget(self, nodes: NodeTable, names: Iterable[str]) -> Iterator[int]:
        """Drop the views of some nodes. Return their rows."""
        for name in names:
            info = nodes.find(name)
            if info is not None:
                if info.row < len(self._nodes):
                    self._nodes[info.row] = None
                yield info.row

    def numbers(self, nodes: NodeTable) -> NumberArray:
        """Return the view number of each node of a window."""
        numbers = self._numbers[: len(self._nodes)]
        return numbers if nodes.shows_all else numbers[nodes.rows]

    def at(self, info: NodeInfo) -> DeviceView:
        """Return the view of a row's node, or of a changed copy."""
        row = info.row
        if 0 <= row < len(self._nodes) and self._nodes[row] is info.node:
            return self.all[int(self._numbers[row])]
        return self.of(info.node)

    def of(self, node: Node, reach: Reach | None = None) -> DeviceView:
        """Return the view of a node that may not be part of the cluster."""
        try:
            pools = self.index.builder.pools(node, self.index.select_slices(node), reach)
        except PoolError as error:
            return DeviceView(UNKNOWN, (), f"gather pool information: {error}")
        key = tuple(map(id, pools))
        view = self._by_pools.get(key)
        if view is None:
            view = self._by_pools[key] = DeviceView(len(self.all), pools)
            self.all.append(view)
            for pool in view.pools:
                self._by_pool.setdefault(pool.id, []).append(view)
        return view

    def touch(self, pools: Iterable[PoolId]) -> None:
        """Record that devices of some pools were allocated or released."""
        for pool in pools:
            for view in self._by_pool.get(pool, ()):
                self.touched.note(view.number)
