"""Replaceable parts of a scheduler: the choice of a node, the binder, and the handler of failed attempts.

Offline schedulers inject their own.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from msgspec import Struct

from moorage.scheduler.engine.binding.binder import Binder
from moorage.scheduler.engine.binding.binding_phases import PendingBinding
from moorage.scheduler.engine.cycle.search_result import Choice, SeveralNodes
from moorage.scheduler.engine.failures import FailureHandler
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Unschedulable
from moorage.scheduler.engine.services import Services
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue

OnFailure: TypeAlias = Callable[[QueuedPodInfo, Unschedulable | Failed], None]
ChooseNode: TypeAlias = Callable[[SeveralNodes], Awaitable[Choice | Failed]]
"""Chooses one of several feasible nodes, or ends the attempt."""


class PodBinder(Protocol):
    """Runs the binding cycles of placed pods."""

    in_flight: int

    def start(self, binding: PendingBinding) -> None:
        """Begin a binding cycle. The binder owns the undo stack from now on."""
        ...

    def cancel_pre_bind(self, uid: str, reason: str) -> bool:
        """Cancel the pre-bind of a pod. Return whether it was in pre-bind."""
        ...


class AttemptFailures(Protocol):
    """Handles pods after failed attempts."""

    def handle(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Requeue the pod and report the failure."""
        ...


class Effects(Struct, frozen=True):
    """Factories for the parts of a scheduler that write to the cluster, and an external choice of nodes."""

    make_failures: Callable[[Services, SchedulingQueue], AttemptFailures] = FailureHandler
    make_binder: Callable[[Services, SchedulingQueue, OnFailure, AttemptObserver | None], PodBinder] = Binder
    choose_node: ChooseNode | None = None
    """Replaces the score plugins for single pods without extenders."""


CLUSTER_EFFECTS = Effects()
"""Bind pods, and write conditions, nominations and events."""
