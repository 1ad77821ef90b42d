"""What trying a group has come to: of each pod, each group, and all groups below one."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from msgspec import Struct, field

from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, SearchResult
from moorage.scheduler.engine.group_points import GroupPostFiltered, PlacementScores
from moorage.scheduler.engine.outcomes import Diagnosis, Failed, Parked
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.groups import Group, GroupTree, Proposal
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.entities import QueuedPodInfo

UNPLACEABLE: Final = "pod group is unschedulable"
"""What the status of a group begins with that was not judged by a plugin alone."""


def unplaceable(*reasons: str) -> Status:
    """Say that a group cannot be placed, and why."""
    return Status.unschedulable(UNPLACEABLE, *reasons)


def error_text(status: Status) -> str:
    """Return a group's status as another one quotes it: without reasons, if it is not a plugin's."""
    return UNPLACEABLE if status.reasons[:1] == (UNPLACEABLE,) else status.message


class PodTrial(Struct):
    """What was found for a pod of a group: a node, or why there is none."""

    queued: QueuedPodInfo
    node_name: str = ""
    state: CycleState | None = None
    kept_state: CycleState | None = None
    """The state as it was when the node was found, for what-ifs."""
    runner: ProfileRunner | None = None
    diagnosis: Diagnosis | None = None
    """Why the pod fits on no node."""
    status: Status | None = None
    """An error, or a rejection for which no node is to blame."""
    found: SearchResult | ExtendedNodes | None = None
    tied: tuple[str, ...] = ()
    """Nodes that upstream might have drawn as well."""

    @property
    def fits(self) -> bool:
        """Whether a node was found."""
        return self.node_name != ""

    @property
    def is_error(self) -> bool:
        """Whether something went wrong."""
        return self.status is not None and self.status.code is Code.ERROR

    def outcome(self, nominated_node: str | None) -> Parked | Failed:
        """Return how the attempt of a pod that does not fit has ended."""
        if self.diagnosis is not None:
            return Parked(self.diagnosis, nominated_node)
        assert self.status is not None
        return Failed(self.status.message, self.status.is_rejection, nominated_node)


class GroupTrial(Struct):
    """What trying a group has come to; a status of ``None`` is success."""

    tree: GroupTree
    status: Status | None = None
    pods: dict[str, PodTrial] = field(default_factory=dict)
    """The pods of a PodGroup that were tried, by uid, in the order in which they were."""
    children: "list[GroupTrial]" = field(default_factory=list)
    placement: str = ""
    """The name of the part of the cluster that this is about."""
    nominated: Mapping[str, str] = field(default_factory=dict)
    waits_for_victims: bool = False
    is_counted: bool = False
    """Whether this was not tried, but found by counting places; which nodes it would be is not known."""
    before_help: Status | None = None
    """The status before the post-filters had their say, if they had."""

    @property
    def code(self) -> Code:
        """The code of the status."""
        return Code.SUCCESS if self.status is None else self.status.code

    @property
    def leaves(self) -> "Iterator[GroupTrial]":
        """What has come of the PodGroups."""
        if not self.tree.is_composite:
            yield self
        for child in self.children:
            yield from child.leaves

    @property
    def everything(self) -> "Iterator[GroupTrial]":
        """This group and all below it."""
        yield self
        for child in self.children:
            yield from child.everything

    @property
    def placed(self) -> Iterator[PodTrial]:
        """The pods of groups that succeeded for which a node was found."""
        for leaf in self.leaves:
            if leaf.status is None:
                yield from (trial for trial in leaf.pods.values() if trial.fits)

    def proposals(self, *, of_failed: bool = False) -> tuple[Proposal, ...]:
        """Return where pods would go; those of groups that failed below one that did not only on request."""
        fitting = (trial for leaf in self.leaves for trial in leaf.pods.values() if trial.fits)
        trials = fitting if of_failed else self.placed
        return tuple(
            Proposal(trial.queued.pod, trial.node_name, trial.kept_state or trial.state)
            for trial in trials
            if trial.state is not None
        )

    def complete(self) -> None:
        """Have groups that were not tried, or succeeded in vain, share the status of the group above them."""
        known = {child.tree.key: child for child in self.children}
        for child in self.tree.children:
            found = known.get(child.key)
            if found is None:
                found = GroupTrial(child, self.status)
                self.children.append(found)
            elif self.status is not None and found.status is None:
                self._fail_below(found)
            found.complete()

    def _fail_below(self, child: "GroupTrial") -> None:
        child.status = self.status
        child.pods = {}


class GroupAttempt(Struct):
    """A whole attempt to place a group, for those who look on."""

    root: Group
    profile: str
    members: Sequence[QueuedPodInfo]
    result: str
    status: Status | None = None
    trial: GroupTrial | None = None
    scored: Sequence[tuple[str, PlacementScores]] = ()
    """Every choice among placements, with the group that it was made for."""
    post_filtered: GroupPostFiltered | None = None
    conditions: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What is written to PodGroups, by ``namespace/name``."""
