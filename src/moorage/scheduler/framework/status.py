"""Results of plugins: a Status for one node or one pod, a Verdict for a table of nodes."""

from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Any, Final, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage.common.arrays import NDArray

BoolArray: TypeAlias = NDArray[np.bool_]
IntArray: TypeAlias = NDArray[np.signedinteger[Any]]
"""Integers, of 64 bits by default."""
FloatArray: TypeAlias = NDArray[np.float64]

MAX_NODE_SCORE: Final = 100
MIN_NODE_SCORE: Final = 0


class Code(IntEnum):
    """Upstream's seven codes, in upstream's order. :attr:`label` is how they are written."""

    SUCCESS = 0
    ERROR = 1
    UNSCHEDULABLE = 2
    UNSCHEDULABLE_AND_UNRESOLVABLE = 3
    WAIT = 4
    SKIP = 5
    PENDING = 6

    @property
    def label(self) -> str:
        """Return the code as upstream prints it."""
        return _LABELS[self]

    @property
    def is_rejection(self) -> bool:
        """Whether a pod or node was rejected, rather than an error."""
        return self in _REJECTIONS


_LABELS: Final = {code: code.name.title().replace("_", "") for code in Code}
_REJECTIONS: Final = frozenset({Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING})
# When one node has several reasons, the gravest code is the node's.
_GRAVITY: Final = {Code.PENDING: 0, Code.UNSCHEDULABLE: 1, Code.UNSCHEDULABLE_AND_UNRESOLVABLE: 2, Code.ERROR: 3}


class Status(Struct, frozen=True):
    """The result of a plugin for a pod or node; methods that return a Status may return ``None`` for success.

    >>> Status.unschedulable("Insufficient cpu").message
    'Insufficient cpu'
    """

    code: Code
    reasons: tuple[str, ...] = ()
    plugin: str = ""
    cause: BaseException | None = None

    def __post_init__(self) -> None:
        # Here the traceback names the plugin's line. Later it would be the line that writes an event.
        if self.code.__class__ is not Code:
            kind = type(self.code).__name__
            raise TypeError(f"the code of a status is a Code, not the {kind} {self.code!r}: {_suggest_line(self.code)}")
        if self.reasons.__class__ is not tuple:
            kind = type(self.reasons).__name__
            raise TypeError(f"the reasons of a status are a tuple, not a {kind}: {_suggest_line(self.code)}")
        for reason in self.reasons:
            if reason.__class__ is not str:
                raise TypeError(
                    f"a reason must be a string, not {type(reason).__name__}: write Status.unschedulable('…')"
                )

    @classmethod
    def unschedulable(cls, *reasons: str) -> "Status":
        """Reject the node for now: preemption or another event may change that."""
        return cls(Code.UNSCHEDULABLE, reasons)

    @classmethod
    def unresolvable(cls, *reasons: str) -> "Status":
        """Reject the node in a way that removing pods cannot change: no preemption is tried there."""
        return cls(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, reasons)

    @classmethod
    def pending(cls, *reasons: str) -> "Status":
        """Reject the pod while an external operation is in progress; its event requeues the pod without backoff."""
        return cls(Code.PENDING, reasons)

    @classmethod
    def skip(cls) -> "Status":
        """Skip the plugin's later extension points for this pod."""
        return SKIP

    @classmethod
    def error(cls, *reasons: str, cause: BaseException | None = None) -> "Status":
        """Report an error. The attempt fails and the pod is retried after a backoff."""
        return cls(Code.ERROR, reasons, cause=cause)

    def by(self, plugin: str) -> "Status":
        """Return the same status with the name of the plugin it comes from."""
        return self if self.plugin else replace(self, plugin=plugin)

    @property
    def is_rejection(self) -> bool:
        """Whether a pod or node was rejected, rather than an error."""
        return self.code in _REJECTIONS

    @property
    def message(self) -> str:
        """Return the reasons as one text."""
        return ", ".join(self.reasons)


def _suggest_line(code: object) -> str:
    """Return the line to write instead of a status with this code, which may be a number or a name as in Go."""
    lines = (line for candidate, line in _LINES.items() if code in (candidate.label, int(candidate)))
    return f"write {next(lines, _LINES[Code.UNSCHEDULABLE])}"


_LINES: Final = {
    Code.SUCCESS: "`return None` for success",
    Code.ERROR: "Status.error('why'), or raise an exception",
    Code.UNSCHEDULABLE: "Status.unschedulable('why')",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "Status.unresolvable('why')",
    Code.WAIT: "`return Wait(seconds)` in permit",
    Code.SKIP: "Status.skip()",
    Code.PENDING: "Status.pending('why')",
}

SKIP: Final = Status(Code.SKIP)


def combined(statuses: Sequence[Status]) -> Status | None:
    """Put several rejections of a node together: all reasons in order, the gravest code."""
    if len(statuses) <= 1:
        return statuses[0] if statuses else None
    gravest = max(statuses, key=lambda status: _GRAVITY[status.code])
    return replace(gravest, reasons=tuple(reason for status in statuses for reason in status.reasons))


class Verdict(Struct, frozen=True):
    """Which nodes of a window are rejected, and why: rejections as columns.

    Several rejections may name the same node. Its reasons are then taken in their order here.
    """

    size: int
    rejections: tuple[tuple[BoolArray, Status], ...] = ()

    @classmethod
    def accept(cls, size: int) -> "Verdict":
        """Reject no node."""
        return cls(size)

    @classmethod
    def reject(cls, *, where: BoolArray, because: Status) -> "Verdict":
        """Reject the nodes where the mask is true, all for the same reason."""
        return cls(len(where), ((where, because),))

    @classmethod
    def from_rows(cls, size: int, statuses: Iterable[tuple[int, Status | None]]) -> "Verdict":
        """Collect the statuses of single nodes."""
        masks: dict[Status, BoolArray] = {}
        for row, status in statuses:
            if status is not None and status.__class__ is not Status:  # the engine reports the value
                return cls(size, ((np.ones(size, dtype=np.bool_), status),))
            if status is not None and status.code != Code.SUCCESS:
                if status not in masks:
                    masks[status] = np.zeros(size, dtype=np.bool_)
                masks[status][row] = True
        return cls(size, tuple((mask, status) for status, mask in masks.items()))

    @property
    def rejected(self) -> BoolArray:
        """The nodes that are rejected for any reason."""
        if len(self.rejections) == 1:
            return self.rejections[0][0]
        mask = np.zeros(self.size, dtype=np.bool_)
        for where, _ in self.rejections:
            mask |= where
        return mask

    def status_at(self, row: int) -> Status | None:
        """Return the status of a node, all its reasons together, or ``None`` if it is accepted."""
        return combined([status for where, status in self.rejections if where[row]])
