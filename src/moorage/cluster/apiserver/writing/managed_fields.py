"""managedFields: the owners of fields, for server-side apply.

The owners of an object are tracked from its creation. Objects that this program creates itself, such as the pods of a
Deployment, are an exception, because they are rarely applied: their first owner is ``before-first-apply``.
"""

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from moorage.cluster.apiserver.writing.field_sets import Path, Tree, build_tree, discard, insert
from moorage.cluster.apiserver.writing.field_types import FieldType
from moorage.cluster.apiserver.writing.field_values import Changes, MissingKey, compare
from moorage.common.caches import cached
from moorage.common.clock import Clock
from moorage.kube.admission.type_defaults import KEEPS_STATUS, OWN_STATUS
from moorage.kube.api.meta import format_time
from moorage.kube.api.struct import Data
from moorage.kube.resources import ServedResource
from moorage.kube.schema import Schema, find_kind_schema

OWN_COMPONENTS: Final = "moorage"
"""The manager that creates objects without owners."""
_UNOWNED_METADATA: Final = (
    *("name", "namespace", "creationTimestamp", "selfLink", "uid", "generation", "managedFields", "resourceVersion"),
)
UNOWNED: Final[frozenset[Path]] = frozenset(
    (
        *(("f:apiVersion",), ("f:kind",), ("f:metadata",)),
        *(("f:metadata", f"f:{name}") for name in _UNOWNED_METADATA),
    )
)
"""The fields that belong to the API server."""


class Writing(NamedTuple):
    """A write: the resource, the manager, and the subresource."""

    resource: ServedResource
    manager: str
    subresource: str = ""
    operation: str = "Update"

    def wrote(self, entry: Data) -> bool:
        """Return whether an entry is that of this manager, operation and subresource."""
        return (
            entry.get("manager") == self.manager
            and entry.get("operation") == self.operation
            and entry.get("subresource", "") == self.subresource
            and (self.operation == "Apply" or entry.get("apiVersion") == self.resource.api_version)
        )

    def owned(self, paths: Iterable[Path]) -> set[Path]:
        """Return the paths that this write can own: those of its subresource, or of the main resource."""
        resource = self.resource
        if self.subresource == "status":
            return {path for path in paths if path[0] == "f:status"}
        is_whole = not resource.has_status or resource.storage in KEEPS_STATUS or resource.storage == OWN_STATUS
        return {path for path in paths if path not in UNOWNED and (is_whole or path[0] != "f:status")}

    def entry(self, tree: Tree, clock: Clock) -> Data:
        """Return an entry of managedFields."""
        entry = {
            "manager": self.manager,
            "operation": self.operation,
            "apiVersion": self.resource.api_version,
            "time": format_time(clock.now()),
            "fieldsType": "FieldsV1",
            "fieldsV1": tree,
        }
        return {**entry, "subresource": self.subresource} if self.subresource else entry


def sort_entries(entries: list[Data]) -> list[Data]:
    """Return entries in the API's order."""
    keys = ("operation", "time", "manager", "apiVersion", "subresource")
    return sorted(entries, key=lambda entry: tuple(str(entry.get(key, "")) for key in keys))


def creation_entries(writing: Writing, data: Data, kind: FieldType, clock: Clock) -> list[Data]:
    """Return the owner of a new object with its defaults, before admission changes it.

    Objects with list items without a key have no owners.
    """
    try:
        changes = compare(empty_object(data["apiVersion"], data["kind"]), data, kind, Changes())
    except MissingKey:
        return []
    paths = writing.owned(changes.added | changes.modified)
    return [writing.entry(build_tree(paths), clock)] if paths else []


@cached(1024)
def empty_object(api_version: str, kind: str) -> Data:
    """Return a new object in Go: the structs and required fields that Go always encodes."""
    schema = find_kind_schema(api_version, kind)
    return _empty(schema) if schema is not None else {"metadata": {}}


def _empty(schema: Schema) -> Data:
    data: Data = dict(schema.zeros)
    for field in schema.by_name.values():
        is_struct = not field.shape and field.schema is not None
        if is_struct and field.schema is not None and (field.omit or field.required):
            data[field.name] = _empty(field.schema)
        elif field.required and not field.omit:
            data.setdefault(field.name, None)
    return data


def note_update(writing: Writing, old: Data, new: Data, kind: FieldType, clock: Clock) -> None:
    """Update the owners after an ordinary write: the writer owns the changed fields, if owners are tracked.

    A client can replace the owners, except with a subresource, and reset them with an empty entry.
    """
    entries = old["metadata"].pop("managedFields", None) or []
    requested = new["metadata"].pop("managedFields", None)
    if requested and requested != entries and not writing.subresource:
        entries = [] if requested == [{}] else requested
    if not entries:
        return
    try:
        changes = compare(old, new, kind, Changes())
    except MissingKey:
        changes = Changes()
    changed_paths = writing.owned(changes.added | changes.modified)
    removed_paths = writing.owned(changes.removed)
    remaining_entries: list[Data] = []
    own: Data | None = None
    for entry in entries:
        tree = entry.get("fieldsV1") or {}
        is_own = writing.wrote(entry)
        for path in removed_paths if is_own else changed_paths | removed_paths:
            discard(tree, path)
        if is_own:
            own = entry
        elif tree:
            remaining_entries.append({**entry, "fieldsV1": tree})
    if own is not None or changed_paths:
        remaining_entries += _own_entry(writing, own, changed_paths, clock)
    if remaining_entries:
        new["metadata"]["managedFields"] = sort_entries(remaining_entries)


def _own_entry(writing: Writing, entry: Data | None, changed_paths: set[Path], clock: Clock) -> list[Data]:
    tree: dict[str, Any] = (entry or {}).get("fieldsV1") or {}
    for path in changed_paths:
        insert(tree, path)
    if not tree:
        return []
    return [writing.entry(tree, clock)] if changed_paths or entry is None else [{**entry, "fieldsV1": tree}]
