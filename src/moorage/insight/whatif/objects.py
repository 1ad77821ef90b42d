"""The objects of a cluster as manifests and as structs. Every change applies to both."""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from moorage.cluster import AdmissionCheck, ClusterInput, Creation
from moorage.common.errors import ApiError, InputError, did_you_mean
from moorage.insight.whatif.edits import Content, ObjectId, PatchObject
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.codec import without_nulls
from moorage.kube.api.kinds import BY_NAME, BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import Document
from moorage.kube.patches import json_patch

MAX_LISTED: Final = 5


class WrittenObjects:
    """Manifests, and the objects that an API server creates from them."""

    def __init__(self, documents: Iterable[Document], features: FeatureGates) -> None:
        document_list = list(documents)
        self._creation = Creation(features, runs_workloads=False)
        self.check = AdmissionCheck(features)
        """The API server's rules for single objects."""
        self.given: ClusterInput = self._creation.create(document_list)
        self._documents = {ObjectId.of(document.content): document for document in document_list}
        self._objects = {ObjectId(BY_TYPE[type(obj)].name, obj.namespace, obj.name): obj for obj in self.given.objects}
        self._by_kind: dict[str, dict[ObjectId, None]] = {}
        for target in self._objects:
            self._by_kind.setdefault(target.kind, {})[target] = None

    def __contains__(self, target: ObjectId) -> bool:
        return target in self._objects

    def contents(self) -> Iterable[Content]:
        """Return the current manifests."""
        return (document.content for document in self._documents.values())

    def content(self, target: ObjectId) -> dict[str, Any]:
        """Return the manifest of an object. A namespace without a manifest has only its name."""
        document = self._documents.get(target)
        if document is not None:
            return dict(document.content)
        head = target.as_data()
        return {"apiVersion": head["apiVersion"], "kind": target.kind, "metadata": {"name": target.name}}

    def find(self, target: ObjectId) -> KubeObject | None:
        """Return the stored object, or ``None``."""
        return self._objects.get(target)

    def all(self) -> list[KubeObject]:
        """Return all stored objects."""
        return list(self._objects.values())

    def known(self, kind: str) -> list[ObjectId]:
        """Return the names of all objects of a kind, in order of appearance."""
        return list(self._by_kind.get(kind, ()))

    def patched(self, patch: PatchObject) -> KubeObject:
        """Apply a patch to the manifest of an object. Return the new stored object."""
        before = self._objects.get(patch.target)
        if before is None:
            raise missing(patch.target, (item.key for item in self.known(patch.target.kind)))
        try:
            content = json_patch(self.content(patch.target), list(patch.operations))
        except ApiError as error:
            raise InputError(f"{patch.target.kind} {patch.target.key}", str(error)) from error
        if ObjectId.of(content) != patch.target:
            raise InputError(f"{patch.target.kind} {patch.target.key}", "a patch cannot change the kind or the name")
        return self._write(patch.target, content, before)

    def created(self, content: Content) -> KubeObject:
        """Add an object. Raise InputError if one of this name exists."""
        target = ObjectId.of(content)
        if target in self._objects:
            raise InputError(f"{target.kind} {target.key}", "an object of this name already exists")
        return self._write(target, dict(content), None)

    def deleted(self, target: ObjectId) -> None:
        """Delete an object."""
        if target not in self._objects:
            raise missing(target, (item.key for item in self.known(target.kind)))
        self.restore(target, (None, None))

    def _write(self, target: ObjectId, content: Content, like: KubeObject | None) -> KubeObject:
        document = Document(without_nulls(content), f"{target.kind} {target.key}")
        classes = [self._objects[class_id] for class_id in self._by_kind.get("PriorityClass", ())]
        obj = self._creation.create_one(document, like, [item for item in classes if isinstance(item, PriorityClass)])
        if obj is None:
            raise InputError(document.title, "objects of this kind do not affect scheduling")
        self.restore(target, (document, obj))
        return obj

    def remember(self, target: ObjectId) -> tuple[Document | None, KubeObject | None]:
        """Return the current state of an object for :meth:`restore`."""
        return self._documents.get(target), self._objects.get(target)

    def restore(self, target: ObjectId, state: tuple[Document | None, KubeObject | None]) -> None:
        """Set the state of an object to one that :meth:`remember` returned."""
        document, obj = state
        if document is None:
            self._documents.pop(target, None)
        else:
            self._documents[target] = document
        if obj is None:
            self._objects.pop(target, None)
            self._by_kind.get(target.kind, {}).pop(target, None)
        else:
            self._objects[target] = obj
            self._by_kind.setdefault(target.kind, {})[target] = None


def missing(target: ObjectId, keys: Iterable[str]) -> InputError:
    """Return an error for a missing object. The hint is the most similar name, or the namespaces with such objects."""
    names = list(keys)
    namesakes = [name for name in names if name.rpartition("/")[2] == target.name]
    if namesakes:
        hint = f"there is {namesakes[0]!r}"
    else:
        # Compare bare names: keys of a namespace are always similar.
        by_name = {name.rpartition("/")[2]: name for name in names}
        hint = did_you_mean(target.name, list(by_name))
        hint = next((hint.replace(repr(name), repr(key)) for name, key in by_name.items() if repr(name) in hint), "")
        hint = hint or _list_candidates(target, names)
    return InputError(f"{target.kind} {target.key}", "not found", hint=hint)


def _list_candidates(target: ObjectId, keys: Sequence[str]) -> str:
    """Return a hint that lists objects of a kind, or the namespaces that contain some."""
    plural = BY_NAME[target.kind].plural if target.kind in BY_NAME else f"objects of kind {target.kind}"
    names = [key.rpartition("/")[2] for key in keys if key.rpartition("/")[0] == target.namespace]
    namespaces = sorted({key.partition("/")[0] for key in keys if "/" in key})
    if names:
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        return f"the {plural} are {', '.join(names[:MAX_LISTED])}{more}"
    if namespaces:
        more = " and others" if len(namespaces) > MAX_LISTED else ""
        return f"the {plural} are in other namespaces: {', '.join(namespaces[:MAX_LISTED])}{more}"
    return f"there are no {plural}"
