"""Server-side apply: a field manager applies fields and owns them."""

from dataclasses import dataclass

import msgspec

from moorage.cluster.apiserver.writing.field_sets import Path, build_tree, list_paths, write_path
from moorage.cluster.apiserver.writing.field_types import FieldType
from moorage.cluster.apiserver.writing.field_values import (
    Changes,
    compare,
    field_set,
    merge,
    remove,
    with_named_fields,
)
from moorage.cluster.apiserver.writing.managed_fields import Writing, creation_entries, sort_entries
from moorage.common.clock import Clock
from moorage.common.errors import Conflict
from moorage.kube.api.codec import UNREADABLE, without_nulls
from moorage.kube.api.struct import Data

BEFORE_FIRST_APPLY = "before-first-apply"
KUBECTL = "kubectl"
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True, slots=True)
class ApplyRequest:
    """An apply request: the writer, its fields, and whether it takes fields from other managers."""

    writing: Writing
    desired: Data
    kind: FieldType
    force: bool
    clock: Clock

    def create(self) -> Data:
        """Return a new object with all its fields owned by the manager."""
        self.desired["metadata"].pop("managedFields", None)
        paths = self.writing.owned(field_set(self.desired, self.kind))
        if paths:
            self.desired["metadata"]["managedFields"] = [self.writing.entry(build_tree(paths), self.clock)]
        return self.desired

    def change(self, live: Data) -> Data:
        """Return an object with the manager's fields applied; 409 lists conflicts with fields of other managers."""
        entries = live["metadata"].pop("managedFields", None) or []
        if not entries:
            before = Writing(self.writing.resource, BEFORE_FIRST_APPLY)
            entries = creation_entries(before, live, self.kind, self.clock)
        own_entry = next((entry for entry in entries if self.writing.wrote(entry)), None)
        previous = set(list_paths(own_entry["fieldsV1"])) if own_entry is not None else set()
        foreign = [(entry, set(list_paths(entry["fieldsV1"]))) for entry in entries if entry is not own_entry]
        self.desired["metadata"].pop("managedFields", None)
        requested = set(field_set(self.desired, self.kind))
        fields = self.writing.owned(requested)
        merged_object = merge(live, self.desired, self.kind)
        # The request names the object, so its metadata is never removed.
        owned = requested.union(*(paths for _, paths in foreign))
        new: Data = self._prune(merged_object, previous, owned)
        # A map without its last key is null here, so its owners do not change.
        changes = compare(live, new, self.kind, Changes())
        if not self.writing.resource.is_custom:
            new = without_nulls(new)
        changed, removed_paths = (
            self.writing.owned(changes.added | changes.modified),
            self.writing.owned(changes.removed),
        )
        if not self.force:
            self._check_conflicts(live, [(entry, paths & changed) for entry, paths in foreign])
        foreign_entries = [
            {**entry, "fieldsV1": build_tree(remaining_paths)}
            for entry, paths in foreign
            if (remaining_paths := paths - changed - removed_paths)
        ]
        if fields == previous and own_entry is not None and new == live:
            own = [own_entry]
        else:
            own = [self.writing.entry(build_tree(fields), self.clock)] if fields else []
        annotations = new["metadata"].get("annotations") or {}
        if self.writing.manager == KUBECTL and LAST_APPLIED in annotations:
            new["metadata"] = {**new["metadata"], "annotations": {**annotations, LAST_APPLIED: self._last_applied()}}
        new["metadata"] = {**new["metadata"], "managedFields": sort_entries([*foreign_entries, *own])}
        return new

    def _prune(self, merged_object: Data, previous: set[Path], owned: set[Path]) -> Data:
        """Remove the fields that the manager applied before, does not apply now, and no other manager owns."""
        if not previous:
            return merged_object
        kind = self.kind
        previous_paths = with_named_fields(previous, kind)
        all_paths = with_named_fields(set(field_set(merged_object, kind)), kind)
        unapplied_paths = with_named_fields(set(field_set(remove(merged_object, previous_paths, kind), kind)), kind)
        # Items inside of a removed object are kept if another manager owns them.
        pruned = remove(merged_object, all_paths - unapplied_paths - with_named_fields(owned, kind), kind)
        pruned_paths = with_named_fields(set(field_set(pruned, kind)), kind)
        # Fields that the manager never applied, such as defaults, remain in objects that are not removed.
        result: Data = remove(merged_object, (all_paths - pruned_paths) & previous_paths, kind)
        return result

    def _check_conflicts(self, live: Data, conflicts: list[tuple[Data, set[Path]]]) -> None:
        unchanged = self._unchanged_since_last_applied(live) if self.writing.manager == KUBECTL else set()
        by_manager = [(_describe(entry), sorted(paths)) for entry, paths in conflicts if paths]
        if not any(path not in unchanged for _, paths in by_manager for path in paths):
            return
        causes = [
            {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": write_path(path)}
            for manager, paths in by_manager
            for path in paths
            if path not in unchanged
        ]
        text = f"{len(causes)} conflicts: " + "\n".join(
            "\n".join([f"conflicts with {manager}:", *(f"- {write_path(path)}" for path in paths)])
            for manager, paths in sorted(by_manager)
        )
        if len(causes) == 1:
            text = f"1 conflict: {causes[0]['message']}: {causes[0]['field']}"
        raise Conflict(f"Apply failed with {text}", status=409, reason="Conflict", details={"causes": causes})

    def _unchanged_since_last_applied(self, live: Data) -> set[Path]:
        """Return the unchanged fields of client-side apply: server-side kubectl may take them over."""
        try:
            last = msgspec.json.decode((live["metadata"].get("annotations") or {}).get(LAST_APPLIED, ""))
        except UNREADABLE:
            return set()
        if not isinstance(last, dict) or last.get("apiVersion") != live["apiVersion"]:
            return set()
        changes = compare(last, live, self.kind, Changes())
        return set(field_set(last, self.kind)) - changes.added - changes.modified - changes.removed

    def _last_applied(self) -> str:
        metadata = dict(self.desired["metadata"])
        if "annotations" in metadata:
            metadata["annotations"] = {
                name: text for name, text in metadata["annotations"].items() if name != LAST_APPLIED
            }
        return msgspec.json.encode({**self.desired, "metadata": metadata}, order="sorted").decode() + "\n"


def _describe(entry: Data) -> str:
    """Write a manager as the API does in its messages."""
    text = f'"{entry["manager"]}"'
    if entry.get("subresource"):
        text += f' with subresource "{entry["subresource"]}"'
    if entry["operation"] == "Apply":
        return text
    return f"{text} using {entry['apiVersion']}" + (f" at {entry['time']}" if entry.get("time") else "")
