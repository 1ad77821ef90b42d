"""Groups of pods for plugins: the tree of a group, its placements and proposals."""

from collections.abc import Iterator
from typing import Final, TypeAlias

from msgspec import Struct, field

from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Code, Status

Group: TypeAlias = PodGroup | CompositePodGroup


class DescribedGroup(PodGroup, frozen=True, dict=True, gc=True):
    """A PodGroup that is described by a plugin instead of an API object.

    While ``problem`` is not empty, the pods of the group report it and are not scheduled.
    """

    problem: str = ""


class GroupTree(Struct, frozen=True):
    """A group and the groups below it. A PodGroup has none.

    ``members`` are the pods of a PodGroup that wait for a node in this cycle, ``scheduled`` the pods with a node.
    """

    group: Group
    children: "tuple[GroupTree, ...]" = ()
    members: tuple[Pod, ...] = ()
    scheduled: tuple[Pod, ...] = ()

    @property
    def key(self) -> str:
        """``namespace/name`` of the group."""
        return self.group.key

    @property
    def is_composite(self) -> bool:
        """Whether this is a group of groups."""
        return isinstance(self.group, CompositePodGroup)

    @property
    def type_label(self) -> str:
        """The group's type in metrics."""
        return "compositepodgroup" if self.is_composite else "podgroup"

    @property
    def quorum(self) -> int:
        """Number of pods, or groups, that must be placed together; 1 if each may be placed alone."""
        group = self.group
        minimum = group.min_group_count if isinstance(group, CompositePodGroup) else group.min_count
        return 1 if minimum is None else minimum

    def quorum_status(self, remaining: int, scheduled: int, minimum: str = "minCount") -> Status | None:
        """Return whether enough pods or groups are or can be placed. ``minimum`` is the user's name of the number."""
        quorum = self.quorum
        if scheduled >= quorum:
            return None
        counts = f"{scheduled} scheduled, {remaining} remaining"
        if scheduled + remaining < quorum:
            return Status.unschedulable(f"{minimum} ({quorum}) cannot be satisfied: {counts}")
        return Status(Code.WAIT, (f"{minimum} ({quorum}) is not yet satisfied: {counts}",))

    @property
    def leaves(self) -> "Iterator[GroupTree]":
        """The PodGroups below this group, or the group itself if it is one."""
        if not self.is_composite:
            yield self
        for child in self.children:
            yield from child.leaves

    @property
    def all_scheduled(self) -> Iterator[Pod]:
        """The pods of the entire tree that have a node."""
        for leaf in self.leaves:
            yield from leaf.scheduled

    @property
    def all_members(self) -> Iterator[Pod]:
        """The pods of the entire tree that wait for a node in this cycle."""
        for leaf in self.leaves:
            yield from leaf.members


class Proposal(Struct, frozen=True):
    """A pod that would go to a node. ``cycle`` is the state of the attempt that found it.

    ``node_name`` is empty where places were only counted, see ``PlacementScorePlugin.uses_nodes``.
    """

    pod: Pod
    node_name: str
    cycle: CycleState


class TriedMember(Struct, frozen=True):
    """An attempted pod of a group: the state of its attempt and the rejection of each node.

    The statuses are kept for filter plugins that are called for the group later. They are empty if all of those skipped
    the pod.
    """

    pod: Pod
    cycle: CycleState
    statuses: NodeStatuses


class GroupFindings(Struct):
    """Results of the attempts of a group's pods, for post-filters."""

    pre_filtered: set[str] = field(default_factory=set)
    """The plugins that have pre-filtered some pod."""
    tried: dict[str, TriedMember] = field(default_factory=dict)
    """The last attempt of each pod, feasible or not, by uid."""


FINDINGS: Final = StateKey[GroupFindings]("results for the pods of the group")


class Placement(Struct):
    """A part of the cluster for an entire group, and where its pods would go there once that has been tried."""

    name: str
    nodes: NodeTable
    proposals: tuple[Proposal, ...] = field(default=())
