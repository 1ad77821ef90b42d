"""The extension points of groups (gates GenericWorkload and TopologyAwareWorkloadScheduling), one base class each.

The order for a group: ``generate_placements`` → in each placement the pods one by one through the extension points of
single pods, with ``placement_feasible`` before the first and after each → ``score_placements`` if several placements
are feasible → ``post_filter_group`` if all are infeasible. ``cycle`` is the state of the entire group; ``cycle.group``
of a pod's state refers to it.
"""

from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from operator import index
from typing import Any, ClassVar

import numpy as np
from msgspec import Struct

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.groups import DescribedGroup, GroupTree, Placement
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import Plugin, require_one_of
from moorage.scheduler.framework.status import IntArray, Status


class GroupSourcePlugin(Plugin):
    """Defines groups of pods in addition to PodGroup objects, for example by label or annotation.

    Such pods are queued and scheduled like those of a PodGroup, regardless of feature gates. The group of a pod does
    not change. Not configurable: every such plugin that is enabled at any extension point is called.
    """

    group_kinds: ClassVar[tuple[type[KubeObject], ...]] = ()
    """Kinds of objects that describe groups. The plugin must list them."""

    @abstractmethod
    def group_name(self, pod: Pod) -> str:
        """Return the group name of a pod, or an empty string. Only the pod itself may be used.

        The name contains a slash, which names of objects cannot, and is unique within the pod's namespace.
        """

    @abstractmethod
    def describe(self, namespace: str, name: str, members: Iterable[Pod]) -> DescribedGroup | None:
        """Describe a group by the members that it has now. Return ``None`` if the group does not exist.

        Its metadata must have just this namespace and name. It is called when members are added, removed or changed,
        and when an object of ``group_kinds`` changes.
        """

    def is_described(self, group: DescribedGroup, pod: Pod) -> bool:
        """Return whether a member leaves the description of a group unchanged. Then ``describe`` is not called."""
        return False

    def name_of_object(self, obj: KubeObject) -> str:
        """Return the name of the group, in the same namespace, that an object of ``group_kinds`` describes."""
        return ""

    def group_changed(self, key: str) -> None:
        """Handle a new or changed member or description of a group. The indexes already contain it."""

    def member_gone(self, pod: Pod) -> None:
        """Take note that a member is deleted, or has ended."""

    def attempted(self, group: DescribedGroup, status: Status | None) -> None:
        """Take note of how an attempt to place a group has ended. ``None`` is success."""


class PlacementGeneratePlugin(Plugin):
    """Divides the cluster into parts. An entire group is placed in one part. Define either method.

    A profile has one such plugin at most.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_one_of(cls, PlacementGeneratePlugin, "placement_of", "generate_placements")

    def placement_of(self, cycle: CycleState, group: GroupTree, node: NodeInfo) -> str | None:
        """Name the part that one node belongs to. ``None`` leaves the node out."""
        placements = self.generate_placements(cycle, group, NodeTable.of(node))
        return None if isinstance(placements, Status) or not placements else placements[0].name

    def generate_placements(
        self, cycle: CycleState, group: GroupTree, nodes: NodeTable
    ) -> Sequence[Placement] | Status:
        """Divide a window of nodes in one call: those of the parent group's placement, or the entire cluster.

        An empty list means that the group fits nowhere. A status is the group's.
        """
        parts: dict[str, list[int]] = {}
        for position, node in enumerate(nodes):
            name = self.placement_of(cycle, group, node)
            if name is not None:
                parts.setdefault(name, []).append(position)
        return [Placement(name, nodes.take(np.array(rows))) for name, rows in parts.items()]


class PlacementFeasiblePlugin(Plugin):
    """Decides whether to continue while the pods of a group are placed one by one. GangScheduling is one.

    Until 1.37 not configurable: every such plugin that is enabled at any extension point is called. From 1.38 the
    plugins of ``placementFeasible`` are. The first rejection counts. An unresolvable one prevents preemption.
    """

    @abstractmethod
    def placement_feasible(self, group: GroupTree, remaining: int, scheduled: int) -> Status | None:
        """Return ``None`` if enough pods are placed, ``Status(Code.WAIT)`` to continue, ``unschedulable`` to stop."""


class PlacementScorePlugin(Plugin):
    """Ranks the feasible placements. Define either ``score_placement`` or ``score_placements``."""

    uses_nodes: ClassVar[bool] = True
    """Whether a score depends on the node of each pod, and not only on the number of pods and their requests.

    If this is false for all plugins of a profile, the scheduler may only count the pods that a placement holds. The
    ``proposals`` then have no node names.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        require_one_of(cls, PlacementScorePlugin, "score_placement", "score_placements")

    def score_placement(self, cycle: CycleState, group: GroupTree, placement: Placement) -> int:
        """Score one placement; after normalizing, between 0 and 100, the more the better."""
        return int(self.score_placements(cycle, group, (placement,))[0])

    def score_placements(self, cycle: CycleState, group: GroupTree, placements: Sequence[Placement]) -> IntArray:
        """Score all placements in one call. Override this when ``score_placement`` is too slow."""
        scores = (index(self.score_placement(cycle, group, placement)) for placement in placements)
        return np.fromiter(scores, dtype=np.int64, count=len(placements))

    def normalize_placement_scores(
        self, cycle: CycleState, group: GroupTree, placements: Sequence[Placement], scores: IntArray
    ) -> IntArray:
        """Normalize the raw scores of all placements to 0…100. The default returns them unchanged."""
        return scores


class GroupPostFilterResult(Struct, frozen=True):
    """The result of a post-filter for a group without a feasible placement.

    ``nominated`` maps pod uids to nodes. Other pods keep their nomination. Users see ``message`` if ``status`` is
    ``None``, that is, if the post-filter succeeded.
    """

    status: Status | None
    nominated: Mapping[str, str] = {}
    victims: tuple[Pod, ...] = ()
    message: str = ""


class PodGroupPostFilterPlugin(Plugin):
    """Acts for a group without a feasible placement, for example by preemption."""

    @abstractmethod
    async def post_filter_group(self, cycle: CycleState, group: GroupTree) -> GroupPostFilterResult:
        """Try to help. A status of ``None`` ends the search for help, ``unschedulable`` lets the next plugin try.

        The world remains frozen while this waits.
        """
