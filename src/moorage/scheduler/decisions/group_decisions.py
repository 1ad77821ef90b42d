"""Decisions on pod groups. The kube-scheduler oracle writes the same format."""

from enum import StrEnum

from msgspec import Struct, field

from moorage.scheduler.engine.group_points import PlacementScores
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.framework.status import Code

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
    best = [name for name, total in zip(names, totals, strict=True) if total == max(totals)]
    by_name = {
        name: {"total": total, **{plugin: int(part[position]) for plugin, part in scores.by_plugin.items()}}
        for position, (name, total) in enumerate(zip(names, totals, strict=True))
    }
    return PlacementScoring(group, tuple(best) if len(best) > 1 else (), by_name)
