"""Listing and watching one resource, without I/O, and decoding events into structs.

::

            ┌────────────── page with "continue" ─────────────┐
            ▼                                                 │
        LISTING ── last page: the missing are gone ──> WATCHING ── the watch ends: resume ──┐
            ▲                                             │  ▲                              │
            └──── 410 Gone, or a bookmark we missed ──────┘  └──────────────────────────────┘

The driver sends :meth:`ListWatch.next_request`, feeds the response, and forwards the resulting changes. Known objects
are never dropped: a new list is compared with them, and only the differences are reported.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cached_property
from random import Random
from typing import Any, Final, Generic, TypeVar
from urllib.parse import urlencode

import msgspec
import structlog
from msgspec import Struct

from moorage.common.errors import ApiError, Gone, QuantityError, ServerError, describe_decode_error
from moorage.kube.api.codec import UNREADABLE, decode
from moorage.kube.api.custom import CustomObject
from moorage.kube.api.devices import ResourceClaim, ResourceSlice
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.originals import keep_original
from moorage.kube.api.pod import Pod
from moorage.kube.api.sharing import share_claim, share_node, share_pod, share_slice
from moorage.kube.client.api_errors import api_error, parse_status

T = TypeVar("T", bound=KubeObject)
Item = TypeVar("Item")

PAGE_SIZE: Final = 500
"""Number of objects in the first page, and in the first page after a failure."""
MAX_PAGE_SIZE: Final = 10_000
PAGE_BYTES: Final = 8 << 20
"""Target length of later pages. kube-apiserver scans all remaining objects for each page, so few pages are cheaper."""
MAX_HEAD: Final = 4096
_CONTINUE: Final = re.compile(rb'"continue":"([^"\\]+)"')
MIN_WATCH: Final = 300
MAX_WATCH: Final = 600
MAX_LINE: Final = 16 << 20
"""Bytes of an object in a watch. etcd stores at most 1.5 MiB by default."""
BAD_REQUEST: Final = 400
UNFINISHED_PODS: Final = "status.phase!=Succeeded,status.phase!=Failed"
"""Finished pods use no resources: a field selector excludes them, and the server reports their end as a deletion."""

log = structlog.get_logger(__name__)


class Change(Struct, Generic[T], frozen=True):
    """A difference: ``before`` is ``None`` for a new object, ``after`` for a deleted one.

    ``is_final`` is False if an object was found missing in a list: ``before`` may be outdated.
    """

    before: T | None
    after: T | None
    is_final: bool = True


class NextRequest(Struct, frozen=True):
    """The next request to the server."""

    path: str
    is_watch: bool


class ListWatch(Generic[T]):
    """All objects of a resource as on the server. The module describes the states."""

    def __init__(
        self,
        kind: Kind,
        decoding: "Decoding[T]",
        *,
        namespace: str = "",
        field_selector: str = "",
        page_size: int = PAGE_SIZE,
        chance: Random | None = None,
    ) -> None:
        self.kind = kind
        self.is_synced = False
        self._decoding = decoding
        self._namespace = namespace
        self._path = kind.path(namespace=namespace)
        self._selector = {"fieldSelector": field_selector} if field_selector else {}
        self._page_size = self._first_size = page_size
        self._chance = chance or Random()
        self._known: dict[str, T] = {}
        self._listed_keys: set[str] | None = None
        """Keys seen in a list that is compared with the known objects, or ``None`` in the first list."""
        self._continue = ""
        self._version = ""
        self._partial_line = b""

    @property
    def known(self) -> Mapping[str, T]:
        """Every object as last reported, by key."""
        return self._known

    @property
    def version(self) -> str:
        """The resource version of the watch; empty while a list is due."""
        return self._version

    @property
    def is_listing(self) -> bool:
        """Whether pages of a list are still missing."""
        return bool(self._continue)

    def use_version(self, version: Kind) -> None:
        """Send all further requests about another version of the kind."""
        self._path = version.path(namespace=self._namespace)

    def next_request(self) -> NextRequest:
        """Return the next request: the next page, or a watch from the current version."""
        if self._version:
            self._partial_line = b""
            query = {
                "watch": "true",
                "allowWatchBookmarks": "true",
                "resourceVersion": self._version,
                # Random: the watches of many clients must not end together.
                "timeoutSeconds": str(self._chance.randint(MIN_WATCH, MAX_WATCH)),
            }
            return NextRequest(f"{self._path}?{urlencode(query | self._selector)}", True)
        return self._page_request(self._continue)

    def following(self, body: bytes) -> NextRequest | None:
        """Find the next request in a page before it is decoded. Return ``None`` if it is not found quickly.

        So the server prepares the next page while this one is decoded. The server writes the metadata before the items.
        """
        head = body[: max(0, body.find(b'"items":', 0, MAX_HEAD))]
        match = _CONTINUE.search(head)
        if match is None:
            return None
        # Pages grow to the target length, at most by a factor of two each.
        fitting = self._page_size * PAGE_BYTES // max(1, len(body))
        self._page_size = max(self._first_size, min(fitting, 2 * self._page_size, MAX_PAGE_SIZE))
        return self._page_request(match[1].decode())

    def _page_request(self, token: str) -> NextRequest:
        query = {"limit": str(self._page_size)} | ({"continue": token} if token else {})
        return NextRequest(f"{self._path}?{urlencode(query | self._selector)}", False)

    def page(self, body: bytes) -> list[Change[T]]:
        """Process a page of a list and return the differences from the known objects."""
        meta, objects, malformed = self._decoding.page(body)
        if not meta.continue_ and not meta.resource_version:
            raise ApiError(f"the list of {self.kind.plural} has no resourceVersion to watch from")
        if self._listed_keys is not None:
            # The last valid version of an object is better than none.
            self._listed_keys.update(malformed)
            self._listed_keys.update([obj.key for obj in objects])
        changes: list[Change[T]] = []
        for obj in objects:
            changes += self._differences(obj)
        self._continue = meta.continue_
        if not meta.continue_:
            changes += self._missing()
            self._listed_keys = set()
            self._version = meta.resource_version
            self.is_synced = True
        return changes

    def chunk(self, data: bytes) -> list[Change[T]]:
        """Process a piece of a watch and return the completed changes. :class:`Gone` requires a new list."""
        # A chunk may end inside a line. The next chunk completes the line.
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        if len(self._partial_line) > MAX_LINE:
            self._partial_line = b""
            raise ServerError(f"a line of the watch is longer than {MAX_LINE >> 20} MiB")
        changes: list[Change[T]] = []
        for line in lines:
            if line:
                changes += self._watched(*self._decoding.event(line))
        return changes

    def _watched(self, event: str, obj: T | str) -> Iterable[Change[T]]:
        if isinstance(obj, str):
            # The last valid version of an object is better than none, as long as the object exists.
            before = self._known.pop(obj, None) if event == "DELETED" else None
            return () if before is None else (Change(before, None, is_final=False),)
        self._version = obj.metadata.resource_version or self._version
        if event == "BOOKMARK":
            return ()
        if event == "DELETED":
            return (Change(obj, None),) if self._known.pop(obj.key, None) is not None else ()
        return self._differences(obj)

    def _differences(self, obj: T) -> Iterable[Change[T]]:
        key, meta = obj.key, obj.metadata
        before = self._known.get(key)
        if before is None:
            self._known[key] = obj
            return (Change(None, obj),)
        # A new list repeats objects that have not changed: they must not wake pods.
        if before.metadata.resource_version == meta.resource_version:
            return ()
        self._known[key] = obj
        if before.metadata.uid != meta.uid:
            # Another object of the same name: we missed the end of the first.
            return Change(before, None, is_final=False), Change(None, obj)
        return (Change(before, obj),)

    def _missing(self) -> Iterator[Change[T]]:
        listed_keys = self._listed_keys
        for key in [] if listed_keys is None else [key for key in self._known if key not in listed_keys]:
            yield Change(self._known.pop(key), None, is_final=False)

    def failed(self, error: ApiError, *, is_withdrawn: bool = False) -> None:
        """Record a failed request; after an expired version or page, list from the start.

        ``is_withdrawn`` means that the server may serve another version of the kind instead.
        """
        self._page_size = self._first_size
        # A server that does not understand the version or the page rejects the request with 400.
        if isinstance(error, Gone) or error.status == BAD_REQUEST or is_withdrawn:
            self._version = self._continue = ""
            self._listed_keys = set()

    def forget(self, key: str) -> None:
        """Forget an object and list from the start: if the object exists, it is reported as new."""
        self._known.pop(key, None)
        self._version = self._continue = ""
        self._listed_keys = set()

    def absent(self) -> None:
        """Record that the server does not serve the resource: no objects exist."""
        self.is_synced = True


class ListMeta(Struct, frozen=True, rename="camel", gc=False):
    """The position in a list: its version and the next page."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(Struct, Generic[Item], frozen=True):
    """One page of a list. ``msgspec.Raw`` leaves its items undecoded."""

    metadata: ListMeta = ListMeta()
    items: list[Item] | None = None


class WatchEvent(Struct, Generic[T], frozen=True):
    """One line of a watch."""

    type: str
    object: T


class RawEvent(Struct, frozen=True):
    """The same line with its object undecoded."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


class Identity(Struct, frozen=True):
    """The part of an object that identifies it in a message."""

    metadata: dict[str, Any] = {}


MAX_EMPTY: Final = 256
"""A shorter page contains at most one object, which needs no decoder for pages."""
MALFORMED: Final = (*UNREADABLE, QuantityError)


def _verify_pod(pod: Pod) -> None:
    _ = pod.shape
    share_pod(pod)


_VERIFIERS: Final[Mapping[type[KubeObject], Callable[[Any], object]]] = {
    Pod: _verify_pod,
    Node: share_node,
    ResourceClaim: share_claim,
    ResourceSlice: share_slice,
}
"""These compute derived values that are needed anyway, and fail for invalid quantities."""


class Decoding(Generic[T]):
    """Decodes pages and watch lines of the same kind.

    The fast path decodes a page in one call. If it fails, each object is decoded separately: a malformed one is
    skipped, logged, and reported to ``on_malformed``. Objects for which ``keeps`` is true also keep their text, which
    requires the slow path.
    """

    def __init__(
        self,
        kind: type[T],
        on_malformed: Callable[[str], None] = lambda _resource: None,
        keeps: Callable[[T], bool] | None = None,
    ) -> None:
        self.kind = kind
        self._on_malformed = on_malformed
        self._keeps = keeps
        self._verify = _VERIFIERS.get(kind, lambda _obj: None)
        self._one_by_one = issubclass(kind, CustomObject) or keeps is not None

    # Created on demand: in most clusters, most of the followed kinds have no objects.
    @cached_property
    def _page(self) -> "msgspec.json.Decoder[Any]":
        return msgspec.json.Decoder(Page[self.kind])  # type: ignore[name-defined]

    @cached_property
    def _event(self) -> "msgspec.json.Decoder[Any]":
        return msgspec.json.Decoder(WatchEvent[self.kind])  # type: ignore[name-defined]

    def page(self, body: bytes) -> tuple[ListMeta, list[T], list[str]]:
        """Decode a page: position, objects and keys of malformed objects. Raise ApiError if it is not a list."""
        if not self._one_by_one and len(body) > MAX_EMPTY:
            try:
                page = self._page.decode(body)
                for item in page.items or ():
                    self._verify(item)
            except MALFORMED:
                pass
            else:
                return page.metadata, page.items or [], []
        try:
            raw = msgspec.json.decode(body, type=Page[msgspec.Raw])
        except UNREADABLE as error:
            raise ApiError(f"invalid list of {self.kind.__name__}: {error}") from error
        objects: list[T] = []
        malformed: list[str] = []
        for item in raw.items or ():
            obj = self._object(item)
            if obj is None:
                malformed.append(_read_name(item))
            else:
                objects.append(obj)
        return raw.metadata, objects, malformed

    def event(self, line: bytes) -> tuple[str, T | str]:
        """Decode a line of a watch: its type and object, or the key of one that is malformed.

        An error that the server reports is raised.
        """
        if not self._one_by_one:
            try:
                event = self._event.decode(line)
                self._verify(event.object)
            except MALFORMED:
                pass
            else:
                if event.type != "ERROR":
                    return event.type, event.object
        try:
            raw = msgspec.json.decode(line, type=RawEvent)
        except UNREADABLE as error:
            raise ApiError(f"invalid data in the {self.kind.__name__} watch stream: {error}") from error
        if raw.type == "ERROR":
            body = bytes(raw.object)
            raise api_error(parse_status(body).code or 500, body)
        return raw.type, self._object(raw.object) or _read_name(raw.object)

    def _object(self, body: msgspec.Raw) -> T | None:
        try:
            obj = decode(self.kind, bytes(body))
            self._verify(obj)
            if self._keeps is not None and self._keeps(obj):
                keep_original(obj, body)
        except MALFORMED as error:
            log.warning(
                "malformed object skipped",
                kind=self.kind.__name__,
                object=_read_name(body),
                reason=describe_decode_error(error),
            )
            self._on_malformed(self.kind.__name__)
            return None
        return obj


def _read_name(body: msgspec.Raw) -> str:
    try:
        meta = msgspec.json.decode(body, type=Identity).metadata
    except UNREADABLE:
        return "without a name"
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}".lstrip("/")
