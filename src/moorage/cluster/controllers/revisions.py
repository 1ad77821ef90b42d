"""Revisions: the previous templates of stateful and daemon sets, for `kubectl rollout`."""

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import adoptions, owner_reference, template_hash
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import AppsWorkload, ControllerRevision

REVISION_LABEL: Final = "controller-revision-hash"
"""Label of a pod with its template: the name of the revision for stateful sets, the hash for daemon sets."""


@dataclass(frozen=True)
class History:
    """One workload and its revisions."""

    owner: AppsWorkload
    revisions: list[ControllerRevision]

    @classmethod
    def of(cls, owner: AppsWorkload, cache: InformerCache) -> "History":
        """Collect the revisions of a workload, the oldest first."""
        owned = cache[ControllerRevision].owned_by(owner.uid)
        return cls(owner, sorted(owned, key=lambda item: (item.revision, item.name)))

    @cached_property
    def hash(self) -> str:
        """The hash of the current template."""
        return template_hash(self.owner.spec.template)

    @property
    def name(self) -> str:
        """The name of the current revision."""
        return f"{self.owner.name}-{self.hash}"

    def template(self, name: str) -> Data:
        """Return the template of a revision; the current template if the revision is unknown."""
        revision = next((item for item in self.revisions if item.name == name), None)
        recorded = ((revision.data.get("spec") or {}).get("template") or {}) if revision is not None else {}
        return {key: part for key, part in recorded.items() if key != "$patch"} or self.owner.spec.template

    def record(self, cache: InformerCache) -> list[ControllerAction]:
        """Record the current template as a revision. A restored one gets a new number."""
        if adopted := list(adoptions(self.owner, cache[ControllerRevision].list_orphans(self.owner.namespace))):
            return [*adopted]
        current = next((item for item in self.revisions if item.name == self.name), None)
        latest = max((item.revision for item in self.revisions), default=0)
        if current is None:
            return [self._create(latest + 1)]
        return [Patch(current, {"revision": latest + 1})] if current.revision < latest else []

    def _create(self, number: int) -> Create:
        template = self.owner.spec.template
        labels = (template.get("metadata") or {}).get("labels") or {}
        metadata = {
            "name": self.name,
            "namespace": self.owner.namespace,
            "labels": {**labels, REVISION_LABEL: self.hash},
            "annotations": dict(self.owner.annotations),
            "ownerReferences": [owner_reference(self.owner)],
        }
        # A patch that restores the template: kubectl sends it to undo a rollout.
        # Keys are sorted because clients compare the data byte by byte.
        data = msgspec.to_builtins({"spec": {"template": {**template, "$patch": "replace"}}}, order="sorted")
        return Create(ControllerRevision, {"metadata": metadata, "data": data, "revision": number})

    def forget(self, in_use: Collection[str]) -> Iterator[ControllerAction]:
        """Delete the oldest revisions beyond the limit without pods. ``in_use`` are names or hashes."""
        spare = [
            item
            for item in self.revisions
            if item.name != self.name and item.name not in in_use and item.labels.get(REVISION_LABEL) not in in_use
        ]
        surplus = len(spare) - self.owner.spec.revision_history_limit
        yield from (Delete(item) for item in spare[: max(0, surplus)])
