"""Victims of a preemption on one node, and their order."""

from functools import cached_property
from math import inf
from typing import Final, NamedTuple

from msgspec import Struct

from moorage.kube.api.meta import parse_time
from moorage.kube.api.pod import Pod

PRIORITY_SHIFT: Final = 1 << 31
"""Makes every priority positive, so that one more victim always counts against a node."""


class Harm(NamedTuple):
    """The cost of the victims. Among equal costs, a later start of the most important victim is better."""

    weight: tuple[int, int, int, int]
    """Violated budgets, the priority of the first victim, the sum of all priorities, and how many they are."""
    started: float
    """When the first of the most important victims started."""
    has_unstarted: bool
    """Whether one of the most important victims has not started yet: it is treated as starting now."""

    def start(self, now: float) -> float:
        """Return when the first of the most important victims started, or starts."""
        return min(self.started, now) if self.has_unstarted else self.started


class Victims(Struct, frozen=True, dict=True):
    """Pods of a node, the most important first, and how many of them a disruption budget protects."""

    pods: tuple[Pod, ...]
    violations: int = 0

    @cached_property
    def harm(self) -> Harm:
        """Cost of evicting them."""
        priorities = [pod.priority for pod in self.pods]
        highest = max(priorities)
        # An extender need not have sorted them.
        starts = [pod.status.start_time for pod in self.pods if pod.priority == highest]
        started = min((parse_time(start) for start in starts if start is not None), default=inf)
        total = sum(priorities) + PRIORITY_SHIFT * len(priorities)
        return Harm((self.violations, priorities[0], total, len(priorities)), started, None in starts)
