"""The queue-sort plugin's word, and what counts when it fails: then neither pod goes before the other.

A plugin that raises costs no pod its place in the queue: pods it cannot compare are tried first come, first served, and
whoever watches the queue is told which plugin failed over which pod. Until one raises, its keys are used as they are.
"""

from typing import Any

from moorage.framework.faults import PLUGIN_FAULTS, pass_on_interrupt
from moorage.framework.plugin import QueueSortPlugin
from moorage.queue.entry import QueuedPodInfo
from moorage.queue.observing import SILENT, QueueObserver


class Unsortable:
    """The key of a pod that the plugin had none for."""

    def __lt__(self, other: object) -> bool:
        raise TypeError("the plugin gave no sort key")


class SortGuard:
    """Asks a queue-sort plugin for keys."""

    def __init__(self, sort: QueueSortPlugin, observer: QueueObserver = SILENT) -> None:
        self._sort = sort
        self._observer = observer

    def key(self, info: QueuedPodInfo) -> Any:
        """Return what sorts a pod."""
        try:
            return self._sort.sort_key(info)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            self.tell(info, problem)
            return Unsortable()

    def guarded(self, key: Any, info: QueuedPodInfo) -> "GuardedKey":
        """Return a key that can be compared whatever the plugin does."""
        return GuardedKey(key, info, self)

    def tell(self, info: QueuedPodInfo, problem: BaseException) -> None:
        """Report a failure."""
        self._observer.plugin_failed(self._sort.name, info.pod, problem)


class GuardedKey:
    """A plugin's key whose comparisons never raise; a pod's first failure is reported."""

    __slots__ = ("_guard", "_info", "_is_told", "_key")

    def __init__(self, key: Any, info: QueuedPodInfo, guard: SortGuard) -> None:
        self._key = key
        self._info = info
        self._guard = guard
        # Of a pod without a key it was told when it was asked for.
        self._is_told = isinstance(key, Unsortable)

    def __lt__(self, other: "GuardedKey") -> bool:
        try:
            return bool(self._key < other._key)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            if not (self._is_told or isinstance(other._key, Unsortable)):
                self._is_told = True
                self._guard.tell(self._info, problem)
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GuardedKey) and not self < other and not other < self

    __hash__ = None  # type: ignore[assignment]
