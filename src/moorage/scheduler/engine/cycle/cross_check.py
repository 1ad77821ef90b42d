"""Comparison of cached results with uncached ones: enabled in all tests, and for a share of live cycles."""

from collections.abc import Callable, Mapping
from random import Random

import structlog

from moorage.common.errors import MoorageError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.reference import filter_all, pre_filtered_cycle, score_all
from moorage.scheduler.engine.statuses import IdArray, StatusTable
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import IntArray

log = structlog.get_logger(__name__)


class CrossCheckError(MoorageError):
    """A cached result differs from the uncached one: a plugin's signature or forms are wrong."""


class CrossCheck:
    """Filters and scores without caches in a share of all cycles.

    A difference raises an error; in live cycles it is logged and counted, because a wrong plugin must not block pods.
    """

    def __init__(self, profile: Profile, share: float = 1.0, *, is_live: bool = False) -> None:
        self._profile = profile
        self._share = share
        self._is_live = is_live
        self._chance = Random()
        # Their cached results may differ from new ones until they expire.
        self._expiring = {p.name for p in profile.node_plugins if p.valid_for is not None}
        self._scores_expire = any(plugin.name in self._expiring for plugin in profile.score)
        self.differences = 0
        self.first: CrossCheckError | None = None
        """The first difference; the failed attempt may have been retried since."""

    def verdicts(
        self, pod: Pod, nodes: NodeTable, status_ids: IdArray, table: StatusTable, group: CycleState | None = None
    ) -> None:
        """Compare the statuses of each row."""
        if not self._is_due():
            return
        plain = StatusTable()
        cycle = pre_filtered_cycle(self._profile, pod, nodes, group)
        expected = filter_all(self._profile, cycle, pod, nodes, plain)
        for row in range(len(nodes)):
            cached, uncached = table[int(status_ids[row])], plain[int(expected[row])]
            if cached != uncached and self._expiring.isdisjoint({s.plugin for s in (cached, uncached) if s}):
                self._report(f"{pod.key} on {nodes[row].name}: cached status {cached}, uncached {uncached}")
                return

    def nominated(self, pod: Pod, cached: Mapping[int, int], compute: Callable[[], Mapping[int, int]]) -> None:
        """Compare the rows that are infeasible with their nominated pods."""
        if self._is_due() and cached != (expected := compute()):
            self._report(f"{pod.key}: with nominated pods cached {dict(cached)}, uncached {dict(expected)}")

    def totals(
        self, pod: Pod, nodes: NodeTable, rows: RowArray, totals: IntArray, group: CycleState | None = None
    ) -> None:
        """Compare the totals of the feasible rows."""
        if self._scores_expire or not self._is_due():
            return
        window = nodes.take(rows)
        cycle = pre_filtered_cycle(self._profile, pod, nodes, group)
        # Score plugins may use the state of their filters.
        filter_all(self._profile, cycle, pod, window, StatusTable())
        expected = score_all(self._profile, cycle, pod, window).totals
        for row, cached, uncached in zip(rows, totals, expected, strict=True):
            if cached != uncached:
                self._report(f"{pod.key} on {nodes[int(row)].name}: cached total {cached}, uncached {uncached}")
                return

    def _is_due(self) -> bool:
        return self._share >= 1 or self._chance.random() < self._share

    def _report(self, difference: str) -> None:
        self.differences += 1
        error = CrossCheckError(difference)
        self.first = self.first or error
        if not self._is_live:
            raise error
        log.error("cross-check found a difference", difference=difference)
