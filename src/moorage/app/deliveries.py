"""From the informers to the scheduler: changes are applied at once while it rests, between cycles while it works."""

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from time import perf_counter
from typing import Any, Final, Protocol

from moorage.api.gated import pod_adapter
from moorage.api.kinds import Kind
from moorage.api.meta import KubeObject
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.client.mending import Mending
from moorage.client.watch import Change
from moorage.engine.event_handlers import RESOURCES, EventHandlers
from moorage.engine.loop import SchedulingLoop
from moorage.features import FeatureGates
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

    def __init__(
        self,
        handlers: EventHandlers,
        loop: SchedulingLoop,
        observer: DeliveryObserver,
        features: FeatureGates,
        mending: Mending | None = None,
    ) -> None:
        self._handlers = handlers
        self._loop = loop
        self.mending = mending or Mending()
        self._observer = observer
        self._adapt = pod_adapter(features)
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
        tell = self._tell_pod if kind.type is Pod else self._tell_node if kind.type is Node else self._tell_object
        self.waiting[kind] -= len(changes)
        latency = self._observer.latency_of(kind)
        for told in changes:
            began, change = perf_counter(), told
            if self.mending.aside:
                if (adjusted := self.mending.adjust(kind, told)) is None:
                    continue
                change = adjusted
            try:
                tell(change)
            except Exception:  # whatever an object can do to us, it may do to itself only
                self.mending.failed(kind, change, tell)
                continue
            if self.mending.aside:
                self.mending.succeeded(kind, change)
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

    def _tell_pod(self, change: Change[Pod]) -> None:
        before, after = change.before, change.after
        if self._adapt is not None:
            before, after = before and self._adapt(before), after and self._adapt(after)
        if after is None:
            assert before is not None
            self._handlers.pod_deleted(before, is_final=change.is_final)
        elif before is None:
            self._handlers.pod_added(after)
        else:
            self._handlers.pod_updated(before, after)

    def _tell_node(self, change: Change[Node]) -> None:
        if change.after is None:
            assert change.before is not None
            self._handlers.node_deleted(change.before)
        elif change.before is None:
            self._handlers.node_added(change.after)
        else:
            self._handlers.node_updated(change.before, change.after)

    def _tell_object(self, change: Change[KubeObject]) -> None:
        if change.after is None:
            assert change.before is not None
            self._handlers.object_deleted(change.before)
        elif change.before is None:
            self._handlers.object_added(change.after)
        else:
            self._handlers.object_updated(change.before, change.after)


def _resource(thing: KubeObject) -> str:
    if isinstance(thing, Pod):
        return Resource.ASSIGNED_POD if thing.node_name else Resource.UNSCHEDULED_POD
    if isinstance(thing, Node):
        return Resource.NODE
    return RESOURCES.get(type(thing), type(thing).__name__)
