"""Usable cards and node scores: corrected rules, and rules with the original's numbers.

Every formula works on the cards of one node and on those of all nodes.
"""

from typing import Annotated

import numpy as np
from msgspec import Meta, Struct

from moorage import BoolArray, IntArray, Pod, QueuedPod, Status
from yoda.cards import Cards, usable
from yoda.demand import PRIORITY, Demand, check_labels, compute_demand, compute_original_demand, number

FEW_HEALTHY = Status.unresolvable("node(s) had too few healthy cards")
SLOW = Status.unresolvable("node(s) had too few cards with the requested clock")
SMALL = Status.unresolvable("node(s) had too few cards with the requested memory")
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
    """The maximum of each property among the usable cards of the cluster; at least 1."""

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
        """Read the labels of a pod; raise WrongLabel for an invalid number."""
        check_labels(pod)
        return compute_demand(pod)

    def sort_key(self, queued: QueuedPod) -> tuple[float, ...]:
        """Sort by ``scv/priority``, then by waiting time."""
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
        """Find the maxima among the usable cards of feasible nodes."""
        enough = ~np.any([short for short, _ in self.shortages(reported, demand)], axis=0)
        return Maxima.of(reported, self.counting(reported, demand) & enough[..., np.newaxis])

    def score(self, cards: Cards, demand: Demand, maxima: Maxima) -> IntArray:
        """Score nodes by their cards, the memory reserved for pods, and the memory in use."""
        total, free = self.memory(cards)
        # A node without memory scores 0; the original divides by zero.
        divisor, has_any = np.maximum(total, 1), total > 0
        reserved = np.maximum(total - cards.asked, 0) * 100 // divisor * self._weights.allocate
        in_use = free * has_any * 100 // divisor * self._weights.actual
        score: IntArray = self.basic(cards, demand, maxima) + reserved + in_use
        return score

    def memory(self, cards: Cards) -> tuple[IntArray, IntArray]:
        """Return the total and the free memory of each node."""
        return np.sum(cards.total, axis=-1, where=cards.healthy), np.sum(cards.free, axis=-1, where=cards.healthy)

    def basic(self, cards: Cards, demand: Demand, maxima: Maxima) -> IntArray:
        """Sum the scores of the usable cards."""
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
    """The original's numbers, including its bugs: ``strictCompat: true``."""

    def demand(self, pod: Pod) -> Demand:
        """Read the labels of a pod; invalid numbers are 0."""
        return compute_original_demand(pod)

    def sort_key(self, queued: QueuedPod) -> tuple[float, ...]:
        """Sort by ``scv/priority`` only."""
        return (-number(queued.pod.labels.get(PRIORITY, "")),)

    def shortages(self, cards: Cards, demand: Demand) -> list[tuple[BoolArray, Status]]:
        """Count cards by memory and by clock separately; the clock must be equal."""
        short, good = cards.card_number < demand.cards, cards.exists & cards.healthy
        if demand.memory is not None:
            short = short | (np.count_nonzero(good & (cards.free >= demand.memory), axis=-1) < demand.cards)
        if demand.clock is not None:
            short = short | (np.count_nonzero(good & (cards.clock == demand.clock), axis=-1) < demand.cards)
        return [(short, SHORT)]

    def counting(self, cards: Cards, demand: Demand) -> BoolArray:
        """Find the cards that count for the score, healthy or not; their clock may be higher."""
        enough: BoolArray = (cards.free >= (demand.memory or 0)) & (cards.clock >= (demand.clock or 0))
        return enough & cards.exists

    def memory(self, cards: Cards) -> tuple[IntArray, IntArray]:
        """Use the sums in the report."""
        return cards.total_sum, cards.free_sum

    def basic(self, cards: Cards, demand: Demand, maxima: Maxima) -> IntArray:
        """Sum the scores of the usable cards of feasible nodes."""
        ((short, _),) = self.shortages(cards, demand)
        return np.where(short, 0, super().basic(cards, demand, maxima))

    def clock_divisor(self, maxima: Maxima) -> int:
        """Divide clocks by the largest bandwidth."""
        return maxima.bandwidth
