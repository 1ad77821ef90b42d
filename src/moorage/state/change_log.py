"""What changed, in order: the one way to learn what happened since one last looked."""

from typing import Final, Generic, TypeVar

T = TypeVar("T")

MAX_LENGTH: Final = 1 << 16


class ChangeLog(Generic[T]):
    """A log with positions. Whoever keeps something in line with it remembers ``position`` and asks ``since`` later.

    Only the latest changes are kept: who comes too late gets ``None`` and has to start from nothing.

    >>> log = ChangeLog[int]()
    >>> seen = log.position
    >>> log.note(3)
    >>> log.since(seen)
    [3]
    """

    __slots__ = ("_changes", "_max_length", "_start", "position")

    def __init__(self, max_length: int = MAX_LENGTH) -> None:
        self._max_length = max_length
        self._changes: list[T] = []
        self._start = 0
        self.position = 0
        """The end of the log: how many changes there ever were."""

    def note(self, change: T) -> None:
        """Write a change down."""
        self._changes.append(change)
        self.position += 1
        if self.position - self._start > self._max_length:
            # Half at a time, so that forgetting costs next to nothing for each change.
            forgotten = (self.position - self._start) // 2
            del self._changes[:forgotten]
            self._start += forgotten

    def since(self, position: int) -> list[T] | None:
        """Return the changes since a position, or ``None`` if that is too long ago to tell."""
        return None if position < self._start else self._changes[position - self._start :]
