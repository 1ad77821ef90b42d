"""Cached allocation results. Claims with equal specs share the results until the visible devices change.

A result belongs to a device view, not to a node: the column of view numbers turns results into a verdict. Only views
whose devices changed, usually those of the last pod's node, are searched.
"""

from collections.abc import Iterable, Sequence
from math import inf
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.scheduler.framework.status import IntArray, Status
from moorage.scheduler.plugins.dynamic_resources.allocation.allocation_results import list_selector_terms, preference
from moorage.scheduler.plugins.dynamic_resources.allocation.allocator import (
    Search,
    SearchBudget,
    SearchTimeout,
    Solution,
)
from moorage.scheduler.plugins.dynamic_resources.allocation.device_requests import (
    ClaimFault,
    ParsedClaim,
    list_expressions,
)
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import ClaimTracker
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import DeviceFeatures
from moorage.scheduler.plugins.dynamic_resources.devices.pools import DeviceView
from moorage.scheduler.plugins.dynamic_resources.devices.views import DeviceViews

CANNOT_ALLOCATE: Final = Status.unresolvable("cannot allocate all claims")
INVALID_POOLS: Final = Status.unresolvable("invalid resource pools were encountered")

UNKNOWN: Final = -1
ALLOCATED: Final = 0
PAUSE: Final = 60.0
"""Seconds before a search that timed out is repeated, unless its devices change."""


class AllocationOutcome(Struct, frozen=True, eq=False):
    """The result of a search: devices, a rejection, or a fault that names a claim by its index."""

    solution: Solution | None = None
    rejection: Status | None = None
    fault: ClaimFault | None = None
    score: int = 0

    def status(self, names: Sequence[str]) -> Status | None:
        """Return the status of a node. ``names`` are the names of the claims."""
        return self.rejection if self.fault is None else Status.error(self.fault.about(names))


class CachedAllocations:
    """The results for claims with given specs, by device view."""

    def __init__(
        self, parsed_claims: tuple[ParsedClaim, ...], views: DeviceViews, claims: ClaimTracker, features: DeviceFeatures
    ) -> None:
        self.parsed_claims = parsed_claims
        self._views = views
        self._claims = claims
        self._features = features
        self._generation = -1
        self._position = 0
        self._outcomes: dict[int, AllocationOutcome] = {}
        self._late: dict[int, float] = {}
        self._numbered = 0
        self._codes: IntArray = np.zeros(0, dtype=np.int64)
        self._scores: IntArray = np.zeros(0, dtype=np.int64)
        self._kinds: list[AllocationOutcome] = []
        self.unknown: set[int] = set()
        """The views without a cached result: mostly that of the last pod's node."""
        self.spent = 0.0
        """Seconds that suspended attempts have used since the last complete one."""
        self.expressions = list_expressions(parsed_claims)
        """Selectors that may not be compiled yet: compiling 10 KiB takes some hundredths of a second."""
        self.has_scores = False
        """Whether a result has a score. Only claims with prioritized lists have one."""

    def refresh(self) -> None:
        """Drop the results of views with devices that were allocated or released since the last call."""
        views = self._views
        touched = views.touched.since(self._position) if self._generation == views.generation else None
        if touched is None:
            self._outcomes.clear()
            self._late.clear()
            self._kinds = [AllocationOutcome()]
            self._codes = np.full(len(views.all), UNKNOWN, dtype=np.int64)
            self._scores = np.zeros(len(views.all), dtype=np.int64)
            self.unknown.clear()
            self._numbered = 0
        else:
            for number in touched:
                if number < len(self._codes):
                    self._codes[number] = UNKNOWN
                    self.unknown.add(number)
                self._outcomes.pop(number, None)
                self._late.pop(number, None)
        self._generation, self._position = views.generation, views.touched.position
        self.unknown.update(n for n in range(self._numbered, len(views.all)) if n not in self._outcomes)
        self._numbered = len(views.all)
        missing_count = len(views.all) - len(self._codes)
        if missing_count > 0:
            missing_count += missing_count // 2 + 64
            self._codes = np.concatenate([self._codes, np.full(missing_count, UNKNOWN, dtype=np.int64)])
            self._scores = np.concatenate([self._scores, np.zeros(missing_count, dtype=np.int64)])

    def codes(self, numbers: IntArray) -> IntArray:
        """Return the result code of each view number, including unknown ones."""
        return self._codes[numbers]

    def scores(self, numbers: IntArray) -> IntArray:
        """Return the score of each view number with a cached result."""
        return self._scores[numbers]

    def rejections(self) -> Iterable[tuple[int, AllocationOutcome]]:
        """Return the distinct rejections and faults by their codes."""
        return enumerate(self._kinds[1:], start=1)

    def outcome(self, view: DeviceView, budget: SearchBudget) -> AllocationOutcome:
        """Return the cached result of a view, or search. Raise :class:`SearchTimeout` if the search takes too long."""
        cached = self._outcomes.get(view.number)
        if cached is not None:
            return cached
        if budget.now() < self._late.get(view.number, -inf):
            raise SearchTimeout
        budget.start_search()
        try:
            outcome = self._search(view, budget)
        except SearchTimeout:
            # A search that ran out of budget because of earlier searches may be easy.
            if budget.last_search_took_most() and view.number != UNKNOWN:
                self._late[view.number] = budget.now() + PAUSE
            raise
        if view.number != UNKNOWN and view.number < len(self._codes):
            self._outcomes[view.number] = outcome
            self._codes[view.number] = self._code(outcome)
            self._scores[view.number] = outcome.score
            self.has_scores = self.has_scores or outcome.score != 0
            self.unknown.discard(view.number)
        return outcome

    def _search(self, view: DeviceView, budget: SearchBudget) -> AllocationOutcome:
        if view.problem:
            return AllocationOutcome(fault=ClaimFault(view.problem))
        try:
            search = Search(self.parsed_claims, view, self._claims.allocated, self._features, budget)
            solution = search.run()
            if solution is None:
                is_invalid = any(pool.is_invalid for pool in view.pools)
                return AllocationOutcome(rejection=INVALID_POOLS if is_invalid else CANNOT_ALLOCATE)
            for choices in solution.choices:
                list_selector_terms(choices)  # raises ClaimFault
        except ClaimFault as fault:
            return AllocationOutcome(fault=fault)
        score = sum(
            preference(parsed, selected)
            for parsed, selected in zip(self.parsed_claims, solution.alternatives, strict=True)
        )
        return AllocationOutcome(solution, score=score)

    def _code(self, outcome: AllocationOutcome) -> int:
        if outcome.solution is not None:
            return ALLOCATED
        for code, kind in self.rejections():
            if kind.rejection == outcome.rejection and _identity(kind.fault) == _identity(outcome.fault):
                return code
        self._kinds.append(outcome)
        return len(self._kinds) - 1


def _identity(fault: ClaimFault | None) -> tuple[str, int | None] | None:
    return None if fault is None else (fault.text, fault.claim)
