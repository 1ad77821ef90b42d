"""The events of scheduling attempts and applied changes, for observers. See :mod:`moorage.common.observers`."""

from collections.abc import Sequence
from typing import Protocol

from moorage.common.observers import Observer, select
from moorage.kube.api.meta import KubeObject
from moorage.scheduler.engine.cycle.profile_runner import PostFiltered, ProfileRunner
from moorage.scheduler.engine.cycle.score import ScoreNotes
from moorage.scheduler.engine.cycle.search_result import Choice, ExtendedNodes, SearchResult, SeveralNodes, Totals
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.outcomes import Failed, Outcome, Unschedulable
from moorage.scheduler.engine.phases import F, Phase, PhaseHooks
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo


class AttemptObserver(Observer):
    """The events of attempts. Observers are notified during the attempt."""

    def wrap_phase(self, run: F, phase: Phase, profile: str) -> F:
        """Wrap a phase of a profile that is being built, for example to time it."""
        return run

    def on_attempt(self, queued: QueuedPodInfo) -> None:
        """An attempt of a single pod begins; not called for members of a group."""

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """The search for nodes has ended. The node is not chosen yet."""

    def on_choice(self, queued: QueuedPodInfo, choice: Choice) -> None:
        """The node is chosen, with the scores of extenders; not called without extenders."""

    def on_group_attempt(self, queued: QueuedPodGroupInfo) -> None:
        """An attempt of a group begins; not called for groups that fail without a search."""

    def on_final_search(self, queued: QueuedPodInfo, result: SearchResult | ExtendedNodes | None) -> None:
        """The final one of possibly many searches for a group's member, directly before :meth:`on_attempt_end`."""

    def on_group_end(self, attempt: GroupAttempt) -> None:
        """The attempt of a group has ended, after those of its members."""

    def on_post_filter(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """The post-filters have run for an infeasible pod."""

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """The scheduling cycle has ended."""

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """The API server has accepted a binding."""

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """The binding cycle of a pod has failed."""


class TotalsObserver(Observer):
    """The totals of choices. The class is separate because collecting the components of totals costs time."""

    def on_totals(self, result: SeveralNodes, totals: Totals, notes: ScoreNotes) -> None:
        """All nodes are scored. ``totals`` must not be changed, and ``notes`` are valid until the next choice."""


class Apply(Protocol):
    """The signature of :meth:`moorage.scheduler.engine.event_handlers.EventHandlers.apply`."""

    def __call__(self, before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        """Apply a change."""
        ...


class ApplyObserver(Observer):
    """Changes of objects that are applied to cache and queue."""

    def wrap_apply(self, apply: Apply) -> Apply:
        """Wrap the function that applies changes, for example to time it."""
        return apply


class ObserverHooks(PhaseHooks):
    """Hooks observers into the phases of a profile that is being built."""

    def __init__(self, observers: Sequence[Observer], profile: str) -> None:
        self._observer = select(observers, AttemptObserver)
        self._profile = profile
        totals = select(observers, TotalsObserver)
        self.on_totals = None if totals is None else totals.on_totals

    def wrap(self, run: F, phase: Phase) -> F:
        """Return the function as the observers wrap it."""
        return run if self._observer is None else self._observer.wrap_phase(run, phase, self._profile)
