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
from moorage.kube.api.codec import UNREADABLE
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import bad_request, expired, version_too_large

MAX_OPEN_LISTS: Final = 64
"""The number of open paginated lists; the least recently used list expires first."""


@dataclass(frozen=True, slots=True)
class ListPage:
    """A page of a list; ``token`` is the continue token of the next page."""

    entries: list[Entry]
    version: int
    token: str = ""
    remaining: int = 0


class ContinueToken(msgspec.Struct, frozen=True):
    """The start of the next page."""

    list: int
    start: int
    resource: str


class Lists:
    """Lists objects, and stores the rest of lists that are read in pages."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._open: OrderedDict[int, ListPage] = OrderedDict()
        self._numbers = count(1)

    def answer(self, request: ApiRequest, target: Target) -> ListPage:
        """Return all objects that a request selects, or the next page; 410 if the rest of the list has expired."""
        selected = selection(target.resource, request.query)
        version, limit = request.number("resourceVersion"), request.number("limit")
        if version is not None and version > self._store.version:
            raise version_too_large(version, self._store.version)
        if token := request.query.get("continue", ""):
            return self._next_page(target.resource, token, limit)
        whole_list = self.select(target, selected)
        if not limit or len(whole_list.entries) <= limit:
            return whole_list
        number = next(self._numbers)
        self._open[number] = whole_list
        while len(self._open) > MAX_OPEN_LISTS:
            self._open.popitem(last=False)
        return self._cut(target.resource, number, 0, limit)

    def select(self, target: Target, selected: Selection) -> ListPage:
        """Return all objects that match selectors."""
        entries = list(self._store.sorted(target.resource.storage, target.namespace))
        if not selected.is_everything:
            entries = [entry for entry in entries if selected.matches(target.resource, entry)]
        return ListPage(entries, self._store.version)

    def _next_page(self, resource: ServedResource, text: str, limit: int | None) -> ListPage:
        try:
            token = msgspec.json.decode(base64.urlsafe_b64decode(text), type=ContinueToken)
        except (binascii.Error, ValueError, *UNREADABLE) as error:
            raise bad_request(f"continue key is not valid: {error}") from error
        if token.list not in self._open or token.resource != resource.storage or token.start < 0:
            raise expired(
                "The provided continue parameter is too old to display a consistent list result. You can start a new "
                "list without the continue parameter."
            )
        self._open.move_to_end(token.list)
        return self._cut(resource, token.list, token.start, limit or 1_000_000)

    def _cut(self, resource: ServedResource, number: int, start: int, limit: int) -> ListPage:
        snapshot = self._open[number]
        entries = snapshot.entries[start : start + limit]
        remaining = len(snapshot.entries) - start - len(entries)
        if remaining <= 0:
            return ListPage(entries, snapshot.version)
        token = msgspec.json.encode(ContinueToken(number, start + len(entries), resource.storage))
        return ListPage(entries, snapshot.version, base64.urlsafe_b64encode(token).decode(), remaining)
