"""Changes to a cluster as data: patches, creations and deletions of manifests, or of a configuration.

A person can apply an edit with `kubectl patch --type=json`, `kubectl apply` or `kubectl delete`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

import msgspec

from moorage.common.errors import InputError
from moorage.kube.api.kinds import BY_NAME

DEFAULT_NAMESPACE: Final = "default"
Content: TypeAlias = Mapping[str, Any]
Operation: TypeAlias = dict[str, Any]
"""One operation of a JSON patch (RFC 6902)."""


class ObjectId(NamedTuple):
    """Identity of an object: kind, namespace (empty for cluster-scoped objects) and name."""

    kind: str
    namespace: str
    name: str

    @classmethod
    def of(cls, content: Content) -> "ObjectId":
        """Return the identity of a manifest; the namespace of namespaced objects defaults to ``default``."""
        kind, metadata = str(content.get("kind", "")), content.get("metadata") or {}
        if not isinstance(metadata, Mapping):
            raise InputError("metadata", "not an object")
        known_kind = BY_NAME.get(kind)
        namespace = str(metadata.get("namespace") or DEFAULT_NAMESPACE)
        return cls(
            kind, namespace if known_kind is None or known_kind.namespaced else "", str(metadata.get("name", ""))
        )

    @property
    def key(self) -> str:
        """Return ``namespace/name``, or the name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def as_data(self, api_version: str = "") -> dict[str, str]:
        """Return the identity as the head of an object."""
        known_kind = BY_NAME.get(self.kind)
        head = {"apiVersion": api_version or (known_kind.api_version if known_kind else ""), "kind": self.kind}
        return {**head, **({"namespace": self.namespace} if self.namespace else {}), "name": self.name}


class PatchObject(msgspec.Struct, frozen=True):
    """Operations on one object; ``must_replace`` if the API server permits the change only on a new object."""

    target: ObjectId
    operations: tuple[Operation, ...]
    must_replace: bool = False
    api_version: str = ""

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        apply = "replace" if self.must_replace else "patch"
        return {"object": self.target.as_data(self.api_version), "apply": apply, "patch": list(self.operations)}


class CreateObject(msgspec.Struct, frozen=True):
    """The creation of an object."""

    content: Content

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        return {"create": dict(self.content)}


class DeleteObject(msgspec.Struct, frozen=True):
    """The deletion of an object."""

    target: ObjectId

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        return {"delete": self.target.as_data()}


class EditConfig(msgspec.Struct, frozen=True):
    """Operations on the configuration, as `moorage config view` prints it."""

    operations: tuple[Operation, ...]

    def as_data(self) -> dict[str, Any]:
        """Return the documented format."""
        return {"config": list(self.operations)}


Edit: TypeAlias = PatchObject | CreateObject | DeleteObject | EditConfig


def pointer(*steps: str | int) -> str:
    """Write a path into an object as a JSON pointer.

    >>> pointer("metadata", "labels", "example.com/rack")
    '/metadata/labels/example.com~1rack'
    """
    return "".join(f"/{str(step).replace('~', '~0').replace('/', '~1')}" for step in steps)


def put(content: Content, path: Sequence[str | int], value: Any) -> Operation:
    """Write a value into an object, and create missing parents. An existing value is replaced."""
    parent: Any = content
    for depth, step in enumerate(path):
        is_last = depth == len(path) - 1
        if isinstance(parent, list):
            assert isinstance(step, int), "list items are selected by index"
            parent = parent[step]
            continue
        inner = parent.get(step) if isinstance(parent, Mapping) else None
        if inner is None or is_last:
            op = "replace" if is_last and isinstance(parent, Mapping) and step in parent else "add"
            for key in reversed(path[depth + 1 :]):
                value = {key: value}
            return {"op": op, "path": pointer(*path[: depth + 1]), "value": value}
        parent = inner
    return {"op": "replace", "path": pointer(*path), "value": value}


def append(content: Content, path: Sequence[str | int], item: Any) -> Operation:
    """Append an item to a list in an object. Create the list if it is missing."""
    parent: Any = content
    for step in path:
        parent = parent.get(step) if isinstance(parent, Mapping) else parent[step]
        if parent is None:
            return put(content, path, [item])
    return {"op": "add", "path": f"{pointer(*path)}/-", "value": item}


def remove(*path: str | int) -> Operation:
    """Remove a field or an item."""
    return {"op": "remove", "path": pointer(*path)}


def remove_items(path: Sequence[str | int], indexes: Iterable[int]) -> list[Operation]:
    """Remove items of a list, the last first, so that the remaining indexes are valid."""
    return [remove(*path, index) for index in sorted(set(indexes), reverse=True)]


def decode_edit(data: Any) -> Edit:
    """Decode an edit from JSON data. Raise InputError if it is invalid."""
    if isinstance(data, Mapping):
        if isinstance(data.get("create"), Mapping):
            return CreateObject(data["create"])
        if isinstance(data.get("delete"), Mapping):
            return DeleteObject(_target(data["delete"]))
        if isinstance(data.get("config"), list):
            return EditConfig(tuple(data["config"]))
        if isinstance(data.get("object"), Mapping) and isinstance(data.get("patch"), list):
            return PatchObject(_target(data["object"]), tuple(data["patch"]), data.get("apply") == "replace")
    hint = "use the fields object and patch, or create, or delete, as in the output of `moorage explain -o json`"
    raise InputError("edits", "invalid edit", hint=hint)


def _target(head: Mapping[str, Any]) -> ObjectId:
    return ObjectId.of({"kind": head.get("kind"), "metadata": head})
