"""Comparing standing answers with ones computed from nothing: on in all tests, and for a share of live cycles."""

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
    """A standing answer differs from the one computed from nothing: a plugin's signature or forms are wrong."""


class CrossCheck:
    """Filters and scores everything again, the plain way, in a share of all cycles.

    Where the result differs it raises, or, on live cycles, logs and counts: a wrong plugin must not keep a pod waiting.
    """

    def __init__(self, profile: Profile, share: float = 1.0, *, is_live: bool = False) -> None:
        self._profile = profile
        self._share = share
        self._is_live = is_live
        self._chance = Random()
        self.differences = 0
        self.first: CrossCheckError | None = None
        """The first difference; the attempt that met it failed, and may have been repeated since."""

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
            found, want = table[int(status_ids[row])], plain[int(expected[row])]
            if found != want:
                self._report(f"{pod.key} on {nodes[row].name}: standing answer {found}, from nothing {want}")
                return

    def nominated(self, pod: Pod, found: Mapping[int, int], from_nothing: Callable[[], Mapping[int, int]]) -> None:
        """Compare the rows that will not do with the pods nominated to them."""
        if self._is_due() and found != (expected := from_nothing()):
            self._report(f"{pod.key}: with nominated pods {dict(found)}, from nothing {dict(expected)}")

    def totals(
        self, pod: Pod, nodes: NodeTable, rows: RowArray, totals: IntArray, group: CycleState | None = None
    ) -> None:
        """Compare the weighted sum of each of the feasible rows."""
        if not self._is_due():
            return
        window = nodes.take(rows)
        cycle = pre_filtered_cycle(self._profile, pod, nodes, group)
        # Score plugins may go by what their filters found out.
        filter_all(self._profile, cycle, pod, window, StatusTable())
        expected = score_all(self._profile, cycle, pod, window).totals
        for row, found, want in zip(rows, totals, expected, strict=True):
            if found != want:
                self._report(f"{pod.key} on {nodes[int(row)].name}: standing total {found}, from nothing {want}")
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
