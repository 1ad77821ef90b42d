"""Listing and watching one resource, without any I/O.

::

            ┌────────────── page with "continue" ─────────────┐
            ▼                                                 │
        LISTING ── last page: what is gone is told ──> WATCHING ── the watch ends: resume ──┐
            ▲                                             │  ▲                              │
            └──── 410 Gone, or a bookmark we missed ──────┘  └──────────────────────────────┘

Whoever drives it asks :meth:`ListWatch.next_request` what to send, feeds back what arrives, and passes on the changes
that come out. What is known is never dropped: a new list is compared with it, and only the differences are told.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from random import Random
from typing import Final, Generic, TypeVar
from urllib.parse import urlencode

from msgspec import Struct

from moorage.api.kinds import Kind
from moorage.api.meta import KubeObject
from moorage.client.objects import Decoding
from moorage.errors import ApiError, Gone

T = TypeVar("T", bound=KubeObject)

PAGE_SIZE: Final = 500
LONGEST_HEAD: Final = 4096
_CONTINUE: Final = re.compile(rb'"continue":"([^"\\]+)"')
SHORTEST_WATCH: Final = 300
LONGEST_WATCH: Final = 600
UNFINISHED_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that have ended hold nothing: the server is asked to leave them out, and tells of their end as a deletion."""


class Change(Struct, Generic[T], frozen=True):
    """A difference: ``before`` is ``None`` for an object that is new, ``after`` for one that is gone.

    ``is_final`` is False if an object was found missing in a list, so that ``before`` may not be how it was last.
    """

    before: T | None
    after: T | None
    is_final: bool = True


class NextRequest(Struct, frozen=True):
    """What to ask the server next."""

    path: str
    is_watch: bool


class ListWatch(Generic[T]):
    """All objects of one resource, kept up with the server; see the module for its states."""

    def __init__(
        self,
        kind: Kind,
        decoding: Decoding[T],
        *,
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        chance: Random | None = None,
    ) -> None:
        self.kind = kind
        self.is_synced = False
        self._decoding = decoding
        self._path = kind.path()
        self._selector = {"fieldSelector": field_selector} if field_selector else {}
        self._page_size = page_size
        self._chance = chance or Random()
        self._known: dict[str, T] = {}
        self._listed: set[str] = set()
        self._continue = ""
        self._version = ""
        self._rest = b""

    @property
    def known(self) -> Mapping[str, T]:
        """Every object as last told, by key."""
        return self._known

    @property
    def version(self) -> str:
        """The version from which the watch goes on; empty while a list is due."""
        return self._version

    def next_request(self) -> NextRequest:
        """Return what to send: the next page, or a watch from where we are."""
        if self._version:
            self._rest = b""
            query = {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": self._version,
                # Spread out, so that not all watches of all clients end at once.
                "timeoutSeconds": str(self._chance.randint(SHORTEST_WATCH, LONGEST_WATCH)),
            }
            return NextRequest(f"{self._path}?{urlencode(query | self._selector)}", True)
        return self._page_request(self._continue)

    def following(self, body: bytes) -> NextRequest | None:
        """Find in a page that was not taken in yet what to ask for next; ``None`` if it is not seen at a glance.

        With this the server makes the next page while we take in the last. It writes what stands here before the items.
        """
        head = body[: max(0, body.find(b'"items":', 0, LONGEST_HEAD))]
        found = _CONTINUE.search(head)
        return None if found is None else self._page_request(found[1].decode())

    def _page_request(self, token: str) -> NextRequest:
        query = {"limit": str(self._page_size)} | ({"continue": token} if token else {})
        return NextRequest(f"{self._path}?{urlencode(query | self._selector)}", False)

    def page(self, body: bytes) -> list[Change[T]]:
        """Take in a page of a list and return what is different from what is known."""
        meta, things, malformed = self._decoding.page(body)
        # What we knew of an object before it became malformed is better than nothing.
        self._listed.update(malformed)
        changes: list[Change[T]] = []
        for thing in things:
            self._listed.add(thing.key)
            changes += self._differences(thing)
        self._continue = meta.continue_
        if not meta.continue_:
            if not meta.resource_version:
                raise ApiError(f"the list of {self.kind.plural} has no resourceVersion to watch from")
            changes += self._missing()
            self._listed = set()
            self._version = meta.resource_version
            self.is_synced = True
        return changes

    def chunk(self, data: bytes) -> list[Change[T]]:
        """Take in a piece of a watch and return the changes it completes; :class:`Gone` means: list again."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        changes: list[Change[T]] = []
        for line in lines:
            if line:
                changes += self._watched(*self._decoding.event(line))
        return changes

    def _watched(self, event: str, thing: T | str) -> Iterable[Change[T]]:
        if isinstance(thing, str):
            # As long as it exists, what we knew of an object before it became malformed is better than nothing.
            before = self._known.pop(thing, None) if event == "DELETED" else None
            return () if before is None else (Change(before, None, is_final=False),)
        self._version = thing.metadata.resource_version or self._version
        if event == "BOOKMARK":
            return ()
        if event == "DELETED":
            return (Change(thing, None),) if self._known.pop(thing.key, None) is not None else ()
        return self._differences(thing)

    def _differences(self, thing: T) -> Iterable[Change[T]]:
        key, meta = thing.key, thing.metadata
        before = self._known.get(key)
        if before is None:
            self._known[key] = thing
            return (Change(None, thing),)
        if before.metadata.resource_version == meta.resource_version:
            return ()
        self._known[key] = thing
        if before.metadata.uid != meta.uid:
            # Another object of the same name: we missed the end of the first.
            return Change(before, None, is_final=False), Change(None, thing)
        return (Change(before, thing),)

    def _missing(self) -> Iterator[Change[T]]:
        for key in [key for key in self._known if key not in self._listed]:
            yield Change(self._known.pop(key), None, is_final=False)

    def failed(self, error: ApiError) -> None:
        """Hear that a request failed: a version or page that the server forgot means listing from the start."""
        if isinstance(error, Gone):
            self._version = self._continue = ""
            self._listed = set()

    def forget(self, key: str) -> None:
        """Know nothing of an object, and list from the start: if it is there, it is told as new."""
        self._known.pop(key, None)
        self._version = self._continue = ""
        self._listed = set()

    def absent(self) -> None:
        """Hear that the server has no such resource: as long as it has not, there is nothing of it."""
        self.is_synced = True
