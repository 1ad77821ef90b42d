"""Sort keys of a QueueSort plugin that can be compared even if the plugin fails."""

from math import isnan
from typing import Any

from moorage.scheduler.framework.faults import (
    PLUGIN_FAULTS,
    described_call,
    invalid_result,
    is_authors,
    pass_on_interrupt,
)
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.queue.entities import QueuedEntity
from moorage.scheduler.queue.observer import QueueObserver


class SortGuard:
    """Gets sort keys from a QueueSort plugin, and reports its failures."""

    def __init__(self, sort: QueueSortPlugin, observer: QueueObserver | None = None) -> None:
        self._sort = sort
        self._observer = observer

    def key(self, entity: QueuedEntity) -> Any:
        """Return the sort key of a pod."""
        try:
            key = self._sort.sort_key(entity)
        except PLUGIN_FAULTS as problem:
            pass_on_interrupt(problem)
            self.report(entity, problem)
            return Unsortable()
        if key is None or (isinstance(key, float) and isnan(key)):
            self.report(entity, TypeError(f"{key} has no order"))
            return Unsortable()
        return key

    def guarded(self, key: Any, entity: QueuedEntity) -> "GuardedKey":
        """Return a key with comparisons that do not raise."""
        return GuardedKey(key, entity, self)

    def report(self, entity: QueuedEntity, error: BaseException) -> None:
        """Report an exception of the plugin, or keys that cannot be compared."""
        sort, methods = self._sort, ("sort_key", "less")
        if is_authors(error):
            problem = described_call(sort, methods, error)
            sort._faults.note(sort.name, error, problem)
        else:
            problem = invalid_result(sort, methods, f"returned values that cannot be compared: {error}")
            sort._faults.note_invalid(sort.name, methods[0], problem)
        if self._observer is not None:
            self._observer.on_plugin_failure(sort.name, entity.pod, problem)


class Unsortable:
    """The key of a pod for which the plugin raised."""

    def __lt__(self, other: object) -> bool:
        raise TypeError("the plugin gave no sort key")


class GuardedKey:
    """A plugin's key with comparisons that never raise. The first failure for each pod is reported."""

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
