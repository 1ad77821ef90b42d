"""How long it takes to apply each change to cache and queue, measured around the dispatch."""

from collections.abc import Callable
from time import perf_counter
from typing import Final, Protocol

from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.event_handlers import resource_of
from moorage.scheduler.framework.events import Action, ClusterEvent
from moorage.scheduler.wiring.loop import Apply

_ACTIONS: Final = {(False, True): Action.ADD, (True, True): Action.UPDATE, (True, False): Action.DELETE}

RecordSeconds = Callable[[float], None]
ChangeKey = tuple[type[KubeObject], bool, bool, bool]
"""The kind, whether it is a pod with a node, and whether there was none before or is none any more."""


class ChangeTimes(Protocol):
    """Where the times go."""

    def handling_of(self, event: str) -> RecordSeconds:
        """Return what records how long it took to apply each event of a label to cache and queue."""
        ...

    def latency_of(self, kind: Kind) -> RecordSeconds:
        """Return what records how long each change of a kind took."""
        ...


class TimedChanges:
    """Applies changes and records how long each took."""

    def __init__(self, apply: Apply, times: ChangeTimes) -> None:
        self._apply = apply
        self._times = times
        self._records: dict[ChangeKey, tuple[RecordSeconds, RecordSeconds]] = {}

    def __call__(self, before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        """Apply a change."""
        began = perf_counter()
        self._apply(before, after, is_final=is_final)
        took = perf_counter() - began
        thing = before if after is None else after
        assert thing is not None
        has_node = thing.__class__ is Pod and thing.spec.node_name != ""
        key = (thing.__class__, has_node, before is None, after is None)
        handling, latency = self._records.get(key) or self._begin(key, thing)
        handling(took)
        latency(took)

    def _begin(self, key: ChangeKey, thing: KubeObject) -> tuple[RecordSeconds, RecordSeconds]:
        _, _, is_new, is_gone = key
        event = ClusterEvent(resource_of(thing), _ACTIONS[not is_new, not is_gone])
        found = self._times.handling_of(event.label), self._times.latency_of(BY_TYPE[type(thing)])
        self._records[key] = found
        return found
