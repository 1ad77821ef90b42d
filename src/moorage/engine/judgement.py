"""Which nodes were turned down and by whom: a status per row, kept as numbers so that counting is a histogram."""

from collections.abc import Iterator, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from moorage.engine.boundary import failure
from moorage.framework.plugin import Plugin
from moorage.framework.status import BoolArray, Code, Status, Verdict, combined

FEASIBLE: Final = 0
MOST_REJECTIONS: Final = 62
IdArray = NDArray[np.int32]


class Statuses:
    """The distinct statuses of an evaluation, numbered; number 0 means that no plugin objects."""

    def __init__(self) -> None:
        self._statuses: list[Status | None] = [None]
        self._ids: dict[Status, int] = {}
        self.plugins: set[str] = set()
        """Whose statuses there are."""

    def __getitem__(self, number: int) -> Status | None:
        return self._statuses[number]

    def __len__(self) -> int:
        return len(self._statuses)

    def number(self, status: Status) -> int:
        """Return the number of a status, giving it one if it is new."""
        known = self._ids.get(status)
        if known is None:
            known = self._ids[status] = len(self._statuses)
            self._statuses.append(status)
            self.plugins.add(status.plugin)
        return known

    def written(self, numbers: IdArray, rows: Mapping[int, Status]) -> IdArray:
        """Return a column with other statuses on some rows."""
        copy = numbers.copy()
        for row, status in rows.items():
            copy[row] = self.number(status)
        return copy


def checked_verdict(plugin: Plugin, verdict: object, rows: BoolArray) -> Verdict:
    """Refuse a verdict that is not one, with the reason; an Error within ``rows`` fails the attempt.

    A row that an earlier plugin turned down never comes to this one, so an Error there is none.
    """
    size = len(rows)
    if not isinstance(verdict, Verdict):
        raise failure("Filter", plugin.name, f"filter_nodes answered {type(verdict).__name__}, not a Verdict")
    for mask, status in verdict.rejections:
        if not isinstance(mask, np.ndarray) or mask.dtype != np.bool_:
            kind = mask.dtype if isinstance(mask, np.ndarray) else type(mask).__name__
            raise failure("Filter", plugin.name, f"a mask must be an array of bool, not of {kind}")
        if mask.shape != (size,):
            raise failure("Filter", plugin.name, f"a mask has shape {mask.shape} for a window of {size} nodes")
        if not status.is_rejection and (mask & rows).any():
            if status.code == Code.ERROR:
                raise failure("Filter", plugin.name, status.message)
            raise failure("Filter", plugin.name, f"{status.code.label} is not an answer of Filter")
    return verdict


def rejection_numbers(
    verdict: Verdict, plugin: str, rows: BoolArray, statuses: Statuses
) -> Iterator[tuple[BoolArray, int]]:
    """Yield disjoint masks within ``rows`` and the number of the status that holds there, all its reasons together."""
    rejections = [(mask, status) for mask, status in verdict.rejections if np.count_nonzero(mask)]
    if len(rejections) == 1:
        mask, status = rejections[0]
        yield mask & rows, statuses.number(status.by(plugin))
    elif rejections:
        combination = np.zeros(len(rows), dtype=np.int64)
        for bit, (mask, _) in enumerate(rejections[:MOST_REJECTIONS]):
            combination |= mask.astype(np.int64) << bit
        combination[~rows] = 0
        for bits in np.unique(combination):
            chosen = [status for bit, (_, status) in enumerate(rejections[:MOST_REJECTIONS]) if bits >> bit & 1]
            if (merged := combined(chosen)) is not None:
                yield combination == bits, statuses.number(merged.by(plugin))
