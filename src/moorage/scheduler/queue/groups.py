"""Groups in the queue: their members wait together, as one entry that is popped, tried and returned as a whole.

A member whose group (or a group above it) has not been seen yet is *incomplete*; one that comes while its group is
being tried is *pending* until that is over. Neither takes part in any event.
"""

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, ClassVar, Final

from moorage.common.clock import Clock
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.scheduler.framework.events import ClusterEvent
from moorage.scheduler.framework.groups import Group
from moorage.scheduler.framework.status import Code
from moorage.scheduler.queue.entries import QueuedPodInfo
from moorage.scheduler.queue.hints import Hints, RequeueStrategy
from moorage.scheduler.queue.observing import INCOMPLETE, PENDING, UNSCHEDULABLE
from moorage.scheduler.queue.places import Places
from moorage.scheduler.state.pod_groups import ENTITY, PodGroups, group_key

ATTEMPT_FAILED: Final = "ScheduleAttemptFailure"


def is_member(pod: Pod) -> bool:
    """Tell whether a pod waits as a member of a group; one that has a node waits alone, whatever for."""
    return pod.spec.scheduling_group is not None and not pod.spec.node_name and group_key(pod) is not None


class QueuedGroup(QueuedPodInfo):
    """A group that waits, with all of its members that do; its history of attempts is its own.

    Members are kept by PodGroup, in the order in which they are to be tried, which is settled when one comes.
    """

    __slots__ = ("_sequence", "by_leaf", "needs_own_event", "root")

    is_group: ClassVar[bool] = True

    def __init__(self, root: Group, founder: QueuedPodInfo) -> None:
        super().__init__(founder.pod, founder.timestamp)
        self.key = ENTITY + root.key
        self.root = root
        self.priority = root.priority
        self.needs_own_event = False
        self._sequence = 0
        self.by_leaf: dict[str, list[tuple[Any, ...]]] = {}
        self.insert(founder)

    @property
    def members(self) -> Sequence[QueuedPodInfo]:
        """The pods, in order within each PodGroup."""
        return [entry[-1] for entries in self.by_leaf.values() for entry in entries]

    @property
    def size(self) -> int:  # type: ignore[override]
        """How many pods are in it."""
        return sum(map(len, self.by_leaf.values()))

    @property
    def rejectors(self) -> frozenset[str]:
        """Under what the group is filed while it is held back: nothing if only events of its own tree can help."""
        return frozenset((self.gating_plugin,)) if self.gating_plugin and not self.needs_own_event else frozenset()

    def insert(self, info: QueuedPodInfo) -> None:
        """Take a member in, in the place of one of its name if there is one."""
        self.remove(info.key)
        self._sequence += 1
        order = (-info.priority, -info.attempts, info.timestamp, info.pod.name, self._sequence, info)
        insort(self.by_leaf.setdefault(group_key(info.pod) or "", []), order)

    def replace(self, info: QueuedPodInfo) -> None:
        """Put a changed member into the place of its former version."""
        for entries in self.by_leaf.values():
            for at, entry in enumerate(entries):
                if entry[-1].key == info.key:
                    entries[at] = (*entry[:-1], info)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a member out by its name."""
        for leaf, entries in self.by_leaf.items():
            for at, entry in enumerate(entries):
                if entry[-1].key == key:
                    info: QueuedPodInfo = entries.pop(at)[-1]
                    if not entries:
                        del self.by_leaf[leaf]
                    return info
        return None

    def take_leaf(self, leaf: str) -> list[QueuedPodInfo]:
        """Take out all members of a PodGroup."""
        return [entry[-1] for entry in self.by_leaf.pop(leaf, ())]


class GroupQueue:
    """The groups of a queue, and the members that are not in one of them right now."""

    def __init__(self, groups: PodGroups, places: Places, clock: Clock) -> None:
        self._groups = groups
        self._clock = clock
        self._places = places
        self._entities: dict[str, QueuedGroup] = {}
        self._entity_of: dict[str, QueuedGroup] = {}
        self._being_tried = ""
        self.incomplete: dict[str, QueuedPodInfo] = {}
        self.pending: dict[str, QueuedPodInfo] = {}

    @property
    def surplus(self) -> int:
        """How many more pods wait than there are entries in the queue."""
        return len(self._entity_of) - len(self._entities) + len(self.incomplete) + len(self.pending)

    def aside(self) -> Iterator[QueuedPodInfo]:
        """Go through the members that are in no entry."""
        return chain(self.incomplete.values(), self.pending.values())

    def find(self, key: str) -> QueuedPodInfo | None:
        """Return a member by its name."""
        if (entity := self._entity_of.get(key)) is not None:
            return next(member for member in entity.members if member.key == key)
        return self.incomplete.get(key) or self.pending.get(key)

    def where(self, key: str) -> str | None:
        """Return the key of the entry that a member is in, or the place beside all entries."""
        if (entity := self._entity_of.get(key)) is not None:
            return entity.key
        if key in self.incomplete:
            return INCOMPLETE
        return PENDING if key in self.pending else None

    def entry_of(self, pod: Pod) -> str | None:
        """Return the key of the entry that a pod's tree of groups has in the queue, whether or not the pod is in it."""
        root = self._groups.root_of(pod)
        return None if root is None or ENTITY + root.key not in self._entities else ENTITY + root.key

    # ── members come and go ──────────────────────────────────────────────────────────────────────────────────────────

    def add(self, info: QueuedPodInfo, label: str) -> None:
        """Take in a member: a new one, or one that comes back from an attempt."""
        root = self._groups.root_of(info.pod)
        if root is None:
            self.incomplete[info.key] = info
            return
        key = ENTITY + root.key
        entity = self._entities.get(key)
        if entity is not None:
            self._join(entity, info, label)
        elif key == self._being_tried:
            self.pending[info.key] = info
        else:
            self._enter(QueuedGroup(root, info))
            self._places.make_active(self._entities[key], label, self._clock.now())

    def _join(self, entity: QueuedGroup, info: QueuedPodInfo, label: str) -> None:
        place = self._places.place_of(entity.key)
        entity.insert(info)
        self._entity_of[info.key] = entity
        # One that is parked is left alone: the event that a pod has come follows, and wakes it if that helps.
        if place != UNSCHEDULABLE:
            self._places.admit_newcomer(entity, info, label, self._clock.now())

    def remove(self, key: str) -> None:
        """Forget a member; a group without members is forgotten, too."""
        info = self.incomplete.pop(key, None) or self.pending.pop(key, None)
        entity = self._entity_of.pop(key, None)
        if entity is not None:
            place = self._places.place_of(entity.key)
            self._places.take_out(entity.key)
            info = entity.remove(key)
            self._settle(entity, place)
        if info is not None:
            self._places.count_rejectors(info, -1)

    def _settle(self, entity: QueuedGroup, place: str | None) -> None:
        """Put an entry back that has lost members, if any are left."""
        if entity.size:
            entity.pod = entity.members[0].pod
            self._places.put_back(entity, place, ATTEMPT_FAILED, self._clock.now())
        else:
            del self._entities[entity.key]

    def update(self, old: Pod, new: Pod, events: Iterable[ClusterEvent], hints: Hints) -> bool:
        """Follow a change of a member; return False if it does not wait."""
        key = old.key
        for aside in (self.incomplete, self.pending):
            if key in aside:
                aside[key] = aside[key].with_pod(new)
                return True
        entity = self._entity_of.get(key)
        if entity is None:
            return False
        info = self.find(key)
        assert info is not None
        entity.replace(info.with_pod(new))
        if self._places.place_of(entity.key) == UNSCHEDULABLE:
            now = self._clock.now()
            for event in events:
                strategy = hints.strategy_for(entity, event, old, new)
                if strategy is not RequeueStrategy.SKIP and self._places.requeue(entity, strategy, event.label, now):
                    break
        return True

    # ── groups come and go ───────────────────────────────────────────────────────────────────────────────────────────

    def group_added(self, group: Group) -> None:
        """Queue the members that waited for a group to come."""
        leaves = set(self._groups.leaf_keys(group))
        for info in [info for info in self.incomplete.values() if group_key(info.pod) in leaves]:
            del self.incomplete[info.key]
            self.add(info, f"{_resource(group)}Add")

    def group_updated(self, group: Group) -> None:
        """Follow a change of a group that waits."""
        entity = self._entities.get(ENTITY + group.key)
        if entity is not None and isinstance(entity.root, type(group)):
            entity.root, entity.priority = group, group.priority

    def group_deleted(self, group: Group) -> None:
        """Set the members of a group aside until it comes back."""
        leaves = self._groups.leaf_keys(group)
        for info in [info for info in self.pending.values() if group_key(info.pod) in leaves]:
            self.incomplete[info.key] = self.pending.pop(info.key)
        *_, top = self._groups.chain(group)
        entity = self._entities.get(ENTITY + top.key)
        if entity is None:
            return
        place = self._places.place_of(entity.key)
        self._places.take_out(entity.key)
        for leaf in leaves:
            for info in entity.take_leaf(leaf):
                del self._entity_of[info.key]
                self.incomplete[info.key] = info
        self._settle(entity, place)

    # ── attempts ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def popped(self, entity: QueuedGroup) -> None:
        """Note that a group is being tried."""
        del self._entities[entity.key]
        for member in entity.members:
            del self._entity_of[member.key]
        self._being_tried = entity.key

    def finish(self, tried: QueuedGroup, code: Code) -> None:
        """Note that a group has been tried: members that came back, or came anew, are its next entry.

        ``code`` is that of the group before anything was done about a failure.
        """
        now = self._clock.now()
        self._being_tried = ""
        returning, self.pending = list(self.pending.values()), {}
        here = [info for info in returning if self._root_key(info) == tried.key]
        self.incomplete.update((info.key, info) for info in returning if info not in here)
        root = self._groups.root_of(here[0].pod) if here else None
        if root is None:
            return
        entity = QueuedGroup(root, here[0])
        for info in here[1:]:
            entity.insert(info)
        self._inherit(entity, tried, {info.key for info in here}, code, now)
        self._enter(entity)
        self._places.requeue(entity, RequeueStrategy.AFTER_BACKOFF, ATTEMPT_FAILED, now)

    def _inherit(self, entity: QueuedGroup, tried: QueuedGroup, keys: set[str], code: Code, now: float) -> None:
        entity.attempts, entity.initial_attempt_timestamp = tried.attempts, tried.initial_attempt_timestamp
        entity.timestamp, entity.backoff_expiration = now, None
        if code is Code.SUCCESS:
            # The rest goes on from its old place in the order, so that making room for it follows at once.
            if any(member.key in keys for member in tried.members):
                entity.timestamp = tried.timestamp
        elif code.is_rejection:
            entity.unschedulable_count = tried.unschedulable_count + 1
        else:
            entity.unschedulable_count = tried.unschedulable_count
            entity.consecutive_errors = tried.consecutive_errors + 1

    def _enter(self, entity: QueuedGroup) -> None:
        self._entities[entity.key] = entity
        for member in entity.members:
            self._entity_of[member.key] = entity

    def _root_key(self, info: QueuedPodInfo) -> str:
        root = self._groups.root_of(info.pod)
        return "" if root is None else ENTITY + root.key

    # ── events ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def gated_by(self, places: Iterable[tuple[str, str]], about: object) -> list[QueuedPodInfo]:
        """Return the entry of the tree that an event is about, if it waits because of one of these plugins."""
        if isinstance(about, Pod):
            root = self._groups.root_of(about)
        elif isinstance(about, PodGroup | CompositePodGroup):
            root = self._groups.root_of_group(about)
        else:
            root = None
        entity = None if root is None else self._entities.get(ENTITY + root.key)
        if entity is None or not entity.needs_own_event or self._places.place_of(entity.key) != UNSCHEDULABLE:
            return []
        return [entity] if any(plugin == entity.gating_plugin for _, plugin in places) else []

    def check_invariants(self) -> None:
        """Verify that every member is in one place, and every entry in the queue."""
        for key, entity in self._entities.items():
            assert entity.key == key, f"{entity.key} is filed under {key}"
            assert self._places.place_of(key) is not None, f"{key} is nowhere"
            assert entity.size, f"{key} waits without members"
        filed = {member.key: entity for entity in self._entities.values() for member in entity.members}
        assert filed == self._entity_of, "members are filed under other groups than theirs"
        for aside in (self.incomplete, self.pending):
            assert not aside.keys() & filed.keys(), "a member waits in two places"
        assert self._being_tried or not self.pending, "members are pending though no group is being tried"


def _resource(group: Group) -> str:
    return "scheduling.k8s.io/" + ("PodGroup" if isinstance(group, PodGroup) else "CompositePodGroup")
