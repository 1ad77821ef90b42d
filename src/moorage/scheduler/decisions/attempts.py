"""Attempts written down as decisions, while the cluster is as the attempt saw it."""

from collections.abc import Callable
from typing import Any, TypeAlias

from msgspec.structs import replace

from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.decision import Decision, NodeEntry, Nomination, Result
from moorage.scheduler.decisions.details import node_entries, rejection
from moorage.scheduler.engine.cycle.post_filter import PostFiltered
from moorage.scheduler.engine.cycle.profile_cycle import ProfileCycle
from moorage.scheduler.engine.cycle.search_result import Choice, ExtendedNodes, SearchResult
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Dropped, Failed, Outcome, Parked, Placed
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.observer import GATED, INCOMPLETE
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue

ShowProgress: TypeAlias = Callable[[int, int, float], None]
"""Called with how many pods are decided, of how many, and how many virtual seconds have passed."""


class AttemptLog(AttemptObserver):
    """Keeps the last attempt of every pod, by uid, with what was found out about each node if that is wanted."""

    def __init__(self, *, with_nodes: bool) -> None:
        self._with_nodes = with_nodes
        self._entries: dict[str, NodeEntry] = {}
        self._of_group = False
        """Whether the next attempt to end is that of a group's member."""
        self._searches: list[tuple[SearchResult | ExtendedNodes, dict[str, NodeEntry]]] = []
        self._nomination: Nomination | None = None
        self.decisions: dict[str, Decision] = {}
        self.failed_bindings: dict[str, Decision] = {}
        """The last attempt of a pod that ended after its node was chosen."""
        self.on_failure: Callable[[], None] = _nothing
        """Called when an attempt has failed, by an error or after its node was chosen: no object may show it."""

    def found(self, queued: QueuedPodInfo, cycle: ProfileCycle, found: SearchResult | ExtendedNodes) -> None:
        """Describe the nodes before anything changes."""
        if self._with_nodes:
            self._entries = node_entries(cycle, found)
            self._searches.append((found, self._entries))

    def chosen(self, queued: QueuedPodInfo, choice: Choice) -> None:
        """Add what extenders said of the nodes."""
        for name, added in choice.added.items():
            entry = self._entries.get(name)
            if added and entry is not None and entry.total is not None:
                self._entries[name] = replace(entry, total=entry.total + added, extenders=added)

    def settled(self, queued: QueuedPodInfo, found: SearchResult | ExtendedNodes | None) -> None:
        """Go back to what was found out in the search that counts."""
        self._of_group = True
        self._entries = next((entries for search, entries in self._searches if search is found), {})

    def group_ended(self, attempt: GroupAttempt) -> None:
        """Forget what was found out about nodes for its members."""
        self._searches.clear()

    def post_filtered(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """Note what the post-filters would do."""
        if result.nominated_node:
            victims = tuple(sorted(victim.key for victim in result.victims))
            self._nomination = Nomination(result.nominated_node, victims)

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Note how the attempt ended."""
        entries, nomination = self._entries, self._nomination
        self._entries, self._nomination = {}, None
        if not self._of_group:
            self._searches.clear()
        self._of_group = False
        match outcome:
            case Placed(node_name, tied):
                fields: dict[str, Any] = {"result": Result.SCHEDULED, "node": node_name, "tied": tied, "nodes": entries}
            case Parked():
                fields = {**refused(outcome), "nodes": entries, "post_filter": nomination}
            case Failed():
                fields = refused(outcome)
                self.on_failure()
            case Dropped():
                return
        pod = queued.pod
        self.decisions[pod.metadata.uid] = Decision(
            pod=queued.key, profile=pod.scheduler_name, attempts=queued.attempts, **fields
        )

    def binding_failed(self, queued: QueuedPodInfo, outcome: Parked | Failed) -> None:
        """Take back that a pod was placed: a wait on permit, a pre-bind plugin or the bind itself ended otherwise."""
        placed = self.decisions.get(queued.uid)
        if placed is not None:
            failed = replace(placed, node="", tied=(), **refused(outcome))
            self.decisions[queued.uid] = self.failed_bindings[queued.uid] = failed
        self.on_failure()


def not_tried(queue: SchedulingQueue, pod: Pod) -> list[Decision]:
    """Describe a pod that nothing let into the queue: a plugin holds it or its group back, or its group is missing."""
    queued, place = queue.find(pod), queue.where(pod)
    if queued is None or place not in (GATED, INCOMPLETE):
        return []
    plugins = (queued.gating_plugin,) if queued.is_gated else ()
    result = Result.GATED if place == GATED else Result.INCOMPLETE
    return [Decision(pod=pod.key, profile=pod.scheduler_name, result=result, unschedulable_plugins=plugins)]


def _nothing() -> None:
    pass


def refused(outcome: Parked | Failed) -> dict[str, Any]:
    """Return the fields of a decision that say why an attempt failed."""
    if isinstance(outcome, Failed):
        result = Result.UNSCHEDULABLE if outcome.is_rejection else Result.ERROR
        return {"result": result, "message": outcome.message}
    diagnosis = outcome.diagnosis
    return {
        "result": Result.UNSCHEDULABLE,
        "message": outcome.message,
        "unschedulable_plugins": tuple(sorted(diagnosis.unschedulable_plugins)),
        "pre_filter": None if diagnosis.pre_filter is None else rejection(diagnosis.pre_filter),
    }
