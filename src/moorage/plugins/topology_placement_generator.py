"""TopologyPlacementGenerator: a group that is to stay together has the values of a node label to choose from."""

from collections.abc import Sequence
from operator import itemgetter
from typing import Protocol

import numpy as np

from moorage.framework.cycle import CycleState
from moorage.framework.group_plugins import PlacementGeneratePlugin
from moorage.framework.groups import GroupTree, Placement
from moorage.framework.handle import Handle
from moorage.framework.nodetable import NodeTable, RowArray
from moorage.framework.status import Status

PINNED: str = "cannot determine domain for already scheduled pods: "


class OrderedNodes(Handle, Protocol):
    """What the plugin needs besides: the order in which nodes are visited."""

    @property
    def order(self) -> RowArray:
        """The rows of all nodes in that order."""
        ...


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """Divide the nodes by the label that the group names; one that names none may have them all.

    Pods of the group that have a node pin it to their domain.
    """

    def __init__(self, *, handle: OrderedNodes) -> None:
        self._handle = handle

    def generate_placements(
        self, cycle: CycleState, group: GroupTree, nodes: NodeTable
    ) -> Sequence[Placement] | Status:
        key = group.group.spec.topology_key
        if key is None:
            return (Placement("", nodes),)
        pinned = self._domain_of_scheduled(group, key)
        if isinstance(pinned, Status):
            return pinned
        labels = nodes.label(key)
        visited = np.empty(len(self._handle.nodes), dtype=np.int64)
        visited[self._handle.order] = np.arange(len(visited))
        found: list[tuple[int, Placement]] = []
        for code, value in enumerate(labels.values):
            if value is not None and pinned in (None, value):
                places = np.flatnonzero(labels.codes == code)
                if len(places):
                    domain = nodes.take(places)
                    found.append((int(visited[domain.rows].min()), Placement(value, domain)))
        # Upstream has them in random order; with this one the first of several equals is always the same.
        return [placement for _, placement in sorted(found, key=itemgetter(0))]

    def _domain_of_scheduled(self, group: GroupTree, key: str) -> str | Status | None:
        """Return the domain in which the group is already, ``None`` if it is nowhere yet."""
        domain: str | None = None
        for pod in group.all_scheduled:
            node = self._handle.nodes.find(pod.node_name)
            if node is None:
                problem = f'nodeinfo not found for node name "{pod.node_name}"'
                return Status.error(f"{PINNED}getting node for pod {pod.key}: {problem}")
            value = node.labels.get(key)
            if value is None:
                return Status.error(f"{PINNED}no topology domain found for pod {pod.key}")
            # As upstream has it, a domain without a name never contradicts another.
            if domain and value != domain:
                return Status.error(f"{PINNED}more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain
