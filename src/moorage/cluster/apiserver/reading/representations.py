"""Representations of objects: as stored, converted to another version, metadata only, or as a table."""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeAlias

import msgspec

from moorage.cluster.apiserver.conversions import from_stored
from moorage.cluster.apiserver.reading.tables.printing import Printer
from moorage.cluster.apiserver.storage.store import Entry, StoredChange
from moorage.kube.api.struct import Data
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import bad_request, not_acceptable

FillDefaults: TypeAlias = Callable[[Data, int], int]
"""Sets missing fields of an object, up to a number of bytes; returns the number of remaining bytes."""
MAX_DEFAULTS: Final = 3 << 20
PARTIAL: Final = "PartialObjectMetadata"
MANAGED_FIELDS: Final = "metadata.managedFields"
_encode: Final = msgspec.json.Encoder().encode


class Representation:
    """Returns objects as stored: their JSON is copied, never decoded."""

    def __init__(self, resource: ServedResource) -> None:
        self.resource = resource

    def encode_object(self, body: bytes) -> bytes:
        """Show one object."""
        return body

    def many(self, entries: Sequence[Entry], version: int, token: str, remaining_count: int) -> bytes:
        """Show a list, or one of its pages."""
        meta: Data = {"resourceVersion": str(version)}
        if token:
            meta |= {"continue": token, "remainingItemCount": remaining_count}
        kind, version_text = self._list_type()
        head = {"kind": kind, "apiVersion": version_text, "metadata": meta}
        items = b",".join([self.encode_object(entry.body) for entry in entries])
        return b"%b,%b[%b]}" % (_encode(head)[:-1], b'"items":', items)

    def _list_type(self) -> tuple[str, str]:
        return f"{self.resource.name}List", self.resource.api_version

    def event(self, kind: str, change: StoredChange) -> bytes:
        """Show a change as a line of a watch."""
        return change.line(kind)

    def added(self, entry: Entry) -> bytes:
        """Show an object that exists when a watch begins."""
        return b'{"type":"ADDED","object":%b}\n' % self.encode_object(entry.body)

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        """Return a BOOKMARK event with a version."""
        metadata: Data = {"resourceVersion": str(version), "creationTimestamp": None}
        if ends_initial_events:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = {"kind": self.resource.name, "apiVersion": self.resource.api_version, "metadata": metadata}
        if self.resource.storage == "pods":
            # Typed decoders expect the required list of containers, even in a bookmark.
            obj |= {"spec": {"containers": None}, "status": {}}
        return _encode({"type": "BOOKMARK", "object": obj}) + b"\n"


class ConvertedRepresentation(Representation):
    """Shows objects in another version than they are stored in."""

    def encode_object(self, body: bytes) -> bytes:
        """Show one object."""
        return _encode(self.convert(msgspec.json.decode(body)))

    def convert(self, data: Data) -> Data:
        """Convert stored data to the representation."""
        return from_stored(self.resource, data)

    def event(self, kind: str, change: StoredChange) -> bytes:
        """Show a change as a line of a watch."""
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), self.encode_object(change.body(kind)))


class DefaultedRepresentation(ConvertedRepresentation):
    """Adds the current defaults of a custom resource to objects that are older than these defaults."""

    def __init__(self, resource: ServedResource, fill: FillDefaults) -> None:
        super().__init__(resource)
        self._fill = fill
        self._budget = MAX_DEFAULTS

    def convert(self, data: Data) -> Data:
        """Convert stored data and set missing fields."""
        data = super().convert(data)
        self._budget = self._fill(data, self._budget)
        return data

    def event(self, kind: str, change: StoredChange) -> bytes:
        """Show a change as a line of a watch. The limit of defaults applies to each line, and to a list as a whole."""
        self._budget = MAX_DEFAULTS
        return super().event(kind, change)

    def added(self, entry: Entry) -> bytes:
        """Show an object that exists when a watch begins."""
        self._budget = MAX_DEFAULTS
        return super().added(entry)


class PartialRepresentation(ConvertedRepresentation):
    """Shows metadata only."""

    def convert(self, data: Data) -> Data:
        """Omit all fields except metadata."""
        return {"kind": PARTIAL, "apiVersion": "meta.k8s.io/v1", "metadata": data["metadata"]}

    def _list_type(self) -> tuple[str, str]:
        return f"{PARTIAL}List", "meta.k8s.io/v1"


class TableRepresentation(ConvertedRepresentation):
    """Shows what `kubectl get` prints."""

    def __init__(self, resource: ServedResource, printer: Printer, include: str) -> None:
        super().__init__(resource)
        self._printer = printer
        self._include = include
        self._has_columns = True

    def encode_object(self, body: bytes) -> bytes:
        """Show one object as a table of a row."""
        return _encode(self._table([msgspec.json.decode(body)], {}))

    def many(self, entries: Sequence[Entry], version: int, token: str, remaining_count: int) -> bytes:
        """Show a list, or one of its pages."""
        meta: Data = {"resourceVersion": str(version)}
        if token:
            meta |= {"continue": token, "remainingItemCount": remaining_count}
        return _encode(self._table((entry.data for entry in entries), meta))

    def _table(self, objects: Iterable[Data], meta: Data) -> Data:
        return self._printer.table(objects, meta, self._include)

    def event(self, kind: str, change: StoredChange) -> bytes:
        """Show a change as a line of a watch. The columns are sent once."""
        return self._line(kind, change.body(kind))

    def added(self, entry: Entry) -> bytes:
        """Show an object that exists when a watch begins."""
        return self._line("ADDED", entry.body)

    def _line(self, kind: str, body: bytes) -> bytes:
        table_data = self._table([msgspec.json.decode(body)], {})
        if not self._has_columns:
            table_data["columnDefinitions"] = []
        self._has_columns = False
        return _encode({"type": kind, "object": table_data}) + b"\n"

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        """Return a BOOKMARK event with a version."""
        table_data = self._table([], {"resourceVersion": str(version)})
        annotations = {"k8s.io/initial-events-end": "true"} if ends_initial_events else {}
        meta = {"resourceVersion": str(version), "annotations": annotations}
        row = {"cells": [], "object": {"kind": PARTIAL, "apiVersion": "meta.k8s.io/v1", "metadata": meta}}
        return _encode({"type": "BOOKMARK", "object": table_data | {"rows": [row]}}) + b"\n"


class RepresentationWithoutManagedFields(Representation):
    """Shows the objects of another representation without their managedFields."""

    def __init__(self, inner: Representation) -> None:
        super().__init__(inner.resource)
        self._inner = inner

    def encode_object(self, body: bytes) -> bytes:
        """Show one object."""
        return self._inner.encode_object(_trim(Entry("", 0, body)).body)

    def many(self, entries: Sequence[Entry], version: int, token: str, remaining_count: int) -> bytes:
        """Show a list, or one of its pages."""
        return self._inner.many([_trim(entry) for entry in entries], version, token, remaining_count)

    def event(self, kind: str, change: StoredChange) -> bytes:
        """Show a change as a line of a watch."""
        before, after = (None if entry is None else _trim(entry) for entry in (change.before, change.after))
        return self._inner.event(kind, StoredChange(change.version, before, after))

    def added(self, entry: Entry) -> bytes:
        """Show an object that exists when a watch begins."""
        return self._inner.added(_trim(entry))

    def bookmark(self, version: int, *, ends_initial_events: bool = False) -> bytes:
        """Return a BOOKMARK event with a version."""
        return self._inner.bookmark(version, ends_initial_events=ends_initial_events)


def _trim(entry: Entry) -> Entry:
    data = entry.data
    data["metadata"].pop("managedFields", None)
    return Entry(entry.key, entry.version, _encode(data))


def select_representation(
    resource: ServedResource,
    accept: str,
    printer: Printer,
    include: str,
    fill: FillDefaults | None = None,
    *,
    can_drop: bool = False,
) -> Representation:
    """Choose the representation from the Accept header, in its order of preference.

    ``fill`` sets the defaults of a custom resource. With ``can_drop``, the parameter `drop=metadata.managedFields` of a
    media type omits these fields. A media type that drops another field does not match.
    """
    has_unknown_drop = False
    for offer in accept.split(","):
        kind, _, parameters = offer.strip().partition(";")
        options = {name.strip(): value.strip() for name, _, value in (p.partition("=") for p in parameters.split(";"))}
        if kind.strip() not in ("application/json", "*/*", "application/*", ""):
            continue
        drop = options.get("drop", "") if can_drop else ""
        if drop not in ("", MANAGED_FIELDS):
            has_unknown_drop = True
            continue
        representation = _in_shape(resource, options.get("as", ""), printer, include, fill)
        if representation is not None:
            return RepresentationWithoutManagedFields(representation) if drop else representation
    if has_unknown_drop:
        raise not_acceptable()
    return _in_full(resource, fill)


def _in_shape(
    resource: ServedResource, shape: str, printer: Printer, include: str, fill: FillDefaults | None
) -> Representation | None:
    if shape == "Table":
        if include not in ("", "None", "Metadata", "Object"):
            raise bad_request(f"includeObject: {include!r} is unknown; write None, Metadata or Object")
        return TableRepresentation(resource, printer, include)
    if shape in (PARTIAL, f"{PARTIAL}List"):
        return PartialRepresentation(resource)
    return None if shape else _in_full(resource, fill)


def _in_full(resource: ServedResource, fill: FillDefaults | None) -> Representation:
    if fill is not None:
        return DefaultedRepresentation(resource, fill)
    return ConvertedRepresentation(resource) if resource.converts else Representation(resource)
