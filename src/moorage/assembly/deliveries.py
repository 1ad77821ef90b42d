"""From the informers to the scheduler: changes are applied at once until its loop runs, then between cycles."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from moorage.api.kinds import Kind
from moorage.api.meta import KubeObject
from moorage.client.list_watch import Change
from moorage.client.mending import Mending
from moorage.engine.loop import SchedulingLoop


class Apply(Protocol):
    """Applies one change, as :meth:`moorage.engine.event_handlers.EventHandlers.apply` does."""

    def __call__(self, before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        """Apply a change."""
        ...


class Deliveries:
    """Passes changes on in the order in which they come; one that cannot be applied costs its object only."""

    def __init__(self, apply: Apply, loop: SchedulingLoop, mending: Mending | None = None) -> None:
        self._apply = apply
        self._loop = loop
        self.mending = mending or Mending()
        self._through_loop = False
        self.waiting: Counter[Kind] = Counter()
        """How many changes of each kind wait for the end of a cycle."""

    def start_through_loop(self) -> None:
        """Have changes wait for the end of a cycle from now on: the loop runs."""
        self._through_loop = True

    def on_changes(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        """Take changes from an informer."""
        if self._through_loop:
            self.waiting[kind] += len(changes)
            self._loop.deliver(partial(self._apply_waiting, kind, changes))
        else:
            self._apply_all(kind, changes)

    def _apply_waiting(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        self.waiting[kind] -= len(changes)
        self._apply_all(kind, changes)

    def _apply_all(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            if self.mending.aside:
                self._apply_with_care(kind, change)
                continue
            try:
                self._apply(change.before, change.after, is_final=change.is_final)
            except Exception:  # whatever an object can do to us, it may do to itself only
                self.mending.failed(kind, change, self._apply_change)

    def _apply_with_care(self, kind: Kind, change: Change[Any]) -> None:
        """Apply a change while some objects are set aside, of which this may be one."""
        adjusted = self.mending.adjust(kind, change)
        if adjusted is None:
            return
        try:
            self._apply_change(adjusted)
        except Exception:
            self.mending.failed(kind, adjusted, self._apply_change)
        else:
            self.mending.succeeded(kind, adjusted)

    def _apply_change(self, change: Change[Any]) -> None:
        self._apply(change.before, change.after, is_final=change.is_final)
