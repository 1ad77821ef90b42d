"""Changes of the cluster, applied to the cache, the listers and the queue.

The caller applies changes between cycles, each once, old versions as last applied. Pods that have ended are treated as
deleted, whether or not the source leaves them out. If the cache rejects a change, the error is logged and the queue
still receives the event, as upstream has it.
"""

from collections.abc import Callable, Collection, Iterable
from typing import Final

import structlog

from moorage.common.errors import CacheError
from moorage.kube.api import devices, storage
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.kinds import BUILT_IN, BY_TYPE, find_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.originals import pod_adapter
from moorage.kube.api.pod import FINISHED, Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.group_sources import GroupSources, regroup
from moorage.scheduler.engine.waiting import WaitingPods
from moorage.scheduler.framework.events import (
    ASSIGNED_POD_DELETE,
    EVERY_EVENT,
    Action,
    ClusterEvent,
    EventRegistration,
    Resource,
)
from moorage.scheduler.queue.changes import node_changes, pod_changes
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.objects import Objects

ASSIGNED_POD_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_RELABELED: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_LABEL)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD)
NODE_ADD: Final = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE: Final = ClusterEvent(Resource.NODE, Action.DELETE)

REMOVED: Final = "removed"
"""Reason for rejecting a pod that is deleted while it waits on permit."""

RESOURCES: Final[dict[type[KubeObject], str]] = {
    storage.PersistentVolume: Resource.PERSISTENT_VOLUME,
    storage.PersistentVolumeClaim: Resource.PERSISTENT_VOLUME_CLAIM,
    storage.StorageClass: Resource.STORAGE_CLASS,
    storage.CSINode: Resource.CSI_NODE,
    storage.CSIDriver: Resource.CSI_DRIVER,
    storage.CSIStorageCapacity: Resource.CSI_STORAGE_CAPACITY,
    storage.VolumeAttachment: Resource.VOLUME_ATTACHMENT,
    devices.ResourceClaim: Resource.RESOURCE_CLAIM,
    devices.ResourceSlice: Resource.RESOURCE_SLICE,
    devices.DeviceClass: Resource.DEVICE_CLASS,
    Namespace: Resource.NAMESPACE,
    PodGroup: Resource.POD_GROUP,
    CompositePodGroup: Resource.COMPOSITE_POD_GROUP,
}
"""Under which resource plugins register for the events of a kind. See :func:`event_resource` for all others."""

log = structlog.get_logger(__name__)


class EventHandlers:
    """Applies changes of the API to cache, listers and queue.

    ``profiles`` are our scheduler names. ``features`` selects the fields of pods that count. ``sources`` are the
    optional plugins that describe groups.
    """

    def __init__(
        self,
        *,
        cache: Cache,
        objects: Objects,
        queue: SchedulingQueue,
        profiles: Collection[str] = (),
        waiting: WaitingPods,
        features: FeatureGates | None = None,
        sources: GroupSources | None = None,
    ) -> None:
        self._cache = cache
        self._sources = sources
        self._objects = objects
        self._pods = objects[Pod]
        self._queue = queue
        self._profiles = frozenset(profiles)
        self._waiting = waiting
        self._groups = cache.groups
        self._adapt = pod_adapter(features) if features is not None else None
        gate = "InPlacePodVerticalScalingSchedulerPreemption"
        self._heeds_resizes = features is not None and features.enabled(gate)

    def serve(self, profiles: Collection[str], sources: GroupSources | None) -> None:
        """Replace the scheduler names of this scheduler, and the plugins that describe groups.

        Pods of removed names leave the queue and pods of new names enter it. Pods with another group under the new
        plugins move to the new group.
        """
        previous, self._profiles = self._profiles, frozenset(profiles)
        former_sources, self._sources = self._sources, sources
        regrouped = () if self._groups is None else regroup(former_sources, sources, self._pods.list())
        for pod, member in regrouped:
            if self._cache.is_assumed(pod):  # a pod that is being bound keeps the group it was placed with
                continue
            self.pod_deleted(pod)
            if sources is not None:
                sources.member_changed(member)
            self.pod_added(member)
            if sources is not None:
                sources.member_settled(member)
        if sources is not None:
            sources.describe_again()
        if changed_profiles := previous ^ self._profiles:
            for pod in [pod for pod in self._pods.list() if pod.scheduler_name in changed_profiles]:
                if pod.scheduler_name not in self._profiles:
                    self._queue.end_nomination(pod)
                    self._queue.delete(pod)
                    if self._groups is not None and not pod.node_name:
                        self._groups.drop_waiting(pod)
                elif self._queue.where(pod) is None and (
                    self._is_to_grow(pod) or not (pod.node_name or self._cache.is_assumed(pod))
                ):
                    self._enter_queue(pod)

    def _enter_queue(self, pod: Pod) -> None:
        if self._groups is None or pod.node_name:
            self._queue.add(pod)
        else:
            self._groups.add_waiting(pod)
            self._queue.add(pod)
            self._queue.move_all_to_active_or_backoff(UNSCHEDULED_POD_ADD, None, pod)

    def apply(self, before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        """React to a change of any object: ``before`` is ``None`` for a new one, ``after`` for a deleted one.

        ``is_final`` is False if a deletion was missed: ``before`` may be outdated.
        """
        kind = type(before if after is None else after)
        if kind is Pod:
            self._apply_pod(before, after, is_final)  # type: ignore[arg-type]
        elif kind is Node:
            self._apply_node(before, after)  # type: ignore[arg-type]
        else:
            self._apply_object(before, after)

    def _apply_pod(self, before: Pod | None, after: Pod | None, is_final: bool) -> None:
        if before is not None and before.status.phase in FINISHED and self._pods.find(before.key) is None:
            # It has been taken for deleted since it ended.
            before = None
        if after is not None and after.status.phase in FINISHED:
            before, after = before and after, None
        if self._adapt is not None:
            before, after = before and self._adapt(before), after and self._adapt(after)
        if (sources := self._sources) is not None and (newest := after or before) is not None:
            cached_pod = self._pods.find(newest.key)
            before, after = before and sources.adapt(before, cached_pod), after and sources.adapt(after, cached_pod)
            if after is not None:
                sources.member_changed(after)
        if after is not None:
            if before is None:
                self.pod_added(after)
            else:
                self.pod_updated(before, after)
            if sources is not None:
                sources.member_settled(after)
        elif before is not None:
            self.pod_deleted(before, is_final=is_final)
            if sources is not None:
                sources.member_gone(before)

    def _apply_node(self, before: Node | None, after: Node | None) -> None:
        nodes, move = self._objects[Node], self._queue.move_all_to_active_or_backoff
        if after is None:
            assert before is not None
            nodes.drop(before)
            move(NODE_DELETE, before, None)  # before the cache changes, as upstream has it
            try:
                self._cache.remove_node(before.name)
            except CacheError as refusal:
                log.warning("event rejected by the cache", node=before.name, reason=str(refusal))
        elif before is None:
            nodes.put(after)
            self._cache.add_node(after)
            move(NODE_ADD, None, after)
        else:
            nodes.put(after)
            self._cache.update_node(after)
            for event in node_changes(before, after):  # none for a heartbeat
                move(event, before, after)

    def _apply_object(self, before: KubeObject | None, after: KubeObject | None) -> None:
        obj = before if after is None else after
        assert obj is not None
        objects = self._objects[type(obj)]
        if after is None:
            objects.drop(obj)
        else:
            objects.put(obj)
        if self._groups is not None and isinstance(obj, PodGroup | CompositePodGroup):
            queued = self._queue.groups
            assert queued is not None, "groups need a queue that supports them"
            if after is None:
                self._groups.drop(obj)
                queued.group_deleted(obj)
            elif before is None or before.metadata.resource_version != obj.metadata.resource_version:
                self._groups.put(obj)
                (queued.group_added if before is None else queued.group_updated)(obj)
            else:
                return
        elif self._sources is not None:
            self._sources.object_changed(obj)
        action = Action.DELETE if after is None else Action.ADD if before is None else Action.UPDATE
        self._queue.move_all_to_active_or_backoff(ClusterEvent(event_resource(type(obj)), action), before, after)

    def pod_added(self, pod: Pod) -> None:
        """Queue a pod that needs a node from us, or count one that has a node."""
        self._pods.put(pod)
        if pod.node_name:
            if self._is_to_grow(pod):
                self._queue.add(pod)
            self._count(pod)
        elif pod.scheduler_name in self._profiles:
            self._enter_queue(pod)

    def pod_updated(self, old: Pod, new: Pod) -> None:
        """Follow a change of a pod: of one with a node, of one that got its node, or of one that waits."""
        self._pods.put(new)
        if old.spec.node_name:
            if self._heeds_resizes:
                # A running pod is queued while its resize is deferred because the node is full.
                was_to_grow, is_to_grow = self._is_to_grow(old), self._is_to_grow(new)
                if is_to_grow and was_to_grow:
                    self._queue.update(old, new)
                elif is_to_grow:
                    self._queue.add(new)
                elif was_to_grow:
                    self._queue.delete(old)
            self._try(self._cache.update_pod, new)
            for event in pod_changes(old, new):
                self._queue.move_all_to_active_or_backoff(event, old, new)
        elif new.spec.node_name:
            self._count(new)
            if self._groups is not None and old.spec.scheduling_group is not None:
                self._groups.drop_waiting(old)
            if old.scheduler_name in self._profiles:
                # It was bound, most likely by ourselves: the binder has announced what that set free.
                self._queue.delete(old)
        elif old.scheduler_name in self._profiles:
            self._waiting_pod_updated(old, new)

    def pod_deleted(self, pod: Pod, *, is_final: bool = True) -> None:
        """Forget a pod. ``is_final`` is False if its last version was missed: it may have got a node unseen."""
        self._pods.drop(pod)
        if self._is_to_grow(pod):
            self._queue.delete(pod)
        if pod.node_name or not is_final:
            if is_final or self._cache.pod(pod.uid) is not None:
                self._try(self._cache.remove_pod, pod)
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, pod, None)
        if not (pod.node_name and is_final) and (pod.scheduler_name in self._profiles or self._cache.is_assumed(pod)):
            if not pod.nominated_node_name:
                self._queue.end_nomination(pod)  # one that its status never knew of
            self._queue.delete(pod)
            if self._groups is not None and pod.spec.scheduling_group is not None:
                self._groups.drop_waiting(pod)
            if self._cache.is_assumed(pod):
                self._assumed_pod_deleted(pod)
            elif pod.nominated_node_name:
                self._nomination_ended(pod)

    def _is_to_grow(self, pod: Pod) -> bool:
        if not self._heeds_resizes:
            return False
        return bool(pod.node_name) and pod.has_deferred_resize and pod.scheduler_name in self._profiles

    def _count(self, pod: Pod) -> None:
        assumed = self._cache.pod(pod.metadata.uid)
        try:
            self._cache.add_pod(pod)
        except CacheError as refusal:
            _warn(pod, refusal)
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_ADD, None, pod)
        if assumed is not None and assumed.metadata.labels != pod.metadata.labels:
            # Wake the pods that depend on the labels of the assumed pod. Upstream ignores this case.
            self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_RELABELED, assumed, pod)

    def _waiting_pod_updated(self, old: Pod, new: Pod) -> None:
        # A repeated event must not queue a pod twice.
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        if self._groups is not None and new.spec.scheduling_group is not None:
            self._groups.add_waiting(new)
        if self._cache.is_assumed(new):
            if new.is_terminating and not old.is_terminating:
                self._assumed_pod_deleted(new)
            return
        self._queue.update(old, new)
        if old.nominated_node_name and old.nominated_node_name != new.nominated_node_name:
            self._nomination_ended(old)

    def _assumed_pod_deleted(self, pod: Pod) -> None:
        """Free the resources of an assumed pod. If it waits on permit, its own binding cycle does that."""
        assumed = self._cache.pod(pod.uid)
        if assumed is None:
            return
        if not self._waiting.reject_waiting(assumed.uid, REMOVED):
            self._try(self._cache.forget, assumed)
        self._queue.move_all_to_active_or_backoff(ASSIGNED_POD_DELETE, assumed, None)

    def _nomination_ended(self, pod: Pod) -> None:
        """Wake pods of the same or a lower priority that could not use the resources of a nominated pod."""
        self._queue.move_all_to_active_or_backoff(
            ASSIGNED_POD_DELETE, pod, None, lambda candidate: candidate.priority <= pod.priority
        )

    @staticmethod
    def _try(action: Callable[[Pod], None], pod: Pod) -> None:
        try:
            action(pod)
        except CacheError as refusal:
            _warn(pod, refusal)


def _warn(pod: Pod, refusal: CacheError) -> None:
    log.warning("event rejected by the cache", pod=pod.key, reason=str(refusal))


def find_event_resource(obj: KubeObject) -> str:
    """Name the resource of an object's events, as metrics do; kinds that no plugin registers for by their struct."""
    if isinstance(obj, Pod):
        return Resource.ASSIGNED_POD if obj.node_name else Resource.UNSCHEDULED_POD
    if isinstance(obj, Node):
        return Resource.NODE
    kind = type(obj)
    own = None if kind in BUILT_IN else BY_TYPE.get(kind)
    return RESOURCES.get(kind) or (kind.__name__ if own is None else own.event_resource)


def event_resource(kind: type[KubeObject]) -> str:
    """Return under which name plugins register for events of a kind other than pods and nodes."""
    return RESOURCES.get(kind) or find_kind(kind).event_resource


def events_of_listed(kinds: Iterable[type[KubeObject]]) -> list[EventRegistration]:
    """Return the events of the kinds that a plugin lists and is not registered for by default."""
    usual = {registration.event.resource for registration in EVERY_EVENT}
    resources = dict.fromkeys(event_resource(kind) for kind in kinds if kind not in (Pod, Node))
    return [EventRegistration(ClusterEvent(name, Action.ALL)) for name in resources if name not in usual]
