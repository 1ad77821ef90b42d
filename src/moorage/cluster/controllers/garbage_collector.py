"""Garbage: objects whose owners are gone go too; owners that wait for their dependents, or let them go, are heeded."""

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum, auto
from typing import Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Delete, Patch, RequeueAfter
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import reference_data, without_owner
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
"""Kinds that are served, and looked after, only if their gates are on."""
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


class GarbageCollector:
    """Follows owner references. Keys are ``Kind/namespace/name``. ``more`` are kinds that not every cluster has."""

    name = "garbage"
    pause = 0.0

    def __init__(self, clock: Clock, more: Sequence[type[KubeObject]] = ()) -> None:
        self._clock = clock
        self._owners: tuple[type[KubeObject], ...] = (*OWNERS, *more)
        self.kinds: Sequence[type[KubeObject]] = tuple(dict.fromkeys((*self._owners, *DEPENDENTS)))

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the keys of the object, if it has owners or finalizers, and of its dependents."""
        if obj.metadata.owner_references or obj.metadata.finalizers:
            yield _key(obj)
        if isinstance(obj, self._owners) and (obj.is_terminating or _is_gone(obj, cache)):
            yield from (_key(dependent) for dependent in find_dependents(obj.uid, cache))
        if obj.is_terminating or _is_gone(obj, cache):
            yield from (f"{owner.kind}/{_owner_key(owner, obj.namespace)}" for owner in obj.metadata.owner_references)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Delete an object without remaining owners; finish the deletion of an owner whose dependents are processed."""
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
        owners = [self._state_of(owner, obj.namespace, cache) for owner in references]
        gone_owners = [state for state in owners if state is not OwnerState.THERE]
        if not gone_owners:
            return
        created = obj.metadata.creation_timestamp
        age = self._clock.now() - parse_time(created) if created else PATIENCE
        if OwnerState.WAITING not in gone_owners and age < PATIENCE:
            yield RequeueAfter(PATIENCE - age)
        elif OwnerState.THERE in owners:
            # One owner is enough to stay; those that are gone, or wait for it to go, are named no more.
            states = zip(references, owners, strict=True)
            yield _owned_by(obj, [owner for owner, state in states if state is OwnerState.THERE])
        else:
            # An owner that waits stays until everything below it is gone, so nothing below it may be left to itself.
            yield Delete(obj, propagation="Foreground" if OwnerState.WAITING in gone_owners else "Background")

    def _settle(
        self, owner: KubeObject, dependents: list[KubeObject], cache: InformerCache
    ) -> Iterator[ControllerAction]:
        """Orphan or delete the dependents of a terminating owner, then remove its finalizers."""
        if ORPHAN in owner.metadata.finalizers:
            # The owner is deleted last: dependents that still refer to it would be collected as garbage.
            yield from (without_owner(dependent, owner.uid) for dependent in dependents)
            if not dependents:
                yield _without_finalizer(owner, ORPHAN)
        elif FOREGROUND in owner.metadata.finalizers:
            if _is_in_a_circle(owner, dependents):
                references = owner.metadata.owner_references
                yield _owned_by(
                    owner, [msgspec.structs.replace(item, block_owner_deletion=False) for item in references]
                )
            for item in dependents:
                states = [
                    self._state_of(reference, item.namespace, cache) for reference in item.metadata.owner_references
                ]
                if OwnerState.THERE in states:
                    yield without_owner(item, owner.uid)
                elif not item.is_terminating:
                    yield Delete(item, propagation="Foreground")
            if not any(_blocks(item, owner) for item in dependents):
                yield _without_finalizer(owner, FOREGROUND)
            else:
                yield RequeueAfter(PATIENCE)

    def _state_of(self, owner: OwnerReference, namespace: str, cache: InformerCache) -> OwnerState:
        """Return the state of an owner; owners of unwatched kinds count as existing."""
        kind = _kind_of(owner)
        if kind not in self._owners:
            return OwnerState.THERE
        assert kind is not None
        owner_object = cache[kind].get(_owner_key(owner, namespace))
        if owner_object is None or owner_object.uid != owner.uid:
            return OwnerState.GONE
        is_waiting = owner_object.is_terminating and FOREGROUND in owner_object.metadata.finalizers
        return OwnerState.WAITING if is_waiting else OwnerState.THERE


def find_dependents(uid: str, cache: InformerCache) -> Iterator[KubeObject]:
    """Go through everything that names an owner."""
    for kind in (*DEPENDENTS, *GROUPS):
        yield from cache[kind].owned_by(uid)


def _blocks(dependent: KubeObject, owner: KubeObject) -> bool:
    """Return whether an owner has to wait for a dependent."""
    references = dependent.metadata.owner_references
    return any(item.block_owner_deletion is True for item in references if item.uid == owner.uid)


def _is_in_a_circle(obj: KubeObject, dependents: list[KubeObject]) -> bool:
    """Return whether an object and one below it wait for each other, perhaps: then neither may block."""
    is_blocking = any(item.block_owner_deletion is True for item in obj.metadata.owner_references)
    return is_blocking and any(item.is_terminating and FOREGROUND in item.metadata.finalizers for item in dependents)


def _owned_by(obj: KubeObject, owners: Sequence[OwnerReference]) -> Patch:
    return Patch(obj, {"metadata": {"ownerReferences": [reference_data(item) for item in owners]}}, if_unchanged=True)


def _without_finalizer(obj: KubeObject, finalizer: str) -> Patch:
    finalizers = [name for name in obj.metadata.finalizers if name != finalizer]
    return Patch(obj, {"metadata": {"finalizers": finalizers}}, if_unchanged=True)


def _owner_key(owner: OwnerReference, namespace: str) -> str:
    """Return the key of an owner: in the namespace of its dependents, or cluster-scoped."""
    kind = _kind_of(owner)
    return owner.name if kind is not None and not BY_TYPE[kind].namespaced else f"{namespace}/{owner.name}"


def _kind_of(owner: OwnerReference) -> type[KubeObject] | None:
    """Return the struct of an owner; other API groups may have kinds of the same name."""
    return _BY_NAME.get((owner.api_version.rpartition("/")[0], owner.kind))


def _is_gone(obj: KubeObject, cache: InformerCache) -> bool:
    current = cache[type(obj)].get(obj.key)
    return current is None or current.uid != obj.uid


def _key(obj: KubeObject) -> str:
    return f"{BY_TYPE[type(obj)].name}/{obj.key}"
