"""What is worth keeping: that which is asked for again."""

from collections import OrderedDict
from collections.abc import Hashable
from typing import Final, Generic, TypeVar

T = TypeVar("T")

MOST_MET: Final = 16384


class Keeping(Generic[T]):
    """Keeps what is asked for a second time, least recently used first to go, and of the rest only the latest.

    A pod like no other would push out what others share; and what it needs takes memory that is at hand if the last
    such pod has just given it back.
    """

    __slots__ = ("_latest", "_met", "kept")

    def __init__(self) -> None:
        self.kept: OrderedDict[Hashable, T] = OrderedDict()
        self._latest: tuple[Hashable, T] | None = None
        self._met: set[int] = set()

    def find(self, key: Hashable) -> T | None:
        """Return what is there under a key; what is asked for again is there to stay."""
        known = self.kept.get(key)
        if known is not None:
            self.kept.move_to_end(key)
        elif self._latest is not None and self._latest[0] == key:
            known = self.kept[key] = self._latest[1]
            self._latest = None
        return known

    def add(self, key: Hashable, thing: T, most: int) -> None:
        """Keep something: among at most so many if its key was met before, else until the next one comes."""
        mark = hash(key)
        if mark in self._met:
            self.kept[key] = thing
        else:
            if len(self._met) >= MOST_MET:
                self._met.clear()
            self._met.add(mark)
            self._latest = (key, thing)
        while len(self.kept) > most:
            self.kept.popitem(last=False)

    def clear(self) -> None:
        """Let everything go, but not which keys were met."""
        self.kept.clear()
        self._latest = None
