"""Decoding what is listed and watched, straight into structs. What cannot be decoded is skipped, told and counted."""

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import Any, Final, Generic, TypeVar, cast

import msgspec
import structlog

from moorage.api.codec import UNREADABLE, decode
from moorage.api.custom import CustomObject, decode_custom
from moorage.api.meta import KubeObject
from moorage.api.node import Node, share_images
from moorage.api.originals import keep_original
from moorage.api.pod import Pod
from moorage.client.answers import StatusAnswer, api_error
from moorage.errors import ApiError, QuantityError

T = TypeVar("T", bound=KubeObject)

log = structlog.get_logger(__name__)


class ListMeta(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Where a list stands: its version, and where the next page begins."""

    resource_version: str = ""
    continue_: str = msgspec.field(default="", name="continue")


class Page(msgspec.Struct, Generic[T], frozen=True):
    """One page of a list."""

    metadata: ListMeta = ListMeta()
    items: list[T] | None = None


class RawPage(msgspec.Struct, frozen=True):
    """The same page, its items still undecoded."""

    metadata: ListMeta = ListMeta()
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, Generic[T], frozen=True):
    """One line of a watch."""

    type: str
    object: T


class RawEvent(msgspec.Struct, frozen=True):
    """The same line, its object still undecoded."""

    type: str = ""
    object: msgspec.Raw = msgspec.Raw(b"null")


class Identity(msgspec.Struct, frozen=True):
    """As much of an object as it takes to name it in a message."""

    metadata: dict[str, Any] = {}


MALFORMED: Final = (*UNREADABLE, QuantityError)


def _verify_node(node: Node) -> None:
    share_images(node)
    _ = node.allocatable


_VERIFIERS: Final[Mapping[type[KubeObject], Callable[[Any], object]]] = {
    Pod: attrgetter("shape"),
    Node: _verify_node,
}
"""Facts that are needed anyway and cannot be worked out for an object with a quantity that is none."""


def _takes_as_is(_thing: KubeObject) -> None:
    """Find nothing wrong with an object that could be decoded."""


class Decoding(Generic[T]):
    """Decodes pages and watch lines of one kind.

    The fast path decodes a whole page in one go. Only if that fails is each object looked at by itself, so one that is
    malformed costs the others nothing: it is left out, logged, and reported to ``on_malformed``. Objects of which
    ``keeps`` is true keep their text as well, which is found by the slow path only.
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
        self._verify = _VERIFIERS.get(kind, _takes_as_is)
        self._one_by_one = issubclass(kind, CustomObject) or keeps is not None
        self._page: msgspec.json.Decoder[Any] = msgspec.json.Decoder(Page[kind])  # type: ignore[valid-type]
        self._event: msgspec.json.Decoder[Any] = msgspec.json.Decoder(WatchEvent[kind])  # type: ignore[valid-type]

    def page(self, body: bytes) -> tuple[ListMeta, list[T], list[str]]:
        """Decode a page: where it stands, its objects, and the keys of those malformed. ApiError if it is no list."""
        if not self._one_by_one:
            try:
                page = self._page.decode(body)
                for item in page.items or ():
                    self._verify(item)
            except MALFORMED:
                pass
            else:
                return page.metadata, page.items or [], []
        try:
            raw = msgspec.json.decode(body, type=RawPage)
        except UNREADABLE as error:
            raise ApiError(f"what was listed as {self.kind.__name__} is not a list: {error}") from error
        things: list[T] = []
        malformed: list[str] = []
        for item in raw.items or ():
            thing = self._object(item)
            if thing is None:
                malformed.append(_named(item))
            else:
                things.append(thing)
        return raw.metadata, things, malformed

    def event(self, line: bytes) -> tuple[str, T | str]:
        """Decode a line of a watch: its type and object, or the key of one that is malformed.

        An error that the server tells is raised.
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
            raise ApiError(f"the watch on {self.kind.__name__} broke off in rubbish: {error}") from error
        if raw.type == "ERROR":
            raise _told(bytes(raw.object))
        return raw.type, self._object(raw.object) or _named(raw.object)

    def _object(self, body: msgspec.Raw) -> T | None:
        try:
            if issubclass(self.kind, CustomObject):
                return cast("T", decode_custom(self.kind, body))
            thing = decode(self.kind, bytes(body))
            self._verify(thing)
            if self._keeps is not None and self._keeps(thing):
                keep_original(thing, body)
        except MALFORMED as error:
            log.warning("malformed object skipped", kind=self.kind.__name__, object=_named(body), reason=str(error))
            self._on_malformed(self.kind.__name__)
            return None
        return thing


def _told(body: bytes) -> ApiError:
    try:
        code = msgspec.json.decode(body, type=StatusAnswer).code
    except UNREADABLE:
        code = 500
    return api_error(code or 500, body)


def _named(body: msgspec.Raw) -> str:
    try:
        meta = msgspec.json.decode(body, type=Identity).metadata
    except UNREADABLE:
        return "without a name"
    return f"{meta.get('namespace', '')}/{meta.get('name', '')}".lstrip("/")
