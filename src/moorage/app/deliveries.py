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
from moorage.client.watch import Change
from moorage.engine.handlers import RESOURCES, EventHandlers
from moorage.engine.loop import SchedulingLoop
from moorage.features import FeatureGates
from moorage.framework.events import Action, ClusterEvent, Resource

_ACTIONS: Final = {(False, True): Action.ADD, (True, True): Action.UPDATE, (True, False): Action.DELETE}


class DeliveryObserver(Protocol):
    """Is told how long it took to apply an event, for metrics."""

    def applied(self, event: str, seconds: float) -> None:
        """Hear that an event was applied to cache and queue."""
        ...

    def latency_of(self, kind: Kind) -> Callable[[float], None]:
        """Return what hears how long each change of a kind took."""
        ...


class Deliveries:
    """Passes changes on in the order in which they come."""

    def __init__(
        self, handlers: EventHandlers, loop: SchedulingLoop, observer: DeliveryObserver, features: FeatureGates
    ) -> None:
        self._handlers = handlers
        self._loop = loop
        self._observer = observer
        self._adapt = pod_adapter(features)
        self._through_loop = False
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
        for change in changes:
            began = perf_counter()
            tell(change)
            took = perf_counter() - began
            self._observer.applied(_label(change), took)
            latency(took)

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


_labels: dict[tuple[type[KubeObject], bool, Action], str] = {}


def _label(change: Change[Any]) -> str:
    thing = change.before if change.after is None else change.after
    assert thing is not None
    action = _ACTIONS[change.before is not None, change.after is not None]
    key = (type(thing), isinstance(thing, Pod) and bool(thing.node_name), action)
    label = _labels.get(key)
    if label is None:
        label = _labels[key] = ClusterEvent(_resource(thing), action).label
    return label


def _resource(thing: KubeObject) -> str:
    if isinstance(thing, Pod):
        return Resource.ASSIGNED_POD if thing.node_name else Resource.UNSCHEDULED_POD
    if isinstance(thing, Node):
        return Resource.NODE
    return RESOURCES.get(type(thing), type(thing).__name__)
