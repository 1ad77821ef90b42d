"""Groups of pods as plugins see them: the tree of a group, where it might be placed, and what was proposed there."""

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
    """A PodGroup that no object of that kind stands for: a plugin describes it, from whatever it knows.

    ``problem`` says what is wrong with it; as long as something is, its pods are told so and none is tried.
    """

    problem: str = ""


class GroupTree(Struct, frozen=True):
    """A group and the groups below it; a PodGroup has none.

    ``members`` are the pods of a PodGroup that wait for a node in this cycle, ``scheduled`` those that have one.
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
    def quorum(self) -> int:
        """How many pods, or groups, must be placed together; 1 if each may go alone."""
        group = self.group
        needed = group.min_group_count if isinstance(group, CompositePodGroup) else group.min_count
        return 1 if needed is None else needed

    def quorum_status(self, remaining: int, scheduled: int, minimum: str = "minCount") -> Status | None:
        """Say whether enough pods or groups are placed, or can be; ``minimum`` is what users call the number."""
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
        """The pods of the whole tree that have a node."""
        for leaf in self.leaves:
            yield from leaf.scheduled

    @property
    def all_members(self) -> Iterator[Pod]:
        """The pods of the whole tree that wait for a node in this cycle."""
        for leaf in self.leaves:
            yield from leaf.members


class Proposal(Struct, frozen=True):
    """A pod that would go to a node; ``cycle`` is the state of the attempt that found it.

    ``node_name`` is empty where places were only counted, see ``PlacementScorePlugin.looks_at_nodes``.
    """

    pod: Pod
    node_name: str
    cycle: CycleState


class TriedMember(Struct, frozen=True):
    """A pod of a group that was tried: the state of its attempt, and what speaks against each node.

    The statuses are kept for plugins that filter pods and are asked about groups afterwards; there are none if all of
    those skipped the pod.
    """

    pod: Pod
    cycle: CycleState
    statuses: NodeStatuses


class GroupFindings(Struct):
    """What the engine notes while the pods of a group are tried, for those who are to help afterwards."""

    pre_filtered: set[str] = field(default_factory=set)
    """The plugins whose pre-filter had its turn for some pod."""
    tried: dict[str, TriedMember] = field(default_factory=dict)
    """The pods that were tried, whether or not they fit, as it was the last time; by uid."""


FINDINGS: Final = StateKey[GroupFindings]("what was found out about the pods of the group")


class Placement(Struct):
    """A part of the cluster for a whole group, and where its pods would go there once that has been tried."""

    name: str
    nodes: NodeTable
    proposals: tuple[Proposal, ...] = field(default=())
