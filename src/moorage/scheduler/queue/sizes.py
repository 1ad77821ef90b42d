"""How much waits in the queue: pods, and what they are tried as."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from moorage.scheduler.queue.entries import QueuedPodInfo
from moorage.scheduler.queue.observing import GATED


class QueueSizes(NamedTuple):
    """How many pods are where."""

    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    incomplete: int = 0
    pending: int = 0


def pod_counts(
    active: Iterable[QueuedPodInfo], backoff: Iterable[QueuedPodInfo], parked: Iterable[QueuedPodInfo]
) -> tuple[int, int, int, int]:
    """Count pods that are active, back off, are unschedulable, and are gated; members of groups one by one."""
    waiting, gated = 0, 0
    for info in parked:
        if info.is_gated:
            gated += info.size
        else:
            waiting += info.size
    return sum(info.size for info in active), sum(info.size for info in backoff), waiting, gated


def entity_counts(places: Mapping[str, Iterable[QueuedPodInfo]]) -> dict[tuple[str, str], int]:
    """Count what waits by place and type: a single pod, or a group as a whole."""
    counts: Counter[tuple[str, str]] = Counter()
    for place, infos in places.items():
        for info in infos:
            counts[GATED if info.is_gated else place, "podgroup" if info.is_group else "pod"] += 1
    return dict(counts)
