"""Groups in the queue: their members are one entity, which is popped, scheduled and requeued as a unit.

A member is *incomplete* if its group (or a group above it) does not exist yet; a member that arrives during an attempt
of its group is *pending* until the attempt ends. Neither is requeued by events.
"""

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import TYPE_CHECKING, Final

from moorage.common.clock import Clock
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.scheduler.framework.events import ClusterEvent, Resource
from moorage.scheduler.framework.groups import Group
from moorage.scheduler.framework.status import Code
from moorage.scheduler.queue.entities import QueuedEntity, QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.hints import RequeueStrategy
from moorage.scheduler.queue.observer import INCOMPLETE, PENDING, UNSCHEDULABLE
from moorage.scheduler.state.pod_groups import ENTITY, PodGroups, group_key

if TYPE_CHECKING:
    from moorage.scheduler.queue.scheduling_queue import SchedulingQueue

ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"


def is_member(pod: Pod) -> bool:
    """Return whether a pod is queued as a member of a group. A pod with a node (a resize) is queued alone."""
    return pod.spec.scheduling_group is not None and not pod.spec.node_name and group_key(pod) is not None


class GroupQueue:
    """The groups of a queue, and the members without a queued group."""

    def __init__(self, groups: PodGroups, queue: "SchedulingQueue", clock: Clock) -> None:
        self._groups = groups
        self._clock = clock
        self._queue = queue
        self._entities: dict[str, QueuedPodGroupInfo] = {}
        self._entity_by_member: dict[str, QueuedPodGroupInfo] = {}
        self._attempted_key = ""
        self.incomplete: dict[str, QueuedPodInfo] = {}
        self.pending: dict[str, QueuedPodInfo] = {}

    @property
    def has_entities(self) -> bool:
        """Whether a group is queued."""
        return bool(self._entities)

    @property
    def surplus(self) -> int:
        """The number of pending pods minus the number of entities in the queue."""
        return len(self._entity_by_member) - len(self._entities) + len(self.incomplete) + len(self.pending)

    def members_without_entity(self) -> Iterator[QueuedPodInfo]:
        """Iterate over the incomplete and pending members."""
        return chain(self.incomplete.values(), self.pending.values())

    def find(self, key: str) -> QueuedPodInfo | None:
        """Return the member with this key."""
        if (entity := self._entity_by_member.get(key)) is not None:
            return next(member for member in entity.members if member.key == key)
        return self.incomplete.get(key) or self.pending.get(key)

    def where(self, key: str) -> str | None:
        """Return the key of a member's queued group, or ``incomplete`` or ``pending``."""
        if (entity := self._entity_by_member.get(key)) is not None:
            return entity.key
        if key in self.incomplete:
            return INCOMPLETE
        return PENDING if key in self.pending else None

    def find_entity_key(self, pod: Pod) -> str | None:
        """Return the key of the queued group of a pod's tree, whether or not the pod is a pending member."""
        root = self._groups.find_root(pod)
        return None if root is None or ENTITY + root.key not in self._entities else ENTITY + root.key

    # ── members ──────────────────────────────────────────────────────────────────────────────────────────

    def add(self, info: QueuedPodInfo, label: str) -> None:
        """Add a new member, or one after a failed attempt."""
        root = self._groups.find_root(info.pod)
        if root is None:
            self.incomplete[info.key] = info
            return
        key = ENTITY + root.key
        entity = self._entities.get(key)
        if entity is not None:
            queue = self._queue.find_queue(key)
            entity.insert(info)
            self._entity_by_member[info.key] = entity
            # An unschedulable group remains: the event of the added pod follows, and requeues it if that helps.
            if queue != UNSCHEDULABLE:
                self._queue.admit_member(entity, info, label, self._clock.now())
        elif key == self._attempted_key:
            self.pending[info.key] = info
        else:
            self._enter(QueuedPodGroupInfo(root, info))
            self._queue.move_to_active(self._entities[key], label, self._clock.now())

    def remove(self, key: str) -> None:
        """Remove a member, and its group if it was the last one."""
        # Called for every pod: it must cost nothing in clusters without groups.
        if not (self._entity_by_member or self.incomplete or self.pending):
            return
        info = self.incomplete.pop(key, None) or self.pending.pop(key, None)
        entity = self._entity_by_member.pop(key, None)
        if entity is not None:
            queue = self._queue.find_queue(entity.key)
            self._queue.remove_entity(entity.key)
            info = entity.remove(key)
            self._settle(entity, queue)
        if info is not None:
            self._queue.count_rejectors(info, -1)

    def _settle(self, entity: QueuedPodGroupInfo, queue: str | None) -> None:
        """Put a group back after members were removed, unless it is empty."""
        if entity.size:
            entity.pod = entity.members[0].pod
            self._queue.put_back(entity, queue, ATTEMPT_FAILED, self._clock.now())
        else:
            del self._entities[entity.key]

    def update(self, info: QueuedPodInfo, old: Pod, new: Pod, events: Iterable[ClusterEvent]) -> None:
        """Update a member, which may make its group schedulable."""
        for members in (self.incomplete, self.pending):
            if info.key in members:
                members[info.key] = info.with_pod(new)
                return
        entity = self._entity_by_member[info.key]
        entity.replace(info.with_pod(new))
        if self._queue.find_queue(entity.key) == UNSCHEDULABLE:
            self._queue.requeue_for_events(events, entity, old, new)

    # ── groups ───────────────────────────────────────────────────────────────────────────────────────────

    def group_added(self, group: Group) -> None:
        """Queue the members that were incomplete without this group."""
        leaves = set(self._groups.leaf_keys(group))
        for info in [info for info in self.incomplete.values() if group_key(info.pod) in leaves]:
            del self.incomplete[info.key]
            resource = Resource.POD_GROUP if isinstance(group, PodGroup) else Resource.COMPOSITE_POD_GROUP
            self.add(info, f"{resource}Add")

    def group_updated(self, group: Group) -> None:
        """Update a queued group."""
        entity = self._entities.get(ENTITY + group.key)
        if entity is not None and isinstance(entity.root, type(group)):
            entity.root, entity.priority = group, group.priority

    def group_deleted(self, group: Group) -> None:
        """Make the members of a group incomplete until the group is recreated."""
        leaves = self._groups.leaf_keys(group)
        for info in [info for info in self.pending.values() if group_key(info.pod) in leaves]:
            self.incomplete[info.key] = self.pending.pop(info.key)
        *_, top = self._groups.chain(group)
        entity = self._entities.get(ENTITY + top.key)
        if entity is None:
            return
        queue = self._queue.find_queue(entity.key)
        self._queue.remove_entity(entity.key)
        for leaf in leaves:
            for info in entity.take_leaf(leaf):
                del self._entity_by_member[info.key]
                self.incomplete[info.key] = info
        self._settle(entity, queue)

    # ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def popped(self, entity: QueuedPodGroupInfo) -> None:
        """Record that an attempt of a group started."""
        del self._entities[entity.key]
        for member in entity.members:
            del self._entity_by_member[member.key]
        self._attempted_key = entity.key

    def finish(self, attempted: QueuedPodGroupInfo, code: Code) -> None:
        """Queue the members that returned or arrived, after an attempt with this result (before preemption)."""
        now = self._clock.now()
        self._attempted_key = ""
        returning, self.pending = list(self.pending.values()), {}
        roots = {info.key: self._groups.find_root(info.pod) for info in returning}
        members = [info for info in returning if (root := roots[info.key]) and ENTITY + root.key == attempted.key]
        self.incomplete.update((info.key, info) for info in returning if info not in members)
        root = roots[members[0].key] if members else None
        if root is None:
            return
        entity = QueuedPodGroupInfo(root, members[0])
        for info in members[1:]:
            entity.insert(info)
        entity.attempts, entity.initial_attempt_timestamp = attempted.attempts, attempted.initial_attempt_timestamp
        entity.timestamp, entity.backoff_expiration = now, None
        if code is Code.SUCCESS:
            # The remaining members keep their position, so that preemption for them follows immediately.
            if {info.key for info in members}.intersection(member.key for member in attempted.members):
                entity.timestamp = attempted.timestamp
        elif code.is_rejection:
            entity.unschedulable_count = attempted.unschedulable_count + 1
        else:
            entity.unschedulable_count = attempted.unschedulable_count
            entity.consecutive_errors = attempted.consecutive_errors + 1
        self._enter(entity)
        self._queue.requeue(entity, RequeueStrategy.AFTER_BACKOFF, ATTEMPT_FAILED, now)

    def _enter(self, entity: QueuedPodGroupInfo) -> None:
        self._entities[entity.key] = entity
        for member in entity.members:
            self._entity_by_member[member.key] = entity

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def find_gated(self, plugins: Iterable[tuple[str, str]], about: object) -> list[QueuedEntity]:
        """Return the queued group that an event is about, if one of these plugins gates it."""
        if isinstance(about, Pod):
            root = self._groups.find_root(about)
        elif isinstance(about, PodGroup | CompositePodGroup):
            root = self._groups.find_group_root(about)
        else:
            root = None
        entity = None if root is None else self._entities.get(ENTITY + root.key)
        if entity is None or not entity.needs_own_event or self._queue.find_queue(entity.key) != UNSCHEDULABLE:
            return []
        return [entity] if any(plugin == entity.gating_plugin for _, plugin in plugins) else []

    def check_invariants(self) -> None:
        """Verify that every member is in one collection, and every group in the queue."""
        for key, entity in self._entities.items():
            assert entity.key == key, f"{entity.key} is stored under {key}"
            assert self._queue.find_queue(key) is not None, f"{key} is in no queue"
            assert entity.size, f"{key} has no members"
        queued = {member.key: entity for entity in self._entities.values() for member in entity.members}
        assert queued == self._entity_by_member, "members are stored with other groups"
        for members in (self.incomplete, self.pending):
            assert not members.keys() & queued.keys(), "a member is in two collections"
        assert self._attempted_key or not self.pending, "members are pending without an attempt"
