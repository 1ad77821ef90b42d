"""Sort keys of a QueueSort plugin that can be compared even if the plugin fails."""

from typing import Any

from moorage.scheduler.framework.faults import PLUGIN_FAULTS, pass_on_interrupt
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.queue.entities import QueuedEntity
from moorage.scheduler.queue.observer import QueueObserver, report_raised


class SortGuard:
    """Gets sort keys from a QueueSort plugin, and reports its failures."""

    def __init__(self, sort: QueueSortPlugin, observer: QueueObserver | None = None) -> None:
        self._sort = sort
        self._observer = observer

    def key(self, entity: QueuedEntity) -> Any:
        """Return the sort key of a pod."""
        try:
            return self._sort.sort_key(entity)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            self.report(entity, problem)
            return Unsortable()

    def guarded(self, key: Any, entity: QueuedEntity) -> "GuardedKey":
        """Return a key whose comparisons do not raise."""
        return GuardedKey(key, entity, self)

    def report(self, entity: QueuedEntity, problem: BaseException) -> None:
        """Report a failure of the plugin."""
        report_raised(self._observer, self._sort._faults, f"{self._sort.name}.sort_key", entity.pod, problem)


class Unsortable:
    """The key of a pod for which the plugin raised."""

    def __lt__(self, other: object) -> bool:
        raise TypeError("the plugin gave no sort key")


class GuardedKey:
    """A plugin's key whose comparisons never raise; the first failure for each pod is reported."""

    __slots__ = ("_entity", "_guard", "_is_reported", "_key")

    def __init__(self, key: Any, entity: QueuedEntity, guard: SortGuard) -> None:
        self._key = key
        self._entity = entity
        self._guard = guard
        # The failure of a pod without a key was reported when the key was requested.
        self._is_reported = isinstance(key, Unsortable)

    def __lt__(self, other: "GuardedKey") -> bool:
        try:
            return bool(self._key < other._key)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            if not (self._is_reported or isinstance(other._key, Unsortable)):
                self._is_reported = True
                self._guard.report(self._entity, problem)
            return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GuardedKey) and not self < other and not other < self

    __hash__ = None  # type: ignore[assignment]
