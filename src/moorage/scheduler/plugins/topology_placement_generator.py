"""TopologyPlacementGenerator: one placement for each value of the group's topology key."""

from collections.abc import Sequence

import numpy as np

from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.group_plugins import PlacementGeneratePlugin
from moorage.scheduler.framework.groups import GroupTree, Placement
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Status

PINNED: str = "cannot determine domain for already scheduled pods: "


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """Split the nodes by the group's topology key. Without a key, all nodes are one placement.

    Scheduled pods of the group pin it to their domain.
    """

    def __init__(self, *, handle: Handle) -> None:
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
        codes, firsts = np.unique(labels.codes, return_index=True)
        placements = []
        # Upstream's order is random. Here it is the order of the nodes.
        for code in codes[firsts.argsort()].tolist():
            value = labels.values[code]
            if value is not None and pinned in (None, value):
                placements.append(Placement(value, nodes.take(np.flatnonzero(labels.codes == code))))
        return placements

    def _domain_of_scheduled(self, group: GroupTree, key: str) -> str | Status | None:
        """Return the domain of the group's scheduled pods, or ``None`` if there are no scheduled pods."""
        domain: str | None = None
        for pod in group.all_scheduled:
            node = self._handle.nodes.find(pod.node_name)
            if node is None:
                problem = f'nodeinfo not found for node name "{pod.node_name}"'
                return Status.error(f"{PINNED}getting node for pod {pod.key}: {problem}")
            value = node.labels.get(key)
            if value is None:
                return Status.error(f"{PINNED}no topology domain found for pod {pod.key}")
            # As upstream, an empty domain never conflicts with another.
            if domain and value != domain:
                return Status.error(f"{PINNED}more than 1 domain found for pod group: {domain}, {value}")
            domain = value
        return domain
