"""Rewards: the facts about a step, and the rewards that are available by name."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from msgspec import Struct

from moorage.common.errors import InputError, did_you_mean

PENALTY: Final = -1.0
"""Penalty for an action that selects an infeasible node."""


class StepFacts(Struct, frozen=True):
    """Facts about the time between two questions."""

    placed: float
    """Requests of the pods that got a node, as a share of total capacity: the mean over the observed resources."""
    waiting: float
    """Waiting time in pod-seconds: two pods that wait for three seconds count as 6."""
    seconds: float
    """How much time passed in the cluster."""


Reward = Callable[[StepFacts], float]

REWARDS: Final[Mapping[str, Reward]] = MappingProxyType(
    {
        "placed": lambda facts: facts.placed,
        "waiting": lambda facts: -facts.waiting / 3600.0,
    }
)
"""``placed``: the placed share of the cluster over an episode. ``waiting``: hours of waiting, as a loss."""


def reward_of(reward: str | Reward) -> Reward:
    """Find a reward by its name; a function is one already."""
    if not isinstance(reward, str):
        return reward
    if reward not in REWARDS:
        hint = did_you_mean(reward, REWARDS) or f"one of {', '.join(REWARDS)}, or a function of StepFacts"
        raise InputError("reward", f"unknown reward {reward!r}", hint=hint)
    return REWARDS[reward]
