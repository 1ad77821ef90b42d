"""Bounded caches. Each has a name and a budget, and is listed at ``/debug/caches``."""

from array import array
from collections.abc import Callable, Hashable, Iterator
from functools import lru_cache, wraps
from itertools import chain
from typing import Any, Final, Generic, ParamSpec, TypeVar
from weakref import WeakSet

from msgspec import Struct

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

P = ParamSpec("P")
R = TypeVar("R")

MAX_KEY_LENGTH: Final = 1024
"""Maximum length of a key that contains text from users."""

MAX_VALUE_LENGTH: Final = 32 * 1024
"""Maximum length of the encoding of a cached object: thousands of pods with specs of a megabyte fill the memory."""

MAX_KEY_LABELS: Final = 64
"""Maximum number of labels in a key. Results for pods with more labels are not cached."""

MAX_SEEN: Final = 4096
"""Number of keys that an :class:`AdmissionLRU` records at their first use."""

_caches: "dict[str, WeakSet[LRU[Any, Any]]]" = {}
_functions: "dict[str, Callable[[], tuple[int, int]]]" = {}


class CacheReport(Struct, frozen=True, order=True):
    """The size of all caches of the same name. ``budget`` is the sum of their limits, in entries."""

    name: str
    caches: int
    entries: int
    budget: int


def report_caches() -> list[CacheReport]:
    """Return the sizes of all caches, by name."""
    reports = [
        CacheReport(name, len(caches), sum(map(len, caches)), sum(cache.limit for cache in caches))
        for name, caches in _caches.items()
    ]
    reports += [CacheReport(name, 1, *read()) for name, read in _functions.items()]
    return sorted(reports)


class LRU(Generic[K, V]):
    """A map of at most ``limit`` entries that drops the least recently used ones.

    It has two generations. A hit in the young one is a plain dict lookup without bookkeeping, because these maps are
    read several times per pod. A hit in the old one moves the entry to the young one. When the young generation has
    half the limit, it becomes the old one, and the rest of the previous old generation is dropped. So an entry is
    dropped after ``limit / 2`` other entries were added without a lookup.

    With ``compute``, ``lookup(key)`` computes a missing value and stores it. A hit costs no Python call. ``on_drop`` is
    called with each entry that is dropped because the cache is full.

    >>> squares = LRU("squares", 100, lambda number: number * number)
    >>> squares.lookup(4)
    16
    """

    __slots__ = ("__weakref__", "_half", "_old", "_on_drop", "_young", "lookup")

    lookup: Callable[[K], V]

    def __init__(
        self,
        name: str,
        limit: int,
        compute: Callable[[K], V] | None = None,
        on_drop: Callable[[K, V], None] | None = None,
    ) -> None:
        self._half = max(1, limit // 2)
        self._on_drop = on_drop
        self._old: dict[K, V] = {}
        self._young: dict[K, V] = {}
        if compute is not None:
            self._young = _ComputedDict(self._compute_with(compute))
            self.lookup = self._young.__getitem__
        if (caches := _caches.get(name)) is None:
            caches = _caches[name] = WeakSet()
        caches.add(self)

    def _compute_with(self, compute: Callable[[K], V]) -> Callable[[K], V]:
        def resolve(key: K) -> V:
            value = self._old.pop(key) if key in self._old else compute(key)
            self.put(key, value)
            return value

        return resolve

    @property
    def limit(self) -> int:
        """Maximum number of entries."""
        return 2 * self._half

    def __len__(self) -> int:
        return len(self._young) + len(self._old)

    def __contains__(self, key: K) -> bool:
        return key in self._young or key in self._old

    def find(self, key: K) -> V | None:
        """Return the value of a key, or ``None``."""
        if key in self._young:
            return self._young[key]
        if key not in self._old:
            return None
        value = self._old.pop(key)
        self.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Store a value. Drop the old generation if the young one is full."""
        young = self._young
        if len(young) >= self._half and key not in young:
            dropped, self._old = self._old, dict(young)
            young.clear()
            if self._on_drop is not None:
                for old_key, old_value in dropped.items():
                    self._on_drop(old_key, old_value)
        young[key] = value
        self._old.pop(key, None)

    def resize(self, limit: int) -> None:
        """Change the limit. A lower one takes effect as entries are added."""
        self._half = max(1, limit // 2)

    def discard(self, key: K) -> None:
        """Remove an entry if it exists."""
        self._young.pop(key, None)
        self._old.pop(key, None)

    def clear(self) -> None:
        """Remove all entries."""
        self._young.clear()
        self._old.clear()

    def items(self) -> Iterator[tuple[K, V]]:
        """Iterate over all entries. None may be added during the iteration."""
        return chain(self._young.items(), self._old.items())


class _ComputedDict(dict[K, V]):
    """A dict that calls a function for missing keys, as ``defaultdict`` does, but with the key."""

    __slots__ = ("_resolve",)

    def __init__(self, resolve: Callable[[K], V]) -> None:
        super().__init__()
        self._resolve = resolve

    def __missing__(self, key: K) -> V:
        return self._resolve(key)


class AdmissionLRU(Generic[K, V]):
    """An :class:`LRU` that stores a value only when its key is used for the second time.

    Without it, a burst of keys that are used once (pods with unique specs) would drop the entries that pods share. The
    latest value that was not stored remains available until the next one.
    """

    __slots__ = ("_entries", "_latest", "_seen")

    def __init__(self, name: str, limit: int) -> None:
        self._entries: LRU[K, V] = LRU(name, limit)
        self._latest: tuple[K, V] | None = None
        # A table of hashes with a fixed size. Keys that share a slot replace each other, which only delays a store.
        self._seen = array("q", bytes(8 * MAX_SEEN))

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: K) -> V | None:
        """Return the value of a key, or ``None``. The latest value is stored when it is found."""
        value = self._entries.find(key)
        if value is None and self._latest is not None and self._latest[0] == key:
            value = self._latest[1]
            self._latest = None
            self._entries.put(key, value)
        return value

    def put(self, key: K, value: V) -> None:
        """Store a value if its key was seen before. Otherwise keep it as the latest value."""
        key_hash = hash(key)
        slot = key_hash % MAX_SEEN
        if self._seen[slot] == key_hash:
            self._entries.put(key, value)
        else:
            self._seen[slot] = key_hash
            self._latest = (key, value)

    def clear(self) -> None:
        """Remove all values. Seen keys remain seen."""
        self._entries.clear()
        self._latest = None


def cached(size: int, length: Callable[[Any], int] | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Cache a pure function like ``functools.lru_cache``, except for calls with long texts.

    Users write these texts: without the limit, thousands of megabytes of text would remain in memory. ``length``
    returns the length of arguments that are not strings. The cache has the name of the function.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        remember = lru_cache(size, typed=True)(function)
        _functions[f"{function.__module__}.{function.__qualname__}"] = lambda: (remember.cache_info().currsize, size)

        if length is None and function.__code__.co_argcount == 1:
            # One large object may have a hundred thousand names, and each is checked several times.
            @wraps(function)
            def call_one(text: Any) -> R:
                if text.__class__ is str and len(text) > MAX_KEY_LENGTH:
                    return function(text)  # type: ignore[call-arg, arg-type]
                return remember(text)

            return call_one  # type: ignore[return-value]

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> R:
            for arg in args:
                if arg.__class__ is str:
                    if len(arg) > MAX_KEY_LENGTH:
                        return function(*args, **kwargs)
                elif length is not None and length(arg) > MAX_VALUE_LENGTH:
                    return function(*args, **kwargs)
            return remember(*args, **kwargs)  # type: ignore[arg-type]

        return call

    return decorate


def short_key(encoded: bytes) -> bytes:
    """Return a key for an encoded object: the encoding itself, or its digest if it is long."""
    if len(encoded) <= MAX_KEY_LENGTH:
        return encoded
    from hashlib import blake2b  # imports OpenSSL, which most runs do not need

    return blake2b(encoded, digest_size=32).digest()
