"""Attempts of pods and groups recorded as decisions, while the cluster is in the state of the attempt."""

from collections.abc import Callable
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct, field
from msgspec.structs import replace

from moorage.kube.api.pod import Pod
from moorage.scheduler.decisions.decision import Decision, NodeEntry, Nomination, PluginScore, Rejection, Result
from moorage.scheduler.engine.cycle.profile_runner import PostFiltered, ProfileRunner
from moorage.scheduler.engine.cycle.search_result import (
    Choice,
    ExtendedNodes,
    NoNode,
    OneNode,
    SearchResult,
    SeveralNodes,
)
from moorage.scheduler.engine.group_points import PlacementScores
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import NOT_EXAMINED, Dropped, Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.engine.reference import score_all
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Code
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.observer import GATED, INCOMPLETE
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue

CONDITION_FIELDS = ("status", "reason", "message")
"""The fields of a condition that are reported."""


class GroupResult(StrEnum):
    """The result of an attempt to place a group."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"
    ERROR = "error"


class GroupNomination(Struct, frozen=True, rename="camel"):
    """The result of preemption for a group: the nominated node of each pod, and the pods to evict."""

    nominated_nodes: dict[str, str]
    victims: tuple[str, ...] = ()


class PlacementScoring(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A choice among placements: their scores, and the placements with the highest score if there are several."""

    group: str
    tied: tuple[str, ...] = ()
    scores: dict[str, dict[str, int]] = field(default_factory=dict)


class GroupDecision(Struct, frozen=True, rename="camel", omit_defaults=True, kw_only=True):
    """One attempt to place a group."""

    group: str
    kind: str
    profile: str
    result: GroupResult
    message: str = ""
    pods: tuple[str, ...]
    placements: dict[str, str] = field(default_factory=dict)
    scored: tuple[PlacementScoring, ...] = ()
    conditions: dict[str, dict[str, str]] = field(default_factory=dict)
    post_filter: GroupNomination | None = None


def group_decision(attempt: GroupAttempt) -> GroupDecision:
    """Describe a finished attempt."""
    trial, status, helped = attempt.trial, attempt.status, attempt.post_filtered
    result, nomination = GroupResult.SCHEDULED, None
    if status is not None:
        waits = trial is not None and trial.waits_for_victims
        rejected = GroupResult.WAITING if waits else GroupResult.UNSCHEDULABLE
        result = rejected if status.is_rejection else GroupResult.ERROR
    if helped is not None and helped.code is Code.SUCCESS:
        pods = {member.uid: member.pod.key for member in attempt.members}
        nominated = {pods[uid]: node for uid, node in helped.nominated.items() if uid in pods}
        nomination = GroupNomination(nominated, tuple(sorted(victim.key for victim in helped.victims)))
    return GroupDecision(
        group=attempt.root.key,
        kind=type(attempt.root).__name__,
        profile=attempt.profile,
        result=result,
        message="" if status is None else status.message,
        pods=tuple(member.pod.key for member in attempt.members),
        placements={
            leaf.tree.key: leaf.placement
            for leaf in (() if trial is None else trial.leaves)
            if leaf.placement and any(True for _ in leaf.placed)
        },
        scored=tuple(_scoring(group, scores) for group, scores in attempt.scored),
        conditions={
            group: {key: condition[key] for key in CONDITION_FIELDS if condition[key]}
            for group, condition in attempt.conditions.items()
            if condition
        },
        post_filter=nomination,
    )


def _scoring(group: str, scores: PlacementScores) -> PlacementScoring:
    totals = scores.totals.tolist()
    names = [placement.name for placement in scores.placements]
    highest = max(totals, default=0)
    best = [name for name, total in zip(names, totals, strict=True) if total == highest]
    by_name = {
        name: {"total": total, **{plugin: int(part[position]) for plugin, part in scores.by_plugin.items()}}
        for position, (name, total) in enumerate(zip(names, totals, strict=True))
    }
    return PlacementScoring(group, tuple(best) if len(best) > 1 else (), by_name)


ShowProgress: TypeAlias = Callable[[int, int, float], None]
"""Called with the number of decided pods, the total, and the virtual seconds that have passed."""


class AttemptLog(AttemptObserver):
    """Keeps the last attempt of every pod by uid. ``with_nodes`` adds the result for each node."""

    def __init__(self, *, with_nodes: bool) -> None:
        self._with_nodes = with_nodes
        self._entries: dict[str, NodeEntry] = {}
        self._of_group = False
        """Whether the next attempt that ends belongs to a member of a group."""
        self._searches: list[tuple[SearchResult | ExtendedNodes, dict[str, NodeEntry]]] = []
        self._nomination: Nomination | None = None
        self.decisions: dict[str, Decision] = {}
        self.failed_bindings: dict[str, Decision] = {}
        """The last attempt of each pod that failed in its binding cycle."""
        self.finished_bindings: set[str] = set()
        """The UIDs of pods that a Bind plugin reported as bound."""
        self.on_failure: Callable[[], None] = lambda: None
        """Called when an attempt fails with an error, or in its binding cycle: no object may show that."""

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Describe the nodes before anything changes."""
        if self._with_nodes:
            self._entries = node_entries(runner, result)
            self._searches.append((result, self._entries))

    def on_choice(self, queued: QueuedPodInfo, choice: Choice) -> None:
        """Add the scores of extenders."""
        for name, extender_score in choice.added.items():
            entry = self._entries.get(name)
            if extender_score and entry is not None and entry.total is not None:
                self._entries[name] = replace(entry, total=entry.total + extender_score, extenders=extender_score)

    def on_final_search(self, queued: QueuedPodInfo, result: SearchResult | ExtendedNodes | None) -> None:
        """Return to the node results of the search that was used."""
        self._of_group = True
        self._entries = next((entries for search, entries in self._searches if search is result), {})

    def on_group_end(self, attempt: GroupAttempt) -> None:
        """Discard the node results of the members."""
        self._searches.clear()

    def on_post_filter(self, queued: QueuedPodInfo, result: PostFiltered) -> None:
        """Record the nomination of the post-filters."""
        if result.nominated_node:
            victims = tuple(sorted(victim.key for victim in result.victims))
            self._nomination = Nomination(result.nominated_node, victims)

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Record the outcome of the attempt."""
        entries, nomination = self._entries, self._nomination
        self._entries, self._nomination = {}, None
        if not self._of_group:
            self._searches.clear()
        self._of_group = False
        match outcome:
            case Placed(node_name, tied):
                fields: dict[str, Any] = {"result": Result.SCHEDULED, "node": node_name, "tied": tied, "nodes": entries}
            case Unschedulable():
                fields = {**encode_refusal(outcome), "nodes": entries, "post_filter": nomination}
            case Failed():
                fields = encode_refusal(outcome)
                self.on_failure()
            case Dropped():
                return
        pod = queued.pod
        self.decisions[pod.metadata.uid] = Decision(
            pod=queued.key, profile=pod.scheduler_name, attempts=queued.attempts, **fields
        )

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Record that a Bind plugin reported success."""
        self.finished_bindings.add(queued.uid)

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Record that the binding cycle of a placed pod failed: in Permit, PreBind or Bind."""
        decision = self.decisions.get(queued.uid)
        if decision is not None:
            failed_decision = replace(decision, node="", tied=(), **encode_refusal(outcome))
            self.decisions[queued.uid] = self.failed_bindings[queued.uid] = failed_decision
        self.on_failure()


def not_tried(queue: SchedulingQueue, pod: Pod) -> list[Decision]:
    """Describe a pod that never entered the active queue: it or its group is gated, or its group is missing."""
    queued, queue_name = queue.find(pod), queue.where(pod)
    if queued is None or queue_name not in (GATED, INCOMPLETE):
        return []
    plugins = (queued.gating_plugin,) if queued.is_gated else ()
    result = Result.GATED if queue_name == GATED else Result.INCOMPLETE
    return [Decision(pod=pod.key, profile=pod.scheduler_name, result=result, unschedulable_plugins=plugins)]


def encode_refusal(outcome: Unschedulable | Failed) -> dict[str, Any]:
    """Return the fields of a decision that explain a failed attempt."""
    if isinstance(outcome, Failed):
        result = Result.UNSCHEDULABLE if outcome.is_rejection else Result.ERROR
        return {"result": result, "message": outcome.message}
    diagnosis = outcome.diagnosis
    pre_filter = None
    if (status := diagnosis.pre_filter) is not None:
        pre_filter = Rejection(plugin=status.plugin, code=status.code.label, reasons=status.reasons)
    return {
        "result": Result.UNSCHEDULABLE,
        "message": outcome.message,
        "unschedulable_plugins": tuple(sorted(diagnosis.unschedulable_plugins)),
        "pre_filter": pre_filter,
    }


def node_entries(runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> dict[str, NodeEntry]:
    """Describe every node that the search evaluated, in visiting order: its rejection, or its scores by plugin."""
    table = None
    if isinstance(result, ExtendedNodes):
        table, result = result.table, result.result
    if result.diagnosis.pre_filter is not None:
        return {}
    if isinstance(result, OneNode):
        scored = {result.node.name: NodeEntry()}
        if result.is_nominated:
            return scored
    else:
        scored = {} if isinstance(result, NoNode) else _scores(runner, result, table or runner.cache.nodes)
    statuses, nodes = result.diagnosis.statuses, runner.cache.nodes
    entries: dict[str, NodeEntry] = {}
    scope = result.diagnosis.scope
    for row in runner.cache.order:
        if scope is not None and not scope.mask[row]:
            continue
        name = nodes[int(row)].name
        if name in scored:
            entries[name] = scored[name]
        elif (status := statuses[name]) is not NOT_EXAMINED:
            entries[name] = NodeEntry(plugin=status.plugin, code=status.code.label, reasons=status.reasons)
    return entries


def _scores(runner: ProfileRunner, result: SeveralNodes, nodes: NodeTable) -> dict[str, NodeEntry]:
    """Score the feasible nodes without cached results."""
    rows = np.roll(runner.cache.order, -result.start)
    window = nodes.take(rows[result.feasible[rows]])
    scores = score_all(runner.profile, result.cycle.clone(), result.pod, window)
    return {
        name: NodeEntry(
            total=int(scores.totals[position]),
            scores={
                item.plugin: PluginScore(
                    int(item.raw[position]),
                    int(item.normalized[position]),
                    int(item.weight * item.normalized[position]),
                )
                for item in scores.by_plugin
            },
        )
        for position, name in enumerate(window.names)
    }
