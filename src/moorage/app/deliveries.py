"""From the informers to the scheduler: changes are applied at once while it rests, between cycles while it works."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol

from moorage.api.kinds import Kind
from moorage.api.meta import KubeObject
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client.watch import Change
from moorage.engine.handlers import RESOURCES, EventHandlers
from moorage.engine.loop import SchedulingLoop
from moorage.framework.events import Action, ClusterEvent, Resource

_ACTIONS: Final = {(False, True): Action.ADD, (True, True): Action.UPDATE, (True, False): Action.DELETE}


class DeliveryObserver(Protocol):
    """Is told how long it took to apply an event, for metrics."""

    def handling_of(self, event: str) -> Callable[[float], None]:
        """Return what hears how long it took to apply each event of a label to cache and queue."""
        ...

    def latency_of(self, kind: Kind) -> Callable[[float], None]:
        """Return what hears how long each change of a kind took."""
        ...


class Deliveries:
    """Passes changes on in the order in which they come."""

    def __init__(self, handlers: EventHandlers, loop: SchedulingLoop, observer: DeliveryObserver) -> None:
        self._handlers = handlers
        self._loop = loop
        self._observer = observer
        self._through_loop = False
        self._handling: dict[tuple[type[KubeObject], bool, bool, bool], Callable[[float], None]] = {}
        self.waiting: Counter[Kind] = Counter()
        """How many changes of each kind wait for the end of a cycle."""

    def start_through_loop(self) -> None:
        """Have changes wait for the end of a cycle from now on: the loop runs."""
        self._through_loop = True

    def on_changes(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        """Take changes from an informer."""
        apply = partial(self._apply, kind, changes)
        self.waiting[kind] += len(changes)
        if self._through_loop:
            self._loop.deliver(apply)
        else:
            apply()

    def _apply(self, kind: Kind, changes: Sequence[Change[Any]]) -> None:
        apply = self._handlers.apply
        self.waiting[kind] -= len(changes)
        latency = self._observer.latency_of(kind)
        for change in changes:
            began = perf_counter()
            apply(change.before, change.after, is_final=change.is_final)
            took = perf_counter() - began
            self._handling_of(kind, change)(took)
            latency(took)

    def _handling_of(self, kind: Kind, change: Change[Any]) -> Callable[[float], None]:
        before, after = change.before, change.after
        thing = before if after is None else after
        assert thing is not None
        has_node = kind.type is Pod and thing.spec.node_name != ""
        key = (kind.type, has_node, before is None, after is None)
        observe = self._handling.get(key)
        if observe is None:
            event = ClusterEvent(_resource(thing), _ACTIONS[before is not None, after is not None])
            observe = self._handling[key] = self._observer.handling_of(event.label)
        return observe


def _resource(thing: KubeObject) -> str:
    if isinstance(thing, Pod):
        return Resource.ASSIGNED_POD if thing.node_name else Resource.UNSCHEDULED_POD
    if isinstance(thing, Node):
        return Resource.NODE
    return RESOURCES.get(type(thing), type(thing).__name__)
