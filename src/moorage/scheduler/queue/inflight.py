"""Pods that are being tried, and what happened in the cluster meanwhile."""

from collections import deque
from collections.abc import Iterator
from typing import Any, NamedTuple

from moorage.scheduler.framework.events import ClusterEvent


class Happening(NamedTuple):
    """An event that came while pods were in flight; ``position`` says which pods were popped before it."""

    position: int
    event: ClusterEvent
    label: str
    old: Any
    new: Any


class InFlight:
    """One line of popped pods and events in order of arrival: a pod that fails asks for the events behind it."""

    def __init__(self) -> None:
        self._position = 0
        self.pods: dict[str, int] = {}
        """Where in the line each pod was popped, by uid."""
        self._events: deque[Happening] = deque()

    def __len__(self) -> int:
        return len(self.pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self.pods

    def __iter__(self) -> Iterator[str]:
        return iter(self.pods)

    @property
    def events(self) -> tuple[Happening, ...]:
        """The events somebody in flight may still ask for."""
        return tuple(self._events)

    def start(self, uid: str) -> None:
        """Note that a pod was popped."""
        self._position += 1
        self.pods[uid] = self._position

    def record(self, event: ClusterEvent, label: str, old: Any, new: Any) -> None:
        """Note that something happened; ``label`` is the event's, spelled out once."""
        self._position += 1
        self._events.append(Happening(self._position, event, label, old, new))

    def events_since(self, uid: str) -> list[Happening] | None:
        """Return what happened since a pod was popped, oldest first; ``None`` if it is not in flight."""
        started = self.pods.get(uid)
        if started is None:
            return None
        since: list[Happening] = []
        for happening in reversed(self._events):
            if happening.position < started:
                break
            since.append(happening)
        since.reverse()
        return since

    def done(self, uid: str) -> list[Happening] | None:
        """Take a pod out; return the events nobody can ask for any more, or ``None`` if it was not in flight."""
        if self.pods.pop(uid, None) is None:
            return None
        dropped: list[Happening] = []
        events = self._events
        if events:
            # Positions grow, so the first pod in the dict is the one popped longest ago.
            oldest = next(iter(self.pods.values()), self._position + 1)
            while events and events[0].position < oldest:
                dropped.append(events.popleft())
        return dropped

    def check_invariants(self) -> None:
        """Verify that positions grow and that no event is kept for nobody."""
        positions = list(self.pods.values())
        assert positions == sorted(positions), "pods in flight are out of order"
        assert not self._events or (positions and positions[0] < self._events[0].position), "events kept for nobody"
