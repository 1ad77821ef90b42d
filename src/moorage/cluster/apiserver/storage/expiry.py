"""Expiry of events: an event is deleted an hour after it was last observed."""

from typing import Any, Final

from moorage.cluster.apiserver.storage.store import Store
from moorage.kube.api.meta import parse_time

EVENT_SECONDS: Final = 3600.0
EVENTS: Final = "events"


def forget_old_events(store: Store, now: float) -> int:
    """Delete the events that were last observed more than an hour ago; return their number.

    Events are stored in order of creation, so the search stops at the first recent one.
    """
    forgotten = 0
    for entry in store.list(EVENTS):
        data = entry.data
        if _moment(data["metadata"].get("creationTimestamp")) > now - EVENT_SECONDS:
            break
        if last_seen(data) <= now - EVENT_SECONDS:
            store.remove(EVENTS, entry.key)
            forgotten += 1
    return forgotten


def last_seen(event: dict[str, Any]) -> float:
    """Return when an event was last observed; supports both formats of event series."""
    series = event.get("series") or {}
    times = (event.get("lastTimestamp"), event.get("eventTime"), series.get("lastObservedTime"))
    return max(_moment(text) for text in (*times, event["metadata"].get("creationTimestamp")))


def _moment(text: Any) -> float:
    try:
        return parse_time(text) if text else 0.0
    except ValueError:
        return 0.0
