"""The result of trying a pod or a pod group in a session."""

from collections.abc import Mapping

from msgspec import Struct

from moorage.scheduler.decisions.decision import Decision
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode, OneNode, SearchResult
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.framework.status import Code, Status


class Attempt(Struct, frozen=True):
    """The result of an attempt: a node, or a nomination with its victims, or neither."""

    decision: Decision
    found: SearchResult | ExtendedNodes | None = None
    gates: tuple[Status, ...] = ()
    """Rejections of PreEnqueue plugins. The pod was tried nevertheless."""

    @property
    def node(self) -> str:
        """The node of the pod, or empty if it fits nowhere or is gated."""
        return "" if self.gates else self.decision.node

    @property
    def nominated_node(self) -> str:
        """The node that preemption nominates."""
        nomination = self.decision.post_filter
        return "" if nomination is None or self.gates else nomination.nominated_node

    @property
    def victims(self) -> tuple[str, ...]:
        """The pods that preemption would evict."""
        return () if self.decision.post_filter is None else self.decision.post_filter.victims

    def __repr__(self) -> str:
        """Return a short form for notebooks."""
        result = f"node={self.node!r}" if self.node else f"message={self.decision.message!r}"
        return f"Attempt(pod={self.decision.pod!r}, {result})"

    def fits_row(self, row: int) -> bool:
        """Return whether the node in a row of the cache is feasible."""
        result = self.found.result if isinstance(self.found, ExtendedNodes) else self.found
        if self.gates or result is None or isinstance(result, NoNode):
            return False
        return result.node.row == row if isinstance(result, OneNode) else bool(result.feasible[row])


class GroupOutcome(Struct, frozen=True):
    """The result of an attempt to place a pod group: for each pending member, and for the group."""

    attempt: GroupAttempt | None = None
    """``None`` if no member is pending."""
    decisions: Mapping[str, Decision] = {}
    """The decision on each pending member by ``namespace/name``, in the order of the attempts."""
    gates: tuple[Status, ...] = ()
    """Rejections of PreEnqueue plugins. The group was tried nevertheless."""

    @property
    def fits(self) -> bool:
        """Whether enough members have a node or would get one."""
        return not self.gates and (self.attempt is None or self.attempt.status is None)

    @property
    def message(self) -> str:
        """Reason why the group does not fit, as in its condition."""
        if self.gates:
            return "; ".join(dict.fromkeys(status.message for status in self.gates))
        return "" if self.attempt is None or self.attempt.status is None else self.attempt.status.message

    @property
    def placed(self) -> dict[str, str]:
        """The nodes of the members, by ``namespace/name``."""
        return {key: item.node for key, item in self.decisions.items() if item.node} if self.fits else {}

    @property
    def victims(self) -> tuple[str, ...]:
        """The pods that would be preempted for the group."""
        helped = self.attempt.post_filtered if self.attempt is not None else None
        if helped is None or helped.code is not Code.SUCCESS or self.gates:
            return ()
        return tuple(sorted(victim.key for victim in helped.victims))
