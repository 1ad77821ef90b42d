"""What came of trying a pod, or a whole group of pods, in a session."""

from collections.abc import Mapping

from msgspec import Struct

from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode, OneNode, SearchResult
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.framework.status import Code, Status


class Attempt(Struct, frozen=True):
    """What came of one attempt: a node, or a nomination and its victims, or neither."""

    decision: Decision
    found: SearchResult | ExtendedNodes | None = None
    gates: tuple[Status, ...] = ()
    """What holds the pod back before it is tried at all; it was tried all the same."""

    @property
    def node(self) -> str:
        """The node that the pod was given; empty if it was given none, or is held back."""
        return "" if self.gates else self.decision.node

    @property
    def nominated_node(self) -> str:
        """The node that preemption would clear for it."""
        nomination = self.decision.post_filter
        return "" if nomination is None or self.gates else nomination.nominated_node

    @property
    def victims(self) -> tuple[str, ...]:
        """Who would have to leave that node."""
        return () if self.decision.post_filter is None else self.decision.post_filter.victims

    def __repr__(self) -> str:
        """Say what came of it, for a notebook: not every column that was looked at."""
        came = f"node={self.node!r}" if self.node else f"message={self.decision.message!r}"
        return f"Attempt(pod={self.decision.pod!r}, {came})"

    def fits_on(self, row: int) -> bool:
        """Tell whether the node in a row of the cache will do."""
        found = self.found.result if isinstance(self.found, ExtendedNodes) else self.found
        if self.gates or found is None or isinstance(found, NoNode):
            return False
        return found.node.row == row if isinstance(found, OneNode) else bool(found.feasible[row])


class GroupOutcome(Struct, frozen=True):
    """What came of one attempt to place a whole group: of each member that waits, and of the group."""

    attempt: GroupAttempt | None = None
    """``None`` if no member waits."""
    decisions: Mapping[str, Decision] = {}
    """What was decided on each member that waits, by ``namespace/name``, in the order in which they are tried."""
    gates: tuple[Status, ...] = ()
    """What holds the group back before it is tried at all; it was tried all the same."""

    @property
    def fits(self) -> bool:
        """Whether as many members as the group needs have a node, or would get one."""
        return not self.gates and (self.attempt is None or self.attempt.status is None)

    @property
    def message(self) -> str:
        """Why not, in the words of the group's condition."""
        if self.gates:
            return "; ".join(dict.fromkeys(status.message for status in self.gates))
        return "" if self.attempt is None or self.attempt.status is None else self.attempt.status.message

    @property
    def placed(self) -> dict[str, str]:
        """Where members would go, by ``namespace/name``."""
        return {key: made.node for key, made in self.decisions.items() if made.node} if self.fits else {}

    @property
    def victims(self) -> tuple[str, ...]:
        """Who would be preempted for the group."""
        helped = self.attempt.post_filtered if self.attempt is not None else None
        if helped is None or helped.code is not Code.SUCCESS or self.gates:
            return ()
        return tuple(sorted(victim.key for victim in helped.victims))
