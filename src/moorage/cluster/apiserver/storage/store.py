"""Versioned objects and the log of their changes, without I/O and without the rules of the API.

An object is stored in the form in which it was written: as JSON with all fields, or as one of our structs. The other
form is computed on demand and cached: simulations never encode, and lists are encoded once.
Rules for writes are in ``objects`` (structs) and :mod:`~moorage.cluster.apiserver.api` (JSON).
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TypeVar

import msgspec

from moorage.common.errors import ApiError, Gone
from moorage.kube.api.codec import decode, encode
from moorage.kube.api.kinds import find_kind
from moorage.kube.api.meta import KubeObject

T = TypeVar("T", bound=KubeObject)
HISTORY: Final = 10_000
"""The number of past changes of a resource that a watch can start from."""
MAX_OBJECT_BYTES: Final = 4 * 1024 * 1024
"""Many small requests must not let an object grow without limit."""
MAX_HISTORY_BYTES: Final = 32 * 1024 * 1024
"""The maximum size of these changes: each change holds a full copy of its object."""

_encode_json: Final = msgspec.json.Encoder().encode
_decode_json: Final = msgspec.json.Decoder(dict[str, Any]).decode


class SelectableFields(msgspec.Struct, frozen=True):
    """The labels and fields of an object that selectors can match."""

    labels: Mapping[str, str]
    fields: Mapping[str, str]


class Entry:
    """One version of an object. It never changes."""

    __slots__ = ("_body", "_typed", "facts", "is_typed", "key", "version")

    def __init__(self, key: str, version: int, body: bytes | None, typed: KubeObject | None = None) -> None:
        self.key = key
        self.version = version
        self.is_typed = body is None
        self.facts: SelectableFields | None = None
        self._body = body
        self._typed = typed

    @property
    def size(self) -> int:
        """The size of the cached JSON; 0 for a struct that was never encoded."""
        return len(self._body) if self._body is not None else 0

    @property
    def body(self) -> bytes:
        """The object as JSON."""
        if self._body is None:
            assert self._typed is not None
            self._body = _encode_json(encode(self._typed))
        return self._body

    @property
    def data(self) -> dict[str, Any]:
        """The object as plain data: a copy for the caller to change."""
        return _decode_json(self.body)

    def typed(self, kind: type[T]) -> T:
        """Return the object as a struct, decoded once. A second type, such as RawPod, is decoded at each call."""
        if self._typed is None:
            self._typed = decode(kind, self.body)
        return self._typed if isinstance(self._typed, kind) else decode(kind, self.body)


class StoredChange:
    """One change: ``before`` is ``None`` for a creation, ``after`` for a deletion."""

    __slots__ = ("after", "before", "version")

    def __init__(self, version: int, before: Entry | None, after: Entry | None) -> None:
        self.version = version
        self.before = before
        self.after = after

    @property
    def event(self) -> str:
        """The event type in a watch without selectors."""
        return "ADDED" if self.before is None else "DELETED" if self.after is None else "MODIFIED"

    def line(self, event: str) -> bytes:
        """Return the line of a watch that shows this change as an event."""
        return b'{"type":"%b","object":%b}\n' % (event.encode(), self.body(event))

    def body(self, event: str) -> bytes:
        """Return the object to show with an event. A deleted one is shown at the version of its deletion."""
        if event != "DELETED":
            assert self.after is not None
            return self.after.body
        assert self.before is not None
        data = self.before.data
        data["metadata"]["resourceVersion"] = str(self.version)
        return _encode_json(data)


def _measure_size(change: StoredChange) -> int:
    """Return the number of bytes that a change keeps in memory. The previous version belongs to the change before."""
    entry = change.after or change.before
    return entry.size if entry is not None else 0


class Log:
    """The recent changes of a resource, oldest first. Positions count from its first change ever."""

    def __init__(self, history: int) -> None:
        self._history = history
        self._changes: list[StoredChange] = []
        self._bytes = 0
        self._dropped_count = 0
        self._last_lines = (0, 0, b"")
        self.forgotten_version = 0

    @property
    def end(self) -> int:
        """The position after the last change."""
        return self._dropped_count + len(self._changes)

    def append(self, change: StoredChange) -> None:
        """Add a change. When there are twice as many as are to be kept, or bytes, the older half is forgotten."""
        self._changes.append(change)
        self._bytes += _measure_size(change)
        if len(self._changes) > 2 * self._history:
            self._forget(len(self._changes) - self._history)
        elif self._bytes > MAX_HISTORY_BYTES:
            surplus, remaining_bytes = 0, self._bytes
            while remaining_bytes > MAX_HISTORY_BYTES // 2 and surplus < len(self._changes) - 1:
                remaining_bytes -= _measure_size(self._changes[surplus])
                surplus += 1
            self._forget(surplus)

    def _forget(self, surplus: int) -> None:
        if not surplus:
            return
        self.forgotten_version = self._changes[surplus - 1].version
        del self._changes[:surplus]
        self._bytes = sum(map(_measure_size, self._changes))
        self._dropped_count += surplus
        self._last_lines = (0, 0, b"")

    def find_position(self, version: int) -> int:
        """Return the position of the first change after a version; :class:`Gone` if some of those are forgotten."""
        if version < self.forgotten_version:
            raise Gone(f"too old resource version: {version} ({self.forgotten_version})", status=410, reason="Expired")
        return self._dropped_count + bisect_right(self._changes, version, key=lambda change: change.version)

    def since(self, position: int) -> list[StoredChange]:
        """Return the changes from a position on; :class:`Gone` if the reader was too slow for them."""
        if position < self._dropped_count:
            raise Gone(f"the watch fell behind by more than {self._history} changes", status=410, reason="Expired")
        return self._changes[position - self._dropped_count :]

    def read_lines(self, position: int) -> bytes:
        """Return the changes from a position on as lines of a watch; watchers that keep up share one text."""
        start, end, text = self._last_lines
        if (start, end) != (position, self.end):
            text = b"".join([change.line(change.event) for change in self.since(position)])
            self._last_lines = (position, self.end, text)
        return text


class Store:
    """All objects of a cluster, by resource and key. Every change gets the next version and notifies watches."""

    def __init__(self, *, history: int = HISTORY, version: int = 0) -> None:
        self.version = version
        self._history = history
        self._objects: dict[str, dict[str, Entry]] = {}
        self._logs: dict[str, Log] = {}
        self._sorted: dict[str, list[str]] = {}
        self._subscribers: list[Callable[[str, StoredChange], None]] = []

    def subscribe(self, callback: Callable[[str, StoredChange], None]) -> None:
        """Call back with the resource and the change, for every change from now on."""
        self._subscribers.append(callback)

    def log(self, resource: str) -> Log:
        """Return the changes of a resource."""
        log = self._logs.get(resource)
        if log is None:
            log = self._logs[resource] = Log(self._history)
        return log

    def get(self, resource: str, key: str) -> Entry | None:
        """Return one object, or ``None``."""
        objects = self._objects.get(resource)
        return objects.get(key) if objects is not None else None

    def resources(self) -> tuple[str, ...]:
        """Return the resources that have or had objects."""
        return tuple(self._objects)

    def list(self, resource: str) -> tuple[Entry, ...]:
        """Return all objects of a resource, oldest first."""
        return tuple(self._objects.get(resource, {}).values())

    def sorted(self, resource: str, namespace: str = "") -> Iterator[Entry]:
        """Return the objects of a resource in order of their keys, of a namespace or all."""
        objects = self._objects.get(resource, {})
        keys = self._sorted.get(resource)
        if keys is None:
            keys = self._sorted[resource] = sorted(objects)
        prefix = f"{namespace}/"
        return (objects[key] for key in keys if not namespace or key.startswith(prefix))

    def put(self, resource: str, key: str, data: dict[str, Any]) -> Entry:
        """Write plain data under a key. The new version is stored in its metadata."""
        data["metadata"]["resourceVersion"] = str(self.version + 1)
        body = _encode_json(data)
        if len(body) > MAX_OBJECT_BYTES:
            raise ApiError("etcdserver: request is too large", status=413, reason="RequestEntityTooLarge")
        self.version += 1
        return self._keep(resource, Entry(key, self.version, body))

    def put_typed(self, resource: str, obj: T, **changes: Any) -> T:
        """Write a struct with changed fields, and return it with its new version.

        The changes must not affect derived values of the struct: they are kept.
        """
        self.version += 1
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
        stored_object = msgspec.structs.replace(obj, metadata=metadata, **changes)
        stored_object.__dict__.update(obj.__dict__)
        self._keep(resource, Entry(stored_object.key, self.version, None, stored_object))
        return stored_object

    def undo(self, resource: str, key: str, before: Entry | None) -> None:
        """Restore a previous state of an object as an ordinary change, because watchers have seen the undone one."""
        current = self.get(resource, key)
        if before is not None:
            self.put(resource, key, before.data)
        elif current is not None:
            self.remove(resource, key)

    def restore(self, resource: str, entry: Entry) -> None:
        """Load a persisted object. This is not a change."""
        self._objects.setdefault(resource, {})[entry.key] = entry
        self._sorted.pop(resource, None)
        self.version = max(self.version, entry.version)

    def forget_history(self) -> None:
        """Expire all previous versions for watches."""
        for resource in self._objects:
            self.log(resource).forgotten_version = self.version

    def remove(self, resource: str, key: str) -> StoredChange:
        """Delete an object immediately."""
        before = self._objects[resource].pop(key)
        self._sorted.pop(resource, None)
        self.version += 1
        return self._notify(resource, StoredChange(self.version, before, None))

    def _keep(self, resource: str, entry: Entry) -> Entry:
        objects = self._objects.setdefault(resource, {})
        before = objects.get(entry.key)
        objects[entry.key] = entry
        if before is None:
            self._sorted.pop(resource, None)
        self._notify(resource, StoredChange(entry.version, before, entry))
        return entry

    def _notify(self, resource: str, change: StoredChange) -> StoredChange:
        self.log(resource).append(change)
        for notify in self._subscribers:
            notify(resource, change)
        return change


def storage_name(kind: type[KubeObject]) -> str:
    """Return the resource name of a struct in the store."""
    return find_kind(kind).full_name
