"""In-flight pods, and the cluster events since each pod was popped."""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from moorage.scheduler.framework.events import ClusterEvent


class InFlightEvent(NamedTuple):
    """An event that arrived while pods were in flight. Pods with a lower position were popped before it."""

    position: int
    event: ClusterEvent
    label: str
    old: Any
    new: Any


class InFlightEvents:
    """One sequence of popped pods and events: a pod needs the events after its own position if its attempt fails."""

    def __init__(self) -> None:
        self._position = 0
        self.pods: dict[str, int] = {}
        """The position of each in-flight pod, by UID."""
        self._events: deque[InFlightEvent] = deque()

    def __len__(self) -> int:
        return len(self.pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self.pods

    def __iter__(self) -> Iterator[str]:
        return iter(self.pods)

    @property
    def events(self) -> tuple[InFlightEvent, ...]:
        """The events that an in-flight pod may still need."""
        return tuple(self._events)

    def start(self, uid: str) -> None:
        """Record a popped pod."""
        self._position += 1
        self.pods[uid] = self._position

    def record(self, event: ClusterEvent, label: str, old: Any, new: Any) -> None:
        """Record an event. ``label`` is ``event.label``, which the caller has computed already."""
        self._position += 1
        self._events.append(InFlightEvent(self._position, event, label, old, new))

    def list_events(self, uid: str) -> list[InFlightEvent] | None:
        """Return the events since a pod was popped, oldest first, or ``None`` if it is not in flight."""
        popped_at = self.pods.get(uid)
        if popped_at is None:
            return None
        events: list[InFlightEvent] = []
        # From the newest event back: most attempts are short, while one slow attempt keeps a long log.
        for event in reversed(self._events):
            if event.position < popped_at:
                break
            events.append(event)
        events.reverse()
        return events

    def done(self, uid: str) -> list[InFlightEvent] | None:
        """Remove a pod. Return the events that no pod needs any more, or ``None`` if it was not in flight."""
        if self.pods.pop(uid, None) is None:
            return None
        dropped: list[InFlightEvent] = []
        events = self._events
        if events:
            # Positions increase, so the first pod in the dict was popped first.
            oldest = next(iter(self.pods.values()), self._position + 1)
            while events and events[0].position < oldest:
                dropped.append(events.popleft())
        return dropped

    def check_invariants(self) -> None:
        """Verify that positions increase and that an in-flight pod needs every event."""
        positions = list(self.pods.values())
        assert positions == sorted(positions), "in-flight pods are out of order"
        assert not self._events or (positions and positions[0] < self._events[0].position), "an event is not needed"
