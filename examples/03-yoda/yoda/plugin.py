"""The plugin: the order of pods, the nodes with suitable cards, their scores, and the assignment of cards."""

from collections.abc import Hashable, Sequence
from typing import Any, ClassVar, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from moorage import (
    ASSUMED,
    Action,
    ClusterEvent,
    CycleState,
    DependsOn,
    EventRegistration,
    FilterPlugin,
    Handle,
    IntArray,
    NodeInfo,
    NodeTable,
    Pod,
    PreBindPlugin,
    PreFilterPlugin,
    PreScorePlugin,
    QueuedPod,
    QueueingHint,
    QueueSortPlugin,
    ReservePlugin,
    Resource,
    ScorePlugin,
    StateKey,
    Status,
    Verdict,
)
from yoda.cards import CardReader, Cards, best_cards
from yoda.columns import CardColumns
from yoda.demand import CARDS, Demand, WrongLabel
from yoda.rules import FULL, Maxima, OriginalRules, Rules, Weights
from yoda.scv import SCV, Report, Scv

MAXIMA: Final = StateKey[Maxima]("yoda: the maximum of each property", missing="enable yoda at preScore, too")


class YodaArgs(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """``strictCompat`` reproduces the original's numbers. ``master`` and ``kubeconfig`` of older files are ignored."""

    strict_compat: bool = False
    weights: Weights = Weights()
    master: str = ""
    kubeconfig: str = ""


class Yoda(  # every extension point that it implements
    QueueSortPlugin, PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin, ReservePlugin, PreBindPlugin
):
    """Place pods by the cards of nodes, as Scv objects report them."""

    name: ClassVar[str] = "yoda"
    Args = YodaArgs
    depends_on = DependsOn.PODS

    def __init__(self, *, args: YodaArgs, handle: Handle) -> None:
        self._handle = handle
        self._is_strict = args.strict_compat
        self._rules = OriginalRules(args.weights) if args.strict_compat else Rules(args.weights)
        self._scvs = handle.lister(Scv)
        self._reader = CardReader(handle, self._scvs, counts_pods=not args.strict_compat)
        self._columns = CardColumns(handle, self._scvs, self._reader)

    def sort_key(self, queued: QueuedPod) -> tuple[float, ...]:
        """Try pods with a high ``scv/priority`` first."""
        return self._rules.sort_key(queued)

    def sign(self, pod: Pod) -> Hashable:
        """Share results among pods that request the same cards."""
        return self._demand(pod)

    def epoch(self) -> Hashable:
        """Discard cached results after each report of a sniffer."""
        return self._scvs.version

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Reject a pod with invalid labels; skip a pod that requests no card."""
        demand = self._demand(pod)
        if isinstance(demand, Status):
            return demand
        return Status.skip() if demand.cards == 0 and not self._is_strict else None

    def _demand(self, pod: Pod) -> Demand | Status:
        try:
            return self._rules.demand(pod)
        except WrongLabel as problem:
            return Status.unresolvable(str(problem))

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Accept a node with enough free cards for the pod."""
        demand, cards = self._demand(pod), self._cards(node)
        if isinstance(demand, Status):
            return demand
        if isinstance(cards, Status):
            return cards
        return next((status for is_short, status in self._rules.shortages(cards, demand) if is_short), None)

    def _cards(self, node: NodeInfo) -> Cards | Status:
        """Return the cards of a node: from the columns, unless the node is hypothetical."""
        is_real = self._handle.nodes.find(node.name) is node
        return self._columns.of(node) if is_real else self._reader.read(node)

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        """Filter all nodes together."""
        demand = self._demand(pod)
        if isinstance(demand, Status) or not nodes.is_window_of(self._handle.nodes):
            return super().filter_nodes(cycle, pod, nodes)
        cards, unknown = self._columns.window(nodes)
        has_report = ~unknown.rejected
        rejections = ((mask & has_report, status) for mask, status in self._rules.shortages(cards, demand))
        return Verdict(len(nodes), (*unknown.rejections, *rejections))

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Find the maximum of every property in the cluster; scores are relative to it."""
        demand = self._demand(pod)
        if isinstance(demand, Status) or (demand.cards == 0 and not self._is_strict):
            return Status.skip()
        cycle[MAXIMA] = self._rules.maxima(self._columns.reported, demand)
        return None

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Rank a node by its cards; a node without a report scores zero."""
        cards = self._cards(node)
        return 0 if isinstance(cards, Status) else int(self._rules.score(cards, self._rules.demand(pod), cycle[MAXIMA]))

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        """Score all nodes together."""
        if not nodes.is_window_of(self._handle.nodes):
            return super().score_nodes(cycle, pod, nodes)
        cards, unknown = self._columns.window(nodes)
        return np.where(unknown.rejected, 0, self._rules.score(cards, self._rules.demand(pod), cycle[MAXIMA]))

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        """Map the scores to the range from 0 to 100; if all are equal, to 100."""
        low, high = int(scores.min()), max(int(scores.max()), 0)
        low -= low == high
        return (scores - low) * 100 // (high - low)

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Choose the pod's cards, and record them immediately, before the next report."""
        demand, node = self._rules.demand(pod), self._handle.nodes.find(node_name)
        if self._is_strict or demand.cards == 0 or node is None:
            return None
        without = node.copy()
        if pod.uid in without.pods:
            without.remove_pod(pod)
        cards, report = self._reader.read(without), self._reader.report(node_name)
        if isinstance(cards, Status) or isinstance(report, Status):
            return FULL
        indexes = best_cards(cards, demand)
        if len(indexes) < demand.cards:
            return FULL
        card_ids = ",".join(str(report.card_list[index].id) for index in sorted(indexes))
        counted = cycle.get(ASSUMED) or pod
        annotations = {**counted.annotations, CARDS: card_ids}
        cycle[ASSUMED] = replace(counted, metadata=replace(counted.metadata, annotations=annotations))
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Do nothing: the cards are free because the pod is no longer assumed on its node."""

    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Skip pods without cards."""
        return None if self._card_ids(cycle) else Status.skip()

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write the cards of the pod to its annotation, before it starts."""
        await self._handle.cluster.patch(pod, {"metadata": {"annotations": {CARDS: self._card_ids(cycle)}}})
        return None

    def _card_ids(self, cycle: CycleState) -> str:
        counted = cycle.get(ASSUMED)
        return "" if counted is None or self._is_strict else counted.annotations.get(CARDS, "")

    def events_to_register(self) -> Sequence[EventRegistration]:
        """Retry a pod after a report of enough cards, a new node, a deleted pod, or a change of its labels."""
        return (
            EventRegistration(ClusterEvent(SCV.event_resource, Action.ADD | Action.UPDATE), self.after_report),
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD)),
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)),
            EventRegistration(ClusterEvent(Resource.POD, Action.UPDATE_POD_LABEL)),
        )

    def after_report(self, pod: Pod, old: Any, new: Any) -> QueueingHint:
        """Retry the pod if the reported node is feasible now."""
        node = self._handle.nodes.find(new.name) if isinstance(new, Scv) and isinstance(new.report, Report) else None
        if node is None or self.filter(CycleState(), pod, node) is not None:
            return QueueingHint.SKIP
        return QueueingHint.QUEUE
