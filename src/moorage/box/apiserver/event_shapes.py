"""Events of both groups are one thing in the store: how the shape of one becomes that of the other."""

from typing import Any, Final

Data = dict[str, Any]
CORE_NAMES: Final = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""Fields of events.k8s.io and what the core group calls them."""
NEW_NAMES: Final = {core: new for new, core in CORE_NAMES.items()}


def to_core(data: Data) -> Data:
    """Write an event of events.k8s.io as the core group does."""
    return {CORE_NAMES.get(name, name): content for name, content in data.items()} | {"apiVersion": "v1"}


def from_core(data: Data) -> Data:
    """Write an event as events.k8s.io does."""
    return {NEW_NAMES.get(name, name): content for name, content in data.items()} | {"apiVersion": "events.k8s.io/v1"}
