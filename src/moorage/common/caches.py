"""The one bounded map of the house: what was not asked for longest is forgotten first."""

from array import array
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache, wraps
from itertools import chain
from typing import Any, Final, Generic, ParamSpec, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

P = ParamSpec("P")
R = TypeVar("R")

MAX_KEY_LENGTH: Final = 1024
"""How long a key that a user wrote may be."""

MAX_KEPT: Final = 32 * 1024
"""How long an encoding may be whose object is kept: some thousand pods with specs of a megabyte would stay."""

MAX_KEY_LABELS: Final = 64
"""How many labels a key may hold; what a pod with more of them asks for is worked out every time."""

MAX_SEEN: Final = 4096
"""How many keys a doorkeeper remembers having seen once."""


class LRU(dict[K, V]):
    """A map of at most ``limit`` entries that drops the least recently used ones.

    It keeps two generations. A hit in the young one is a plain dict look-up (no bookkeeping, which is the point: these
    maps are asked several times for every pod); a hit in the old one moves the entry to the young one. When the young
    one has half the limit, it becomes the old one, and what was left in that is dropped. So an entry goes once nobody
    asked for it while ``limit / 2`` others were added.

    What is inherited from dict (``get``, ``in``, ``len``, iteration) sees the young generation only; :meth:`find`,
    :meth:`contains`, ``size`` and ``entries`` see both. So ``get`` is for who asks for the value right after a miss.

    With ``compute``, ``cache[key]`` works a missing value out and keeps it. ``on_drop`` is called with every entry that
    is dropped for want of room.

    >>> squares = LRU(100, lambda number: number * number)
    >>> squares[4]
    16
    """

    __slots__ = ("_compute", "_half", "_old", "_on_drop")

    def __init__(
        self, limit: int, compute: Callable[[K], V] | None = None, on_drop: Callable[[K, V], None] | None = None
    ) -> None:
        super().__init__()
        self._compute = compute
        self._on_drop = on_drop
        self._half = max(1, limit // 2)
        self._old: dict[K, V] = {}

    def __missing__(self, key: K) -> V:
        if key in self._old:
            value = self._old.pop(key)
        elif self._compute is not None:
            value = self._compute(key)
        else:
            raise KeyError(key)
        self.put(key, value)
        return value

    def find(self, key: K) -> V | None:
        """Return what is kept under a key, or ``None``."""
        if key in self:
            return self[key]
        if key not in self._old:
            return None
        value = self._old.pop(key)
        self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value; the older generation makes room for it."""
        if len(self) >= self._half and key not in self:
            dropped, self._old = self._old, dict(self)
            super().clear()
            if self._on_drop is not None:
                for old_key, old_value in dropped.items():
                    self._on_drop(old_key, old_value)
        self[key] = value
        self._old.pop(key, None)

    def resize(self, limit: int) -> None:
        """Keep more or fewer entries from now on; a lower limit takes effect as entries are added."""
        self._half = max(1, limit // 2)

    def contains(self, key: K) -> bool:
        """Tell whether something is kept under a key, be it ``None``."""
        return key in self or key in self._old

    def discard(self, key: K) -> None:
        """Forget one entry, if it is there."""
        self.pop(key, None)
        self._old.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        super().clear()
        self._old.clear()

    def entries(self) -> Iterator[tuple[K, V]]:
        """Go through all entries, of both generations; an entry may not be added meanwhile."""
        return chain(self.items(), self._old.items())

    @property
    def size(self) -> int:
        """How many entries there are, in both generations."""
        return len(self) + len(self._old)


def cached_if_short(
    size: int, length: Callable[[Any], int] | None = None
) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache a pure function of texts like functools.lru_cache, but nothing whose text is too long to be kept as a key.

    Users write these texts: without the limit, some thousand of them of a megabyte each would stay in memory. An
    argument that is no text needs a ``length``, which returns how many characters are in it.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        cached = lru_cache(size, typed=True)(function)

        @wraps(function)
        def look_up(*args: P.args, **kwargs: P.kwargs) -> R:
            for arg in args:
                if arg.__class__ is str:
                    if len(arg) > MAX_KEY_LENGTH:
                        return function(*args, **kwargs)
                elif length is not None and length(arg) > MAX_KEPT:
                    return function(*args, **kwargs)
            return cached(*args, **kwargs)  # type: ignore[arg-type]

        return look_up

    return decorate


def short_key(encoded: bytes) -> bytes:
    """Return a key that stands for an encoded object: the encoding itself, or a digest of it if it is long."""
    if len(encoded) <= MAX_KEY_LENGTH:
        return encoded
    from hashlib import blake2b  # brings OpenSSL's algorithms along

    return blake2b(encoded, digest_size=32).digest()


class Doorkeeper(Generic[K, V]):
    """An :class:`LRU` that lets in only what is asked for a second time; of the rest it keeps the latest alone.

    Without it, a burst of keys that never come back (pods like no other) would push out what others share.
    """

    __slots__ = ("_latest", "_seen", "kept")

    def __init__(self, limit: int) -> None:
        self.kept: LRU[K, V] = LRU(limit)
        self._latest: tuple[K, V] | None = None
        # Of one size from the start. Two keys with one place have the later one remembered, which is as good.
        self._seen = array("q", bytes(8 * MAX_SEEN))

    def find(self, key: K) -> V | None:
        """Return what is kept under a key, or ``None``; what is found is there to stay."""
        value = self.kept.find(key)
        if value is None and self._latest is not None and self._latest[0] == key:
            value = self._latest[1]
            self._latest = None
            self.kept.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Keep a value: for good if its key was seen before, else until the next such one comes."""
        mark = hash(key)
        place = mark % MAX_SEEN
        if self._seen[place] == mark:
            self.kept.put(key, value)
        else:
            self._seen[place] = mark
            self._latest = (key, value)

    def clear(self) -> None:
        """Forget all values, but not which keys were seen."""
        self.kept.clear()
        self._latest = None
