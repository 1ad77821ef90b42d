"""The observer of scheduling attempts: metrics, logs, traces and simulations use it, and it must not change anything.

One mechanism serves all of them. It is chosen when the scheduler is built, and costs nothing without observers.
"""

from collections.abc import Sequence

from moorage.scheduler.engine.cycle.post_filter import PostFiltered
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.score import ScoreNotes
from moorage.scheduler.engine.cycle.search_result import Choice, ExtendedNodes, SearchResult, SeveralNodes, Totals
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.outcomes import Failed, Outcome, Unschedulable
from moorage.scheduler.engine.phases import NO_HOOKS, F, Phase, PhaseHooks
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo


class AttemptObserver:
    """The base of observers, with a no-op for every event; each is notified during the attempt."""

    observes_totals: bool = False
    """Whether :meth:`totalled` is called; collecting the components of totals costs time."""

    def wrap_phase(self, profile: str, run: F, phase: Phase) -> F:
        """Wrap a phase of a profile that is being built, for example to time it."""
        return run

    def trying(self, queued: QueuedPodInfo) -> None:
        """An attempt of a single pod begins; not called for members of a group."""

    def found(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """The search for nodes has ended; the node is not chosen yet."""

    def totalled(self, result: SeveralNodes, totals: Totals, notes: ScoreNotes) -> None:
        """All nodes are scored. ``totals`` must not be changed, and ``notes`` are valid until the next choice."""

    def chosen(self, queued: QueuedPodInfo, choice: Choice) -> None:
        """The node is chosen, with the scores of extenders; not called without extenders."""

    def trying_group(self, queued: QueuedPodGroupInfo) -> None:
        """An attempt of a group begins; not called for groups that fail without a search."""

    def settled(self, queued: QueuedPodInfo, result: SearchResult | ExtendedNodes | None) -> None:
        """The final search of a group's member is known, directly before :meth:`ended`: there may be many searches."""

    def group_ended(self, attempt: GroupAttempt) -> None:
        """The attempt of a group has ended, after those of its members."""

    def post_filtered(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """The post-filters have run for an infeasible pod."""

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """The scheduling cycle has ended."""

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """The API server has accepted a binding."""

    def binding_failed(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """The binding cycle of a pod has failed."""


class ObserverChain(AttemptObserver):
    """Several observers, notified in order; the last one wraps phases outermost."""

    def __init__(self, observers: Sequence[AttemptObserver]) -> None:
        self._observers = observers
        self.observes_totals = any(observer.observes_totals for observer in observers)

    def wrap_phase(self, profile: str, run: F, phase: Phase) -> F:
        """Apply the wrappers of all."""
        for observer in self._observers:
            run = observer.wrap_phase(profile, run, phase)
        return run

    def trying(self, queued: QueuedPodInfo) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.trying(queued)

    def found(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.found(queued, runner, result)

    def totalled(self, result: SeveralNodes, totals: Totals, notes: ScoreNotes) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.totalled(result, totals, notes)

    def chosen(self, queued: QueuedPodInfo, choice: Choice) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.chosen(queued, choice)

    def trying_group(self, queued: QueuedPodGroupInfo) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.trying_group(queued)

    def settled(self, queued: QueuedPodInfo, result: SearchResult | ExtendedNodes | None) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.settled(queued, result)

    def group_ended(self, attempt: GroupAttempt) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.group_ended(attempt)

    def post_filtered(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.post_filtered(queued, result)

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.ended(queued, outcome)

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.bound(queued, node_name)

    def binding_failed(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Notify all."""
        for observer in self._observers:
            observer.binding_failed(queued, outcome)


def observed_by(*observers: AttemptObserver | None) -> AttemptObserver | None:
    """Combine observers, ignoring ``None``; a single one is not wrapped."""
    present = [observer for observer in observers if observer is not None]
    return ObserverChain(present) if len(present) > 1 else present[0] if present else None


class ObserverHooks(PhaseHooks):
    """Hooks an observer into the phases of a profile that is being built."""

    def __init__(self, observer: AttemptObserver, profile: str) -> None:
        self._observer = observer
        self._profile = profile
        self.on_totals = observer.totalled if observer.observes_totals else None

    def wrap(self, run: F, phase: Phase) -> F:
        """Return the function as the observer wraps it."""
        return self._observer.wrap_phase(self._profile, run, phase)


def make_hooks(observer: AttemptObserver | None, profile: str) -> PhaseHooks:
    """Return the hooks of an observer for a profile."""
    return NO_HOOKS if observer is None else ObserverHooks(observer, profile)
