"""Choosing where evicting pods does the least harm."""

from collections.abc import Mapping

from moorage.scheduler.framework.victims import Victims


def least_harmful(candidates: Mapping[str, Victims], now: float) -> str:
    """Return the node to take, the first of several that are equally good.

    Fewest violated budgets, then the lowest highest priority, the smallest sum of priorities, the fewest victims, and
    the most important of them having started last.
    """
    harms = {name: victims.harm for name, victims in candidates.items()}
    least = min([harm.weight for harm in harms.values()])
    best = [name for name, harm in harms.items() if harm.weight == least]
    return max(best, key=lambda name: harms[name].start(now))
