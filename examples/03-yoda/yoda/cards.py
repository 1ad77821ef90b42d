"""The cards of one node or of all nodes as arrays, minus the memory reserved by pods."""

from collections.abc import Iterable

import numpy as np

from moorage import BoolArray, Handle, IntArray, Lister, NodeInfo, Pod, Status, parse_time
from yoda.demand import Demand, WrongLabel, cards_given, compute_demand, compute_original_demand
from yoda.scv import HEALTHY, Card, Report, Scv

MISSING = Status.unresolvable("node(s) had no Scv (does the sniffer run there?)")
FACTS, SUMS = 8, 4


class Cards:
    """Properties of the cards of one node, with shape (cards), or of many, with shape (nodes, cards)."""

    def __init__(self, facts: IntArray, sums: IntArray) -> None:
        self.exists: BoolArray = facts[0] != 0
        self.healthy: BoolArray = facts[1] != 0
        self.free, self.total, self.clock, self.core, self.power, self.bandwidth = facts[2:]
        self.card_number, self.total_sum, self.free_sum, self.asked = sums
        """The sums of the node's report, and the memory requested by the labels of its pods."""


def collect_card_facts(report: Report, width: int = 0) -> IntArray:
    """Return the cards of a report as columns, padded to ``width``."""
    facts = np.zeros((FACTS, max(width, len(report.card_list))), dtype=np.int64)
    if report.card_list:
        facts[:, : len(report.card_list)] = np.array([_facts(card) for card in report.card_list]).T
    return facts


def _facts(card: Card) -> tuple[int, ...]:
    is_healthy = card.health == HEALTHY
    return 1, is_healthy, card.free_memory, card.total_memory, card.clock, card.core, card.power, card.bandwidth


def sum_card_facts(report: Report, requested: int) -> IntArray:
    """Return the sums of a report for the node."""
    return np.array((report.card_number, report.total_memory_sum, report.free_memory_sum, requested), dtype=np.int64)


class CardReader:
    """Reads the cards of single nodes; with ``counts_pods``, subtracts assigned memory that is not reported yet."""

    def __init__(self, handle: Handle, scvs: Lister[Scv], *, counts_pods: bool) -> None:
        self._handle = handle
        self._scvs = scvs
        self._counts_pods = counts_pods

    def report(self, node_name: str) -> Report | Status:
        """Return the report of a node, or the reason why it is missing."""
        scv = self._scvs.get(node_name)
        if scv is None:
            return MISSING
        report = scv.report
        return report if isinstance(report, Report) else unreadable(report)

    def read(self, node: NodeInfo) -> Cards | Status:
        """Return the cards of a node, real or hypothetical, or the reason why they are unknown."""
        facts = self.read_facts(node)
        return facts if isinstance(facts, Status) else Cards(*facts)

    def read_facts(self, node: NodeInfo, width: int = 0) -> tuple[IntArray, IntArray] | Status:
        """Return facts and sums of a node, or the reason why they are unknown."""
        report = self.report(node.name)
        if isinstance(report, Status):
            return report
        facts = collect_card_facts(report, width)
        if not self._counts_pods:
            return facts, sum_card_facts(
                report, sum(compute_original_demand(pod).memory or 0 for pod in node.pods.values())
            )
        demands = {uid: demand for uid, pod in node.pods.items() if (demand := _valid_demand(pod)) is not None}
        if node.pods or self._handle.nodes.find(node.name) is not node:
            self._take_off(facts, report, node, demands)
        return facts, sum_card_facts(report, sum(demand.total for demand in demands.values()))

    def _take_off(self, facts: IntArray, report: Report, node: NodeInfo, demands: dict[str, Demand]) -> None:
        """Subtract memory that pods hold but the report does not include.

        Free memory is limited by the card's total less its pods, and by the reported value less the pods that started
        since the report. Pods removed in a what-if release the memory that the report contains.
        """
        index_by_id = {card.id: index for index, card in enumerate(report.card_list)}
        real = self._handle.nodes.find(node.name)
        there = real.pods if real is not None else node.pods
        reserved, since = np.zeros_like(facts[2]), np.zeros_like(facts[2])
        for uid, demand in demands.items():
            indexes = [index_by_id[card] for card in cards_given(node.pods[uid]) if card in index_by_id]
            reserved[indexes] += demand.memory or 0
            if not _is_reported(node.pods[uid], report):
                since[indexes] += demand.memory or 0
        for pod in _gone(there.values(), node):
            if (demand_then := _valid_demand(pod)) is not None and _is_reported(pod, report):
                since[[index_by_id[card] for card in cards_given(pod) if card in index_by_id]] -= (
                    demand_then.memory or 0
                )
        np.clip(facts[2] - since, 0, np.maximum(facts[3] - reserved, 0), out=facts[2])
        for uid, demand in demands.items():
            if uid not in there:
                # A hypothetical pod, such as a nominated one, would also be assigned cards.
                facts[2, best_cards(Cards(facts, np.zeros(SUMS, dtype=np.int64)), demand)] -= demand.memory or 0


def usable(cards: Cards, demand: Demand) -> BoolArray:
    """Find the usable cards."""
    enough: BoolArray = (cards.clock >= (demand.clock or 0)) & (cards.free >= (demand.memory or 0))
    return enough & cards.healthy & cards.exists


def best_cards(cards: Cards, demand: Demand) -> list[int]:
    """Return the indexes of the cards for a pod: those with the least free memory."""
    indexes: list[int] = np.flatnonzero(usable(cards, demand)).tolist()
    return sorted(indexes, key=lambda index: (int(cards.free[index]), index))[: demand.cards]


def unreadable(problem: str) -> Status:
    """Return the status for an invalid Scv."""
    return Status.unresolvable(f"node(s) had an invalid Scv ({problem})")


def _valid_demand(pod: Pod) -> Demand | None:
    """Return the demand of a pod on a node; a pod with invalid labels holds nothing."""
    try:
        demand = compute_demand(pod)
    except WrongLabel:
        return None
    return demand if demand.memory and not pod.is_finished else None


def _is_reported(pod: Pod, report: Report) -> bool:
    """Return whether a report was made after the pod had started."""
    ready = pod.condition("Ready")
    if ready is None or ready.status != "True" or not ready.last_transition_time:
        return False
    return parse_time(ready.last_transition_time) < report.time


def _gone(pods: Iterable[Pod], node: NodeInfo) -> list[Pod]:
    return [pod for pod in pods if pod.uid not in node.pods]
