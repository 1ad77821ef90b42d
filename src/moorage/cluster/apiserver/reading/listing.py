"""LIST requests: select objects by the query, and cut them into pages that all show the moment of the first page."""

import base64
import binascii
from collections import OrderedDict
from dataclasses import dataclass
from itertools import count
from typing import Final

import msgspec

from moorage.cluster.apiserver.reading.selection import Selection, selection
from moorage.cluster.apiserver.requests.request import ApiRequest, Target
from moorage.cluster.apiserver.storage.store import Entry, Store
from moorage.common.clock import Clock
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import bad_request, expired, version_too_large

MAX_OPEN_LISTS: Final = 64
"""The number of open paginated lists. The least recently used list expires first."""
EXPIRY_SECONDS: Final = 300.0
"""How long a list can be continued. kube-apiserver compacts etcd after this time."""
EXPIRED: Final = (
    "The provided continue parameter is too old to display a consistent list result. You can start a new list "
    "without the continue parameter, or use the continue token in this response to retrieve the remainder of the "
    "results. Continuing with the provided token results in an inconsistent list - objects that were created, "
    "modified, or deleted between the time the first chunk was returned and now may show up in the list."
)


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list. ``token`` is the continue token of the next page."""

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int = 0


@dataclass(frozen=True, slots=True)
class OpenList:
    """A list that is read in pages, and the time of its first page."""

    page: ListPage
    opened: float


class ContinueToken(msgspec.Struct, frozen=True):
    """The start of the next page. The list 0 is the current one, from the first key after ``last``."""

    list: int
    start: int
    resource: str
    last: str = ""

    def encode(self) -> str:
        """Return the text for clients."""
        return base64.urlsafe_b64encode(msgspec.json.encode(self)).decode()


class Lists:
    """Lists objects, and stores the rest of lists that are read in pages."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._open: OrderedDict[int, OpenList] = OrderedDict()
        self._numbers = count(1)

    def answer(self, request: ApiRequest, target: Target) -> ListPage:
        """Return all objects that a request selects, or the next page; 410 if the rest of the list has expired."""
        selected = selection(target.resource, request.query)
        version, limit = request.number("resourceVersion"), request.number("limit")
        if version is not None and version > self._store.version:
            raise version_too_large(version, self._store.version)
        last = ""
        if text := request.query.get("continue", ""):
            token = _decode(text, target.resource)
            if token.list:
                return self._next_page(target.resource, token, limit)
            last = token.last
        whole_list = self.select(target, selected)
        if last:
            entries = [entry for entry in whole_list.entries if entry.key > last]
            whole_list = ListPage(entries, whole_list.version)
        if not limit or len(whole_list.entries) <= limit:
            return whole_list
        number = next(self._numbers)
        self._open[number] = OpenList(whole_list, self._clock.now())
        while len(self._open) > MAX_OPEN_LISTS:
            self._open.popitem(last=False)
        return self._cut_page(target.resource, number, 0, limit)

    def select(self, target: Target, selected: Selection) -> ListPage:
        """Return all objects that match selectors."""
        entries = list(self._store.sorted(target.resource.storage, target.namespace))
        if not selected.is_everything:
            entries = [entry for entry in entries if selected.matches(target.resource, entry)]
        return ListPage(entries, self._store.version)

    def _next_page(self, resource: ServedResource, token: ContinueToken, limit: int | None) -> ListPage:
        opened = self._open.get(token.list)
        if opened is None or self._clock.now() - opened.opened > EXPIRY_SECONDS:
            self._open.pop(token.list, None)
            raise expired(EXPIRED, ContinueToken(0, 0, resource.storage, token.last).encode())
        self._open.move_to_end(token.list)
        return self._cut_page(resource, token.list, token.start, limit or 1_000_000)

    def _cut_page(self, resource: ServedResource, number: int, start: int, limit: int) -> ListPage:
        snapshot = self._open[number].page
        entries = snapshot.entries[start : start + limit]
        remaining_count = len(snapshot.entries) - start - len(entries)
        if remaining_count <= 0:
            return ListPage(entries, snapshot.version)
        last = entries[-1].key if entries else ""
        token = ContinueToken(number, start + len(entries), resource.storage, last)
        return ListPage(entries, snapshot.version, token.encode(), remaining_count)


def _decode(text: str, resource: ServedResource) -> ContinueToken:
    """Decode a continue token. Raise an error for texts that no list of the resource returned."""
    try:
        token = msgspec.json.decode(base64.urlsafe_b64decode(text), type=ContinueToken)
    except (binascii.Error, ValueError, *UNREADABLE) as error:
        raise bad_request(f"continue key is not valid: {error}") from error
    if token.resource != resource.storage or token.start < 0:
        raise bad_request("continue key is not valid: it belongs to another list")
    return token
