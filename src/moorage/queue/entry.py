"""A pod that waits, with the history of its attempts."""

from collections.abc import Set
from typing import Final, Self

from moorage.api.pod import Pod

NOBODY: Final[frozenset[str]] = frozenset()


class QueuedPodInfo:
    """What the queue knows of a pod; the engine gets it from ``pop`` and hands it back when the attempt failed.

    ``timestamp`` is when the pod was first queued or last came back from an attempt; moves between queues leave it
    alone. Before handing it back the engine says who turned the pod down: :meth:`rejected_by`.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors",
        "flush_timestamp",
        "gating_plugin",
        "initial_attempt_timestamp",
        "key",
        "pending_plugins",
        "pod",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod: Pod, timestamp: float) -> None:
        self.pod = pod
        self.key = pod.key
        self.timestamp = timestamp
        self.attempts = 0
        self.initial_attempt_timestamp: float | None = None
        self.unschedulable_count = 0
        self.consecutive_errors = 0
        self.backoff_expiration: float | None = None
        self.unschedulable_plugins: Set[str] = NOBODY
        self.pending_plugins: Set[str] = NOBODY
        self.gating_plugin = ""
        self.was_flushed = False
        self.flush_timestamp: float | None = None

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.key!r}, attempts={self.attempts}, timestamp={self.timestamp})"

    @property
    def uid(self) -> str:
        """The pod's identity."""
        return self.pod.metadata.uid

    @property
    def scheduler_name(self) -> str:
        """The profile that is to place the pod."""
        return self.pod.scheduler_name

    @property
    def rejectors(self) -> Set[str]:
        """The plugins that turned the pod down; none means that its last attempt ended in an error."""
        return self.unschedulable_plugins | self.pending_plugins

    @property
    def is_gated(self) -> bool:
        """Whether a pre-enqueue plugin holds the pod back."""
        return self.gating_plugin != ""

    @property
    def waiting_since(self) -> float:
        """From when the time in the unschedulable pods counts: the last attempt, or the last flush since."""
        if self.flush_timestamp is None:
            return self.timestamp
        return max(self.timestamp, self.flush_timestamp)

    def rejected_by(self, unschedulable: Set[str], pending: Set[str] = NOBODY) -> None:
        """Replace what is known of who turned the pod down, as of the attempt that just failed."""
        self.unschedulable_plugins = unschedulable
        self.pending_plugins = pending
        self.gating_plugin = ""

    def with_pod(self, pod: Pod) -> Self:
        """Return the same entry for a changed pod.

        A new object, because a heap may still hold the old one, which must go on sorting as it did.
        """
        copy = type(self)(pod, self.timestamp)
        for field in _HISTORY:
            setattr(copy, field, getattr(self, field))
        return copy


_HISTORY = tuple(name for name in QueuedPodInfo.__slots__ if name not in ("pod", "key", "timestamp"))
