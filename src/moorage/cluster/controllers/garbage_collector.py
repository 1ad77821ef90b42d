"""Garbage collection: delete objects without owners, and finish foreground and orphan deletions of owners."""

from collections.abc import Container, Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Delete, RequeueAfter
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import owned_by, without_finalizer, without_owner
from moorage.common.clock import Clock
from moorage.kube.api.cluster import PodDisruptionBudget
from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject, OwnerReference, parse_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup, Workload
from moorage.kube.api.records import Lease
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.api.workloads import (
    ControllerRevision,
    CronJob,
    DaemonSet,
    Deployment,
    Job,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
)

_WORKLOADS: Final = (Deployment, ReplicaSet, ReplicationController, StatefulSet, DaemonSet, CronJob, Job)
OWNERS: Final = (*_WORKLOADS, Pod, Node)
DEPENDENTS: Final = (
    *_WORKLOADS,
    ControllerRevision,
    Pod,
    PodDisruptionBudget,
    PersistentVolumeClaim,
    ResourceClaim,
    Lease,
)
GROUPS: Final = (Workload, PodGroup, CompositePodGroup)
"""Kinds that are served and collected only if their gates are enabled."""
FOREGROUND: Final = "foregroundDeletion"
ORPHAN: Final = "orphan"
PATIENCE: Final = 2.0
"""Each kind has its own watch, so an owner may arrive after its dependents: young objects are not collected."""
_BY_NAME: Final = {(BY_TYPE[kind].group, BY_TYPE[kind].name): kind for kind in (*OWNERS, *GROUPS)}


class OwnerState(Enum):
    """The state of an owner."""

    THERE = auto()
    WAITING = auto()
    GONE = auto()


class GarbageCollector(BaseController):
    """Follows owner references. Keys are ``Kind/namespace/name``. ``more`` are kinds that not every cluster has.

    ``absent`` are UIDs of owners that files refer to but do not contain: they are treated as existing.
    """

    name = "garbage"

    def __init__(
        self, clock: Clock, more: Sequence[type[KubeObject]] = (), absent: Container[str] = frozenset()
    ) -> None:
        super().__init__(clock)
        self._absent = absent
        self._owners: tuple[type[KubeObject], ...] = (*OWNERS, *more)
        self.kinds = tuple(dict.fromkeys((*self._owners, *DEPENDENTS)))

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the keys of the object, if it has owners or finalizers, and of its dependents."""
        if obj.metadata.owner_references or obj.metadata.finalizers:
            yield _key(obj)
        if isinstance(obj, self._owners) and (obj.is_terminating or _is_gone(obj, cache)):
            yield from (_key(dependent) for dependent in find_dependents(obj.uid, cache))
        if obj.is_terminating or _is_gone(obj, cache):
            yield from (f"{owner.kind}/{_owner_key(owner, obj.namespace)}" for owner in obj.metadata.owner_references)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Delete an object without remaining owners. Finish the deletion of an owner after its dependents."""
        kind, _, object_key = key.partition("/")
        indexes = (cache[item] for item in self.kinds if BY_TYPE[item].name == kind)
        obj = next((candidate for index in indexes if (candidate := index.get(object_key)) is not None), None)
        if obj is None:
            return ()
        if obj.is_terminating:
            return self._settle(obj, list(find_dependents(obj.uid, cache)), cache)
        return self._collect(obj, cache)

    def _collect(self, obj: KubeObject, cache: InformerCache) -> Iterator[ControllerAction]:
        references = obj.metadata.owner_references
        owners = [self._find_state(owner, obj.namespace, cache) for owner in references]
        gone_owners = [state for state in owners if state is not OwnerState.THERE]
        if not gone_owners:
            return
        created = obj.metadata.creation_timestamp
        age = self._clock.now() - parse_time(created) if created else PATIENCE
        if OwnerState.WAITING not in gone_owners and age < PATIENCE:
            yield RequeueAfter(PATIENCE - age)
        elif OwnerState.THERE in owners:
            # One owner is sufficient. References to missing and waiting owners are removed.
            states = zip(references, owners, strict=True)
            yield owned_by(obj, [owner for owner, state in states if state is OwnerState.THERE])
        else:
            # A waiting owner must outlive all indirect dependents, so they are also deleted in the foreground.
            yield Delete(obj, propagation="Foreground" if OwnerState.WAITING in gone_owners else "Background")

    def _settle(
        self, owner: KubeObject, dependents: list[KubeObject], cache: InformerCache
    ) -> Iterator[ControllerAction]:
        """Orphan or delete the dependents of a terminating owner, then remove its finalizers."""
        if ORPHAN in owner.metadata.finalizers:
            # The owner is deleted last: dependents that still refer to it would be collected as garbage.
            yield from (without_owner(dependent, owner.uid) for dependent in dependents)
            if not dependents:
                yield without_finalizer(owner, ORPHAN)
        elif FOREGROUND in owner.metadata.finalizers:
            references = owner.metadata.owner_references
            is_blocking = any(item.block_owner_deletion is True for item in references)
            waiting_dependents = (
                item for item in dependents if item.is_terminating and FOREGROUND in item.metadata.finalizers
            )
            if is_blocking and any(waiting_dependents):
                # An object and a dependent may wait for each other, so blockOwnerDeletion is cleared.
                yield owned_by(
                    owner, [msgspec.structs.replace(item, block_owner_deletion=False) for item in references]
                )
            for item in dependents:
                states = [
                    self._find_state(reference, item.namespace, cache) for reference in item.metadata.owner_references
                ]
                if OwnerState.THERE in states:
                    yield without_owner(item, owner.uid)
                elif not item.is_terminating:
                    yield Delete(item, propagation="Foreground")
            own_references = (
                ref for item in dependents for ref in item.metadata.owner_references if ref.uid == owner.uid
            )
            if not any(reference.block_owner_deletion is True for reference in own_references):
                yield without_finalizer(owner, FOREGROUND)
            else:
                yield RequeueAfter(PATIENCE)

    def _find_state(self, owner: OwnerReference, namespace: str, cache: InformerCache) -> OwnerState:
        """Return the state of an owner. Owners of unwatched kinds are treated as existing."""
        kind = _find_kind(owner)
        if kind not in self._owners or owner.uid in self._absent:
            return OwnerState.THERE
        assert kind is not None
        owner_object = cache[kind].get(_owner_key(owner, namespace))
        if owner_object is None or owner_object.uid != owner.uid:
            return OwnerState.GONE
        is_waiting = owner_object.is_terminating and FOREGROUND in owner_object.metadata.finalizers
        return OwnerState.WAITING if is_waiting else OwnerState.THERE


def find_dependents(uid: str, cache: InformerCache) -> Iterator[KubeObject]:
    """Yield all objects that refer to an owner."""
    for kind in (*DEPENDENTS, *GROUPS):
        yield from cache[kind].owned_by(uid)


def _owner_key(owner: OwnerReference, namespace: str) -> str:
    """Return the key of an owner: in the namespace of its dependents, or cluster-scoped."""
    kind = _find_kind(owner)
    return owner.name if kind is not None and not BY_TYPE[kind].namespaced else f"{namespace}/{owner.name}"


def _find_kind(owner: OwnerReference) -> type[KubeObject] | None:
    """Return the struct of an owner. Other API groups may have kinds of the same name."""
    return _BY_NAME.get((owner.api_version.rpartition("/")[0], owner.kind))


def _is_gone(obj: KubeObject, cache: InformerCache) -> bool:
    current = cache[type(obj)].get(obj.key)
    return current is None or current.uid != obj.uid


def _key(obj: KubeObject) -> str:
    return f"{BY_TYPE[type(obj)].name}/{obj.key}"
