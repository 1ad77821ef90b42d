"""Entities of the queue: a pending pod, or a pending group with all of its pending members."""

from bisect import insort
from collections.abc import Sequence, Set
from copy import copy
from typing import Any, ClassVar, Final, Literal, Self

from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup
from moorage.scheduler.framework.groups import Group
from moorage.scheduler.state.pod_groups import ENTITY, group_key

NO_PLUGINS: Final[frozenset[str]] = frozenset()


class EntityState:
    """The attempts, backoff and gate of a queued pod or group.

    ``timestamp`` is the time of the first add or of the last failed attempt. Moves between queues do not change it.
    ``pod`` of a group is the pod that represents the group for plugins.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors",
        "flush_timestamp",
        "gating_plugin",
        "initial_attempt_timestamp",
        "key",
        "pending_plugins",
        "pod",
        "priority",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod: Pod, timestamp: float) -> None:
        self.key = pod.key
        self.pod = pod
        self.priority = pod.priority
        self.timestamp = timestamp
        self.attempts = 0
        self.initial_attempt_timestamp: float | None = None
        self.unschedulable_count = 0
        self.consecutive_errors = 0
        self.backoff_expiration: float | None = None
        self.unschedulable_plugins: Set[str] = NO_PLUGINS
        self.pending_plugins: Set[str] = NO_PLUGINS
        self.gating_plugin = ""
        self.was_flushed = False
        self.flush_timestamp: float | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.key!r}, attempts={self.attempts}, timestamp={self.timestamp})"

    @property
    def rejectors(self) -> Set[str]:
        """The plugins that rejected the pod, or empty if the last attempt ended in an error."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def scheduler_name(self) -> str:
        """The profile that schedules the pod."""
        return self.pod.scheduler_name

    @property
    def is_gated(self) -> bool:
        """Whether a PreEnqueue plugin rejects the pod."""
        return self.gating_plugin != ""

    @property
    def rejection_time(self) -> float:
        """When the time in the unschedulable pods started: the last attempt, or a later flush."""
        return self.timestamp if self.flush_timestamp is None else max(self.timestamp, self.flush_timestamp)


class QueuedPodInfo(EntityState):
    """A queued pod. After a failed attempt the engine calls :meth:`rejected_by` and ``add_unschedulable``."""

    __slots__ = ()

    is_group: ClassVar[Literal[False]] = False
    size: ClassVar[int] = 1

    @property
    def uid(self) -> str:
        """The pod's UID."""
        return self.pod.metadata.uid

    @property
    def members(self) -> "Sequence[QueuedPodInfo]":
        """The pod itself."""
        return (self,)

    def rejected_by(self, unschedulable: Set[str], pending: Set[str] = NO_PLUGINS) -> None:
        """Replace the plugins that rejected the pod with those of the failed attempt."""
        self.unschedulable_plugins = unschedulable
        self.pending_plugins = pending
        self.gating_plugin = ""

    def with_pod(self, pod: Pod) -> Self:
        """Return a copy with an updated pod. A heap may still contain this object, so its sort key must not change."""
        updated = copy(self)
        updated.key, updated.pod, updated.priority = pod.key, pod, pod.priority
        return updated


class QueuedPodGroupInfo(EntityState):
    """A queued group with its pending members. The group has its own attempts and backoff.

    Members are sorted within each PodGroup in scheduling order. The order of a member is fixed when it is added.
    """

    __slots__ = ("_sequence", "by_leaf", "needs_own_event", "root", "type_label")

    is_group: ClassVar[Literal[True]] = True

    def __init__(self, root: Group, first_member: QueuedPodInfo) -> None:
        super().__init__(first_member.pod, first_member.timestamp)
        self.key = ENTITY + root.key
        self.priority = root.priority
        self.root = root
        self.type_label = "compositepodgroup" if isinstance(root, CompositePodGroup) else "podgroup"
        self.needs_own_event = False
        self._sequence = 0
        self.by_leaf: dict[str, list[tuple[Any, ...]]] = {}
        self.insert(first_member)

    @property
    def members(self) -> Sequence[QueuedPodInfo]:
        """The pods, sorted within each PodGroup."""
        return [entry[-1] for entries in self.by_leaf.values() for entry in entries]

    @property
    def size(self) -> int:
        """The number of pods."""
        return sum(map(len, self.by_leaf.values()))

    @property
    def rejectors(self) -> frozenset[str]:
        """The plugin that gates the group, or empty if only events of the group's own tree can open the gate."""
        return frozenset((self.gating_plugin,)) if self.gating_plugin and not self.needs_own_event else NO_PLUGINS

    def insert(self, member: QueuedPodInfo) -> None:
        """Add a member, or replace that of the same name."""
        self.remove(member.key)
        self._sequence += 1
        order = (-member.priority, -member.attempts, member.timestamp, member.pod.name, self._sequence, member)
        insort(self.by_leaf.setdefault(group_key(member.pod) or "", []), order)

    def replace(self, member: QueuedPodInfo) -> None:
        """Replace a member with its updated version, in the same position."""
        for entries in self.by_leaf.values():
            for at, entry in enumerate(entries):
                if entry[-1].key == member.key:
                    entries[at] = (*entry[:-1], member)

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Remove a member by its key, and return it."""
        for leaf, entries in self.by_leaf.items():
            for at, entry in enumerate(entries):
                if entry[-1].key == key:
                    member: QueuedPodInfo = entries.pop(at)[-1]
                    if not entries:
                        del self.by_leaf[leaf]
                    return member
        return None

    def take_leaf(self, leaf: str) -> list[QueuedPodInfo]:
        """Remove all members of a PodGroup, and return them."""
        return [entry[-1] for entry in self.by_leaf.pop(leaf, ())]


QueuedEntity = QueuedPodInfo | QueuedPodGroupInfo
"""An entry of the queue. ``is_group`` discriminates the two: isinstance would cost a call for every pod."""
