"""The objects of a cluster as manifests and as structs; every change applies to both."""

from collections.abc import Iterable
from typing import Any

from moorage.cluster import ClusterInput, Creation
from moorage.common.errors import ApiError, InputError, did_you_mean
from moorage.insight.whatif.edits import Content, ObjectId, PatchObject
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import Document
from moorage.kube.patches import json_patch


class WrittenObjects:
    """Documents and the objects that an API server would make of them."""

    def __init__(self, documents: Iterable[Document], features: FeatureGates) -> None:
        listed = list(documents)
        self._creation = Creation(features, runs_workloads=False)
        self.given: ClusterInput = self._creation.create(listed)
        self._documents = {ObjectId.of(document.content): document for document in listed}
        self._objects = {_id_of(thing): thing for thing in self.given.objects}
        self._by_kind: dict[str, dict[ObjectId, None]] = {}
        for found in self._objects:
            self._by_kind.setdefault(found.kind, {})[found] = None

    def __contains__(self, wanted: ObjectId) -> bool:
        return wanted in self._objects

    def contents(self) -> Iterable[Content]:
        """Return the current manifests."""
        return (document.content for document in self._documents.values())

    def content(self, wanted: ObjectId) -> dict[str, Any]:
        """Return the manifest of an object; a namespace without a manifest has only its name."""
        document = self._documents.get(wanted)
        if document is not None:
            return dict(document.content)
        head = wanted.as_data()
        return {"apiVersion": head["apiVersion"], "kind": wanted.kind, "metadata": {"name": wanted.name}}

    def find(self, wanted: ObjectId) -> KubeObject | None:
        """Return the stored object, or ``None``."""
        return self._objects.get(wanted)

    def known(self, kind: str) -> list[ObjectId]:
        """Return the names of all objects of a kind, in order of appearance."""
        return list(self._by_kind.get(kind, ()))

    def patched(self, patch: PatchObject) -> KubeObject:
        """Apply a patch to the manifest of an object; return the new stored object."""
        before = self._objects.get(patch.target)
        if before is None:
            raise missing(patch.target, (found.key for found in self.known(patch.target.kind)))
        try:
            content = json_patch(self.content(patch.target), list(patch.operations))
        except ApiError as error:
            raise InputError(f"{patch.target.kind} {patch.target.key}", str(error)) from error
        if ObjectId.of(content) != patch.target:
            raise InputError(f"{patch.target.kind} {patch.target.key}", "an object keeps its kind and its name")
        return self._write(patch.target, content, before)

    def created(self, content: Content) -> KubeObject:
        """Add an object; InputError if there is one of that name."""
        wanted = ObjectId.of(content)
        if wanted in self._objects:
            raise InputError(f"{wanted.kind} {wanted.key}", "there is an object of that name already")
        return self._write(wanted, dict(content), None)

    def deleted(self, wanted: ObjectId) -> KubeObject:
        """Delete an object and return it."""
        if wanted not in self._objects:
            raise missing(wanted, (found.key for found in self.known(wanted.kind)))
        thing = self._objects[wanted]
        self._keep(wanted, None, None)
        return thing

    def _write(self, wanted: ObjectId, content: Content, like: KubeObject | None) -> KubeObject:
        document = Document(content, f"{wanted.kind} {wanted.key}")
        classes = [self._objects[found] for found in self._by_kind.get("PriorityClass", ())]
        thing = self._creation.create_one(document, like, [item for item in classes if isinstance(item, PriorityClass)])
        if thing is None:
            raise InputError(document.title, "objects of this kind do not bear on scheduling")
        self._keep(wanted, document, thing)
        return thing

    def remember(self, wanted: ObjectId) -> "tuple[Document | None, KubeObject | None]":
        """Return the current state of an object for :meth:`restore`."""
        return self._documents.get(wanted), self._objects.get(wanted)

    def restore(self, wanted: ObjectId, was: "tuple[Document | None, KubeObject | None]") -> None:
        """Restore the state that :meth:`remember` returned."""
        self._keep(wanted, *was)

    def _keep(self, wanted: ObjectId, document: Document | None, thing: KubeObject | None) -> None:
        if document is None:
            self._documents.pop(wanted, None)
        else:
            self._documents[wanted] = document
        if thing is None:
            self._objects.pop(wanted, None)
            self._by_kind.get(wanted.kind, {}).pop(wanted, None)
        else:
            self._objects[wanted] = thing
            self._by_kind.setdefault(wanted.kind, {})[wanted] = None


def _id_of(thing: KubeObject) -> ObjectId:
    return ObjectId(BY_TYPE[type(thing)].name, thing.namespace, thing.name)


def missing(wanted: ObjectId, known: Iterable[str]) -> InputError:
    """Return an error for a missing object, with the most similar name as a hint."""
    names = list(known)
    same = [name for name in names if name.rpartition("/")[2] == wanted.name]
    hint = f"there is {same[0]!r}" if same else did_you_mean(wanted.key, names) or did_you_mean(wanted.name, names)
    return InputError(f"{wanted.kind} {wanted.key}", f"there is no such {wanted.kind.lower()}", hint=hint)
