"""Choosing where evicting pods does the least harm."""

from collections.abc import Mapping
from typing import Final

from moorage.framework.victims import Victims
from moorage.plugins.default_preemption.dry_run import start_time

PRIORITY_SHIFT: Final = 1 << 31
"""Makes every priority positive, so that one more victim always counts against a node."""


def least_harmful(candidates: Mapping[str, Victims], now: float) -> str:
    """Return the node to take, the first of several that are equally good.

    Fewest violated budgets, then the lowest highest priority, the smallest sum of priorities, the fewest victims, and
    the most important of them having started last.
    """
    best = list(candidates)
    for harm in (_violations, _highest_priority, _sum_of_priorities, _count, lambda victims: -_start(victims, now)):
        if len(best) > 1:
            harms = [harm(candidates[name]) for name in best]
            least = min(harms)
            best = [name for name, harm_there in zip(best, harms, strict=True) if harm_there == least]
    return best[0]


def _violations(victims: Victims) -> int:
    return victims.violations


def _highest_priority(victims: Victims) -> int:
    return victims.pods[0].priority


def _sum_of_priorities(victims: Victims) -> int:
    return sum([pod.priority for pod in victims.pods]) + PRIORITY_SHIFT * len(victims.pods)


def _count(victims: Victims) -> int:
    return len(victims.pods)


def _start(victims: Victims, now: float) -> float:
    """Return when the first of the most important victims started; an extender need not have sorted them."""
    highest = max([pod.priority for pod in victims.pods])
    return min([start_time(pod, now) for pod in victims.pods if pod.priority == highest])
