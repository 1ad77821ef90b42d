"""Usable cards and node scores: once corrected, once with the original's numbers.

Every formula is written once and works on the cards of one node and on those of all nodes.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from moorage import BoolArray, IntArray, Pod, QueuedPod, Status
from yoda.cards import Cards, usable
from yoda.demand import PRIORITY, Demand, check_labels, demand_of, number, original_demand_of

FEW_HEALTHY = Status.unresolvable("node(s) had too few healthy cards")
SLOW = Status.unresolvable("node(s) had too few cards with the wanted clock")
SMALL = Status.unresolvable("node(s) had too few cards with the wanted memory")
FULL = Status.unschedulable("node(s) had too little free memory on their cards")
SHORT = Status.unschedulable("node(s) had too few cards, too little free memory, or another clock")

Weight = Annotated[int, Meta(ge=0, le=1000)]


class Weights(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """How much each term of the score counts."""

    bandwidth: Weight = 1
    clock: Weight = 1
    core: Weight = 1
    power: Weight = 1
    free_memory: Weight = 2
    total_memory: Weight = 1
    actual: Weight = 2
    allocate: Weight = 3


class Maxima(Struct, frozen=True):
    """The largest of each fact among the cards of the cluster that would do for a pod; at least 1."""

    bandwidth: int = 1
    clock: int = 1
    core: int = 1
    free: int = 1
    power: int = 1
    total: int = 1

    @classmethod
    def of(cls, cards: Cards, where: BoolArray) -> "Maxima":
        """Find the maxima of some cards."""
        facts = {name: getattr(cards, name) for name in cls.__struct_fields__}
        return cls(**{name: int(np.max(fact, where=where, initial=1)) for name, fact in facts.items()})


class Rules:
    """Corrected rules: one card must have all requested properties, and its clock may be higher than requested."""

    def __init__(self, weights: Weights) -> None:
        self._weights = weights

    def demand(self, pod: Pod) -> Demand:
        """Read the labels of a pod; WrongLabel if one is no number."""
        check_labels(pod)
        return demand_of(pod)

    def sort_key(self, queued: QueuedPod) -> tuple[float, ...]:
        """Sort by ``scv/priority``, then by the time of waiting."""
        return -number(queued.pod.labels.get(PRIORITY, "")), queued.timestamp

    def shortages(self, cards: Cards, demand: Demand) -> list[tuple[BoolArray, Status]]:
        """Return the infeasible nodes, each with its first reason."""
        good = cards.exists & cards.healthy
        fast = good & (cards.clock >= (demand.clock or 0))
        large = fast & (cards.total >= (demand.memory or 0))
        free = large & (cards.free >= (demand.memory or 0))
        short = [np.count_nonzero(mask, axis=-1) < demand.cards for mask in (good, fast, large, free)]
        return [
            (short[0], FEW_HEALTHY),
            (short[1] & ~short[0], SLOW),
            (short[2] & ~short[1], SMALL),
            (short[3] & ~short[2], FULL),
        ]

    def counting(self, cards: Cards, demand: Demand) -> BoolArray:
        """Find the cards that count for the score."""
        return usable(cards, demand)

    def maxima(self, reported: Cards, demand: Demand) -> Maxima:
        """Find the maxima among all cards that count, of nodes that have enough of them."""
        enough = ~np.any([short for short, _ in self.shortages(reported, demand)], axis=0)
        return Maxima.of(reported, self.counting(reported, demand) & enough[..., np.newaxis])

    def score(self, cards: Cards, demand: Demand, maxima: Maxima) -> IntArray:
        """Rank nodes by their cards, the memory promised to pods, and the memory in use."""
        total, free = self.memory(cards)
        # A node without any memory is worth nothing; the original divides by zero.
        divisor, has_any = np.maximum(total, 1), total > 0
        promised = np.maximum(total - cards.asked, 0) * 100 // divisor * self._weights.allocate
        in_use = free * has_any * 100 // divisor * self._weights.actual
        score: IntArray = self.basic(cards, demand, maxima) + promised + in_use
        return score

    def memory(self, cards: Cards) -> tuple[IntArray, IntArray]:
        """Return how much memory each node has, and how much of it is free."""
        return np.sum(cards.total, axis=-1, where=cards.healthy), np.sum(cards.free, axis=-1, where=cards.healthy)

    def basic(self, cards: Cards, demand: Demand, maxima: Maxima) -> IntArray:
        """Add up the cards that count."""
        weights = self._weights
        worth = (
            cards.bandwidth * 100 // maxima.bandwidth * weights.bandwidth
            + cards.clock * 100 // self.clock_divisor(maxima) * weights.clock
            + cards.core * 100 // maxima.core * weights.core
            + cards.power * 100 // maxima.power * weights.power
            + cards.free * 100 // maxima.free * weights.free_memory
            + cards.total * 100 // maxima.total * weights.total_memory
        )
        total: IntArray = np.sum(worth, axis=-1, where=self.counting(cards, demand))
        return total

    def clock_divisor(self, maxima: Maxima) -> int:
        """Return the divisor of a clock."""
        return maxima.clock


class OriginalRules(Rules):
    """With the original's numbers, slips included: ``strictCompat: true``."""

    def demand(self, pod: Pod) -> Demand:
        """Read the labels of a pod: what is no number is 0."""
        return original_demand_of(pod)

    def sort_key(self, queued: QueuedPod) -> tuple[float, ...]:
        """Sort by ``scv/priority`` and nothing else."""
        return (-number(queued.pod.labels.get(PRIORITY, "")),)

    def shortages(self, cards: Cards, demand: Demand) -> list[tuple[BoolArray, Status]]:
        """Count cards, memory and clock apart: other cards may have the one and the other. The clock must be equal."""
        short, good = cards.card_number < demand.cards, cards.exists & cards.healthy
        if demand.memory is not None:
            short = short | (np.count_nonzero(good & (cards.free >= demand.memory), axis=-1) < demand.cards)
        if demand.clock is not None:
            short = short | (np.count_nonzero(good & (cards.clock == demand.clock), axis=-1) < demand.cards)
        return [(short, SHORT)]

    def counting(self, cards: Cards, demand: Demand) -> BoolArray:
        """Find the cards that count for the score, healthy or not, this time with a clock that may be higher."""
        enough: BoolArray = (cards.free >= (demand.memory or 0)) & (cards.clock >= (demand.clock or 0))
        return enough & cards.exists

    def memory(self, cards: Cards) -> tuple[IntArray, IntArray]:
        """Believe the sums in the report."""
        return cards.total_sum, cards.free_sum

    def basic(self, cards: Cards, demand: Demand, maxima: Maxima) -> IntArray:
        """Add up the usable cards of feasible nodes."""
        ((short, _),) = self.shortages(cards, demand)
        return np.where(short, 0, super().basic(cards, demand, maxima))

    def clock_divisor(self, maxima: Maxima) -> int:
        """Divide clocks by the largest bandwidth."""
        return maxima.bandwidth
