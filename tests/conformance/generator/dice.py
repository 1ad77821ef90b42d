"""Seeded randomness: the same seed gives the same cluster on all machines."""

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

T = TypeVar("T")

#: Frequencies of a topic; many zeros, so that most clusters have few topics.
DIALS: Final = (0.0, 0.0, 0.0, 0.0, 0.1, 0.3, 0.8)
KEEN: Final = (0.3, 0.6, 0.95)


class Dice:
    """A source of randomness for one cluster.

    Each topic has a frequency that is set once per cluster, and clusters differ in their topics and in
    detail: one is all affinity, the next mixes ports with preemption.
    """

    def __init__(self, seed: str) -> None:
        self._random = Random(seed)
        self._dials: dict[str, float] = {}
        self._only: frozenset[str] | None = None

    def focus(self, topics: frozenset[str]) -> None:
        """Restrict the cluster to these topics, with high frequencies."""
        self._only = topics

    def chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self._random.random() < probability

    def wants(self, topic: str, share: float = 1.0) -> bool:
        """Return True with the frequency of the topic in this cluster, times a share."""
        return self.chance(self.dial(topic) * share)

    def dial(self, topic: str) -> float:
        """Return the frequency of a topic in this cluster."""
        if topic not in self._dials:
            if self._only is None:
                self._dials[topic] = self.pick(DIALS)
            else:
                self._dials[topic] = self.pick(KEEN) if topic in self._only else 0.0
        return self._dials[topic]

    def number(self, least: int, most: int) -> int:
        """Return a random integer, both ends included."""
        return self._random.randint(least, most)

    def pick(self, items: Sequence[T]) -> T:
        """Return a random item."""
        return items[self._random.randrange(len(items))]

    def some(self, items: Sequence[T], least: int = 0, most: int | None = None) -> list[T]:
        """Return several different items in random order."""
        top = len(items) if most is None else min(most, len(items))
        return self._random.sample(list(items), self.number(min(least, top), top))

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """Return all items in random order."""
        return self.some(items, len(items))
