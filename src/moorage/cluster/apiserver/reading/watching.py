"""A watch on one resource, without I/O: it reads the shared log, so slow readers need no extra memory."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from moorage.cluster.apiserver.reading.representations import Representation
from moorage.cluster.apiserver.reading.selection import Selection, selection
from moorage.cluster.apiserver.requests.request import ApiRequest, Target
from moorage.cluster.apiserver.storage.store import Entry, Store, StoredChange
from moorage.common.errors import ApiError, Gone
from moorage.kube.field_errors import required_value
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import error_status, expired, invalid

CHUNK: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class WatchTerms:
    """Parameters of a watch. If ``since`` is ``None``, it starts with the current objects."""

    namespace: str
    selection: Selection
    since: int | None
    is_streaming_list: bool = False
    wants_bookmarks: bool = False
    seconds: float | None = None

    @classmethod
    def read(cls, request: ApiRequest, target: Target) -> "WatchTerms":
        """Read the parameters of a request."""
        selected = selection(target.resource, request.query, name=target.name)
        is_streaming_list = request.is_set("sendInitialEvents")
        if is_streaming_list and request.query.get("resourceVersionMatch") != "NotOlderThan":
            cause = required_value("resourceVersionMatch", "sendInitialEvents needs resourceVersionMatch=NotOlderThan")
            raise invalid(target.resource, "", [cause])
        return cls(
            target.namespace,
            selected,
            since=None if is_streaming_list else request.number("resourceVersion") or None,
            is_streaming_list=is_streaming_list,
            wants_bookmarks=request.is_set("allowWatchBookmarks"),
            seconds=request.number("timeoutSeconds"),
        )


class Watch:
    """The changes as lines of JSON. Read :meth:`begin` first, then :meth:`take` whenever the store has changed."""

    def __init__(
        self, store: Store, resource: ServedResource, representation: Representation, terms: WatchTerms
    ) -> None:
        self.resource = resource
        self.terms = terms
        self.is_over = False
        self._store = store
        self._representation = representation
        self._log = store.log(resource.storage)
        self._selects = not terms.selection.is_everything
        self._prefix = f"{terms.namespace}/" if terms.namespace else ""
        # Most watches have no selector and no conversion: their events are encoded once for all of them.
        self._is_common = type(representation) is Representation and not (self._selects or self._prefix)
        self._initial: tuple[Entry, ...] = ()
        self._problem: Gone | None = None
        self._position = self._log.end
        self._begun_at = store.version
        if terms.since is None:
            self._initial = tuple(store.sorted(resource.storage, terms.namespace))
        elif terms.since > store.version:
            # The store is new: the version is from a previous one.
            self._problem = expired(f"too new resource version: {terms.since} ({store.version})")
        else:
            try:
                self._position = self._log.find_position(terms.since)
            except Gone as error:
                self._problem = error

    def begin(self) -> Iterator[bytes]:
        """Yield the objects that existed when the watch was created, in chunks."""
        if self._problem is not None:
            yield self.ended(self._problem)
            return
        yield from _in_chunks(self._representation.added(entry) for entry in self._initial if self._shows(entry))
        self._initial = ()
        if self.terms.is_streaming_list:
            yield self._representation.bookmark(self._begun_at, ends_initial_events=True)

    def take(self) -> bytes:
        """Return the changes since the last call that this watch shows."""
        if self.is_over:
            return b""
        position, self._position = self._position, self._log.end
        try:
            if self._is_common:
                return self._log.read_lines(position)
            return b"".join([line for change in self._log.since(position) if (line := self._line(change))])
        except Gone as error:
            return self.ended(error)

    def bookmark(self) -> bytes:
        """Return a bookmark of the current version; only valid right after :meth:`take`."""
        return self._representation.bookmark(self._store.version)

    def ended(self, error: ApiError) -> bytes:
        """End the watch and return its final error event."""
        self.is_over = True
        return msgspec.json.encode({"type": "ERROR", "object": error_status(error)}) + b"\n"

    def _shows(self, entry: Entry) -> bool:
        if self._prefix and not entry.key.startswith(self._prefix):
            return False
        return not self._selects or self.terms.selection.matches(self.resource, entry)

    def _line(self, change: StoredChange) -> bytes:
        was_shown = change.before is not None and self._shows(change.before)
        is_shown = change.after is not None and self._shows(change.after)
        if not was_shown and not is_shown:
            return b""
        event = "MODIFIED" if was_shown and is_shown else "ADDED" if is_shown else "DELETED"
        return self._representation.event(event, change)


def _in_chunks(lines: Iterable[bytes]) -> Iterator[bytes]:
    chunk: list[bytes] = []
    size = 0
    for line in lines:
        chunk.append(line)
        size += len(line)
        if size > CHUNK:
            yield b"".join(chunk)
            chunk, size = [], 0
    if chunk:
        yield b"".join(chunk)
