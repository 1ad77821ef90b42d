"""The results of an attempt of a group: for each pod, each group, and the tree of groups."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, SearchResult
from moorage.scheduler.engine.group_points import GroupPostFiltered, PlacementScores
from moorage.scheduler.engine.outcomes import Diagnosis, Failed, Unschedulable
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.groups import Group, GroupTree, Proposal
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.entities import QueuedPodInfo

UNPLACEABLE: Final = "pod group is unschedulable"
"""The first reason of a group's status, unless the status is a plugin's."""


def unplaceable(*reasons: str) -> Status:
    """Return the status of a group that cannot be placed."""
    return Status.unschedulable(UNPLACEABLE, *reasons)


def error_text(status: Status) -> str:
    """Return the text of a group's status for use in another status: without reasons, unless it is a plugin's."""
    return UNPLACEABLE if status.reasons[:1] == (UNPLACEABLE,) else status.message


class PodTrial(Struct):
    """The result of a member: a node, or the reason why no node is feasible."""

    queued: QueuedPodInfo
    node_name: str = ""
    state: CycleState | None = None
    kept_state: CycleState | None = None
    """The state at the time of the search, for what-ifs."""
    runner: ProfileRunner | None = None
    diagnosis: Diagnosis | None = None
    """The reasons why no node is feasible."""
    status: Status | None = None
    """An error, or a rejection independent of nodes."""
    found: SearchResult | ExtendedNodes | None = None
    tied: tuple[str, ...] = ()
    """Equal nodes that upstream might choose."""

    @property
    def fits(self) -> bool:
        """Whether a node was found."""
        return self.node_name != ""

    @property
    def is_error(self) -> bool:
        """Whether an error occurred."""
        return self.status is not None and self.status.code is Code.ERROR

    def outcome(self, nominated_node: str | None) -> Unschedulable | Failed:
        """Return the outcome of a pod without a node."""
        if self.diagnosis is not None:
            return Unschedulable(self.diagnosis, nominated_node)
        assert self.status is not None
        return Failed(self.status.message, self.status.is_rejection, nominated_node)


class GroupTrial(Struct):
    """The result of a group. A status of ``None`` is success."""

    tree: GroupTree
    status: Status | None = None
    pods: dict[str, PodTrial] = field(default_factory=dict)
    """The tried pods of a PodGroup by uid, in order."""
    children: "list[GroupTrial]" = field(default_factory=list)
    placement: str = ""
    """The name of the placement."""
    nominated: Mapping[str, str] = field(default_factory=dict)
    waits_for_victims: bool = False
    is_counted: bool = False
    """Whether the result was computed by counting: it contains no nodes."""
    before_help: Status | None = None
    """The status before the post-filters ran, if they ran."""

    @property
    def code(self) -> Code:
        """The code of the status."""
        return Code.SUCCESS if self.status is None else self.status.code

    @property
    def leaves(self) -> "Iterator[GroupTrial]":
        """The results of the PodGroups."""
        if not self.tree.is_composite:
            yield self
        for child in self.children:
            yield from child.leaves

    @property
    def subtree(self) -> "Iterator[GroupTrial]":
        """This group and all below it."""
        yield self
        for child in self.children:
            yield from child.subtree

    @property
    def placed(self) -> Iterator[PodTrial]:
        """The pods of successful groups that have a node."""
        for leaf in self.leaves:
            if leaf.status is None:
                yield from (trial for trial in leaf.pods.values() if trial.fits)

    def proposals(self, *, of_failed: bool = False) -> tuple[Proposal, ...]:
        """Return the nodes of pods; ``of_failed`` includes failed groups."""
        fitting = (trial for leaf in self.leaves for trial in leaf.pods.values() if trial.fits)
        trials = fitting if of_failed else self.placed
        return tuple(
            Proposal(trial.queued.pod, trial.node_name, trial.kept_state or trial.state)
            for trial in trials
            if trial.state is not None
        )

    def complete(self) -> None:
        """Copy the status to child groups that were not tried, or succeeded although the parent failed."""
        trials_by_key = {child.tree.key: child for child in self.children}
        for child in self.tree.children:
            child_trial = trials_by_key.get(child.key)
            if child_trial is None:
                child_trial = GroupTrial(child, self.status)
                self.children.append(child_trial)
            elif self.status is not None and child_trial.status is None:
                child_trial.status, child_trial.pods = self.status, {}
            child_trial.complete()


class GroupAttempt(Struct):
    """An attempt of a group, for observers."""

    root: Group
    profile: str
    members: Sequence[QueuedPodInfo]
    result: str
    status: Status | None = None
    trial: GroupTrial | None = None
    scored: Sequence[tuple[str, PlacementScores]] = ()
    """The scores of placements, by group."""
    post_filtered: GroupPostFiltered | None = None
    conditions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The conditions written to PodGroups, by ``namespace/name``."""
