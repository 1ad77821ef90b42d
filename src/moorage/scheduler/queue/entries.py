"""Pods that wait: what the queue knows of each, who lets it in, what sorts it, and the heap that keeps the order.

A plugin that raises costs no pod its place: it is reported, and the pod goes the way that is safe for it.
"""

from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from heapq import heappop, heappush
from itertools import pairwise
from typing import Any, ClassVar, Final, Self

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, pass_on_interrupt, shown
from moorage.scheduler.framework.plugin import PreEnqueuePlugin, QueueSortPlugin
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.queue.observing import QueueObserver, report_failure

_SLACK: Final = 64
NOBODY: Final[frozenset[str]] = frozenset()
_OBJECTIONS: Final = frozenset((Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE))


class QueuedPodInfo:
    """What the queue knows of a pod; the engine gets it from ``pop`` and hands it back when the attempt failed.

    ``timestamp`` is when the pod was first queued or last came back from an attempt; moves between queues leave it
    alone. Before handing it back the engine says who rejected the pod: :meth:`rejected_by`.
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

    is_group: ClassVar[bool] = False
    """Whether this is a whole group: :class:`moorage.scheduler.queue.groups.QueuedGroup`."""
    size: int = 1
    """How many pods are in it."""

    def __init__(self, pod: Pod, timestamp: float) -> None:
        self.pod = pod
        self.priority = pod.priority
        self.key = pod.key
        self.timestamp = timestamp
        self.attempts = 0
        self.initial_attempt_timestamp: float | None = None
        self.unschedulable_count = 0
        self.consecutive_errors = 0
        self.backoff_expiration: float | None = None
        self.unschedulable_plugins: Set[str] = NOBODY
        self.pending_plugins: Set[str] = NOBODY
        self.gating_plugin = ""
        self.was_flushed = False
        self.flush_timestamp: float | None = None

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.key!r}, attempts={self.attempts}, timestamp={self.timestamp})"

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return self.pod.metadata.uid

    @property
    def scheduler_name(self) -> str:
        """The profile that is to place the pod."""
        return self.pod.scheduler_name

    @property
    def rejectors(self) -> Set[str]:
        """The plugins that rejected the pod; none means that its last attempt ended in an error."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def is_gated(self) -> bool:
        """Whether a pre-enqueue plugin holds the pod back."""
        return self.gating_plugin != ""

    @property
    def waiting_since(self) -> float:
        """From when the time in the unschedulable pods counts: the last attempt, or the last flush since."""
        if self.flush_timestamp is None:
            return self.timestamp
        return max(self.timestamp, self.flush_timestamp)

    @property
    def members(self) -> "Sequence[QueuedPodInfo]":
        """The pods of a group; of a pod, itself."""
        return (self,)

    def rejected_by(self, unschedulable: Set[str], pending: Set[str] = NOBODY) -> None:
        """Replace what is known of who rejected the pod, as of the attempt that just failed."""
        self.unschedulable_plugins = unschedulable
        self.pending_plugins = pending
        self.gating_plugin = ""

    def with_pod(self, pod: Pod) -> Self:
        """Return the same entry for a changed pod.

        A new object, because a heap may still hold the old one, which must go on sorting as it did.
        """
        copy = type(self)(pod, self.timestamp)
        for field in _HISTORY:
            setattr(copy, field, getattr(self, field))
        return copy


_HISTORY = tuple(name for name in QueuedPodInfo.__slots__ if name not in ("pod", "priority", "key", "timestamp"))


class Gates:
    """The pre-enqueue plugins, by profile: may a pod enter?

    What ``group_plugins`` hold back can be helped by events of its own group only.
    """

    def __init__(
        self,
        plugins: Mapping[str, Sequence[PreEnqueuePlugin]],
        observer: QueueObserver | None,
        group_plugins: Set[str] = NOBODY,
    ) -> None:
        self._plugins = {name: tuple(asked) for name, asked in plugins.items()}
        self._by_name = {(name, plugin.name): plugin for name, asked in plugins.items() for plugin in asked}
        self._observer = observer
        self._group_plugins = group_plugins

    def admit(self, info: QueuedPodInfo) -> bool:
        """Ask the plugins in order, the one that held the pod back last time first; the first to object is noted.

        A group may enter if all of its members may; those that were held back last time are asked first.
        """
        if info.is_group:
            return self._admit_all(info)
        plugins = self._plugins.get(info.pod.scheduler_name, ())
        if info.gating_plugin:
            plugins = tuple(sorted(plugins, key=lambda plugin: plugin.name != info.gating_plugin))
        pod = info.pod
        for plugin in plugins:
            try:
                status = plugin.pre_enqueue(pod)
                if status is not None:
                    status = checked(status)
            except PLUGIN_FAULTS as problem:
                pass_on_interrupt(problem)
                # A plugin that raises holds the pod back like one that objects; the scheduler lives on.
                report_failure(self._observer, plugin.name, pod, problem)
                self._close(info, plugin.name)
                return False
            if status is not None and status.code is not Code.SUCCESS:
                if status.code is Code.ERROR:
                    report_failure(self._observer, plugin.name, pod, status.message)
                self._close(info, plugin.name)
                return False
        info.gating_plugin = ""
        return True

    def reconsidered(self, profile: str, name: str) -> Collection[str] | None:
        """Return the keys of pods that a plugin may let in by now; None for all, also if it cannot tell."""
        plugin = self._by_name.get((profile, name))
        if plugin is None:
            return None
        try:
            return plugin.reconsidered()
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            return None

    def is_still_closed(self, info: QueuedPodInfo) -> bool:
        """Ask no more than the plugin that held a pod back last time; groups and failures are for :meth:`admit`."""
        plugin = self._by_name.get((info.pod.scheduler_name, info.gating_plugin))
        if plugin is None or info.is_group:
            return False
        try:
            status = plugin.pre_enqueue(info.pod)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            return False
        return isinstance(status, Status) and status.code in _OBJECTIONS

    def _admit_all(self, group: QueuedPodInfo) -> bool:
        for member in sorted(group.members, key=lambda member: not member.is_gated):
            if not self.admit(member):
                self.close_for(group, member)
                return False
        group.gating_plugin = ""
        return True

    def close_for(self, group: QueuedPodInfo, member: QueuedPodInfo) -> None:
        """Hold a group back because of one of its members."""
        group.pod, group.gating_plugin = member.pod, member.gating_plugin
        group.needs_own_event = member.gating_plugin in self._group_plugins  # type: ignore[attr-defined]

    def _close(self, info: QueuedPodInfo, plugin: str) -> None:
        if self._observer is not None and plugin not in info.rejectors:
            self._observer.rejected(plugin, info.scheduler_name, +1)
        info.unschedulable_plugins |= {plugin}
        info.gating_plugin = plugin


def checked(answer: object) -> Status:
    """Refuse what is neither a Status nor ``None``."""
    if isinstance(answer, Status):
        return answer
    raise TypeError(f"it answered {shown(answer)}: return None, or a Status that says what the pod waits for")


class Unsortable:
    """The key of a pod that the plugin had none for."""

    def __lt__(self, other: object) -> bool:
        raise TypeError("the plugin gave no sort key")


class SortGuard:
    """Asks a queue-sort plugin for keys."""

    def __init__(self, sort: QueueSortPlugin, observer: QueueObserver | None = None) -> None:
        self._sort = sort
        self._observer = observer

    def key(self, info: QueuedPodInfo) -> Any:
        """Return what sorts a pod."""
        try:
            return self._sort.sort_key(info)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            self.report(info, problem)
            return Unsortable()

    def guarded(self, key: Any, info: QueuedPodInfo) -> "GuardedKey":
        """Return a key that can be compared whatever the plugin does."""
        return GuardedKey(key, info, self)

    def report(self, info: QueuedPodInfo, problem: BaseException) -> None:
        """Report a failure."""
        report_failure(self._observer, self._sort.name, info.pod, problem)


class GuardedKey:
    """A plugin's key whose comparisons never raise; a pod's first failure is reported."""

    __slots__ = ("_guard", "_info", "_is_reported", "_key")

    def __init__(self, key: Any, info: QueuedPodInfo, guard: SortGuard) -> None:
        self._key = key
        self._info = info
        self._guard = guard
        # A pod without a key was reported when it was asked for.
        self._is_reported = isinstance(key, Unsortable)

    def __lt__(self, other: "GuardedKey") -> bool:
        try:
            return bool(self._key < other._key)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            if not (self._is_reported or isinstance(other._key, Unsortable)):
                self._is_reported = True
                self._guard.report(self._info, problem)
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GuardedKey) and not self < other and not other < self

    __hash__ = None  # type: ignore[assignment]


class KeyedHeap:
    """Pods in the order of a sort key, equal ones first come, first served.

    Nearly all pods come in the order in which they go: those make a run, which costs nothing to keep sorted, and the
    heap is for the others. Removing only forgets an entry; it is dropped when it surfaces, or when more than half are.
    If keys turn out not to be comparable, ``guard`` makes comparable ones of them, from then on, and nothing is lost.
    """

    def __init__(self, guard: Callable[[Any, QueuedPodInfo], Any] | None = None) -> None:
        self._guard = guard
        self._is_guarded = False
        # [sort key, sequence number, pod]: a list, so that the pod can be replaced when its key did not change.
        self._run: deque[list[Any]] = deque()
        self._heap: list[list[Any]] = []
        self.entries: dict[str, list[Any]] = {}
        """What is in it, by name; a plain dict, since every pod that is bound is looked for here."""
        self._sequence = 0

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, key: str) -> bool:
        return key in self.entries

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (entry[2] for entry in self.entries.values())

    def get(self, key: str) -> QueuedPodInfo | None:
        """Return the entry of a pod, by its name."""
        entry = self.entries.get(key)
        return None if entry is None else entry[2]

    def put(self, info: QueuedPodInfo, sort_key: Any) -> None:
        """Add a pod, or replace the one of its name, which keeps its place unless its sort key changed."""
        if self._is_guarded and self._guard is not None:
            sort_key = self._guard(sort_key, info)
        try:
            self._put(info, sort_key)
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
            self._put(info, self._guard(sort_key, info))

    def _put(self, info: QueuedPodInfo, sort_key: Any) -> None:
        known = self.entries.get(info.key)
        if known is not None and known[0] == sort_key:
            known[2] = info
            return
        self._sequence += 1
        entry = [sort_key, self._sequence, info]
        self.entries[info.key] = entry
        if self._run and entry < self._run[-1]:
            heappush(self._heap, entry)
        else:
            self._run.append(entry)
        if known is not None:
            self._compact()

    def remove(self, key: str) -> QueuedPodInfo | None:
        """Take a pod out by its name; return it, if it was there."""
        entry = self.entries.pop(key, None)
        if entry is None:
            return None
        try:
            self._compact()
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
        info: QueuedPodInfo = entry[2]
        return info

    def pop(self) -> QueuedPodInfo | None:
        """Take out the first pod."""
        run, heap, entries = self._run, self._heap, self.entries
        try:
            while run or heap:
                entry = run.popleft() if run and not (heap and heap[0] < run[0]) else heappop(heap)
                info: QueuedPodInfo = entry[2]
                if entries.get(info.key) is entry:
                    del entries[info.key]
                    return info
        except PLUGIN_FAULTS:
            if self._guard is None or self._is_guarded:
                raise
            self._guard_all()
            return self.pop()
        return None

    def drain(self) -> Iterator[QueuedPodInfo]:
        """Take out all pods in order."""
        while (info := self.pop()) is not None:
            yield info

    def _guard_all(self) -> None:
        assert self._guard is not None
        self._is_guarded = True
        for entry in self.entries.values():
            entry[0] = self._guard(entry[0], entry[2])
        # What was forgotten is left out, and what a comparison broke off half-way is put in again.
        self._sort()

    def first_key(self) -> Any:
        """Return the sort key of the first pod, or ``None`` when there is none."""
        run, heap, entries = self._run, self._heap, self.entries
        while run and entries.get(run[0][2].key) is not run[0]:
            run.popleft()
        while heap and entries.get(heap[0][2].key) is not heap[0]:
            heappop(heap)
        if run and heap:
            return min(run[0], heap[0])[0]
        return run[0][0] if run else heap[0][0] if heap else None

    def _compact(self) -> None:
        if len(self._run) + len(self._heap) > 2 * len(self.entries) + _SLACK:
            self._sort()

    def _sort(self) -> None:
        self._run = deque(sorted(self.entries.values()))
        self._heap = []

    def check_invariants(self) -> None:
        """Verify that every pod is filed under its name and can be reached through the heap."""
        run = list(self._run)
        reachable = {id(entry) for entry in (*run, *self._heap)}
        assert all(not later < earlier for earlier, later in pairwise(run)), "the run is out of order"
        for key, entry in self.entries.items():
            assert entry[2].key == key, f"{entry[2].key} is filed under {key}"
            assert id(entry) in reachable, f"{key} can no longer be popped"
