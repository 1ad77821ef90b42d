"""From the informers to the scheduler: changes are applied at once until its loop runs, then between cycles."""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

from moorage.api.kinds import Kind
from moorage.api.meta import KubeObject
from moorage.client.watch import Change
from moorage.engine.loop import SchedulingLoop


class Apply(Protocol):
    """Applies one change, as :meth:`moorage.engine.handlers.EventHandlers.apply` does."""

    def __call__(self, before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        """Apply a change."""
        ...


class Deliveries:
    """Passes changes on in the order in which they come."""

    def __init__(self, apply: Apply, loop: SchedulingLoop) -> None:
        self._apply = apply
        self._loop = loop
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
            self._apply_all(changes)

    def _apply_waiting(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        self.waiting[kind] -= len(changes)
        self._apply_all(changes)

    def _apply_all(self, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            self._apply(change.before, change.after, is_final=change.is_final)
