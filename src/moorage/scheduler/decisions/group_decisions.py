"""What was decided on groups of pods, in the format that kube-scheduler's side of a comparison speaks too."""

from collections.abc import Iterator
from enum import StrEnum

from msgspec import Struct, field

from moorage.scheduler.engine.group_points import PlacementScores
from moorage.scheduler.engine.group_results import GroupAttempt, GroupTrial
from moorage.scheduler.framework.status import Code

TOLD = ("status", "reason", "message")
"""What is reported of a condition."""


class GroupResult(StrEnum):
    """How trying a group ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    WAITING = "waiting"
    ERROR = "error"


class GroupNomination(Struct, frozen=True, rename="camel"):
    """What preemption found for a group: a node for each pod that would have one, and who would have to leave."""

    nominated_nodes: dict[str, str]
    victims: tuple[str, ...] = ()


class PlacementScoring(Struct, frozen=True, rename="camel", omit_defaults=True):
    """A choice among placements: the scores of each, and those that upstream might have drawn."""

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
    """Describe an attempt that is over."""
    trial, status = attempt.trial, attempt.status
    return GroupDecision(
        group=attempt.root.key,
        kind=type(attempt.root).__name__,
        profile=attempt.profile,
        result=_result(attempt),
        message="" if status is None else status.message,
        pods=tuple(member.pod.key for member in attempt.members),
        placements=dict(_placements(trial)) if trial is not None else {},
        scored=tuple(_scoring(group, scores) for group, scores in attempt.scored),
        conditions={
            group: {key: told[key] for key in TOLD if told[key]} for group, told in attempt.conditions.items() if told
        },
        post_filter=_nomination(attempt),
    )


def _result(attempt: GroupAttempt) -> GroupResult:
    if attempt.status is None:
        return GroupResult.SCHEDULED
    if not attempt.status.is_rejection:
        return GroupResult.ERROR
    waits = attempt.trial is not None and attempt.trial.waits_for_victims
    return GroupResult.WAITING if waits else GroupResult.UNSCHEDULABLE


def _placements(trial: GroupTrial) -> Iterator[tuple[str, str]]:
    for leaf in trial.leaves:
        if leaf.placement and any(True for _ in leaf.placed):
            yield leaf.tree.key, leaf.placement


def _scoring(group: str, scores: PlacementScores) -> PlacementScoring:
    totals = scores.totals.tolist()
    names = [placement.name for placement in scores.placements]
    best = [name for name, total in zip(names, totals, strict=True) if total == max(totals)]
    said = {
        name: {"total": total, **{plugin: int(part[place]) for plugin, part in scores.by_plugin.items()}}
        for place, (name, total) in enumerate(zip(names, totals, strict=True))
    }
    return PlacementScoring(group, tuple(best) if len(best) > 1 else (), said)


def _nomination(attempt: GroupAttempt) -> GroupNomination | None:
    done = attempt.post_filtered
    if done is None or done.code is not Code.SUCCESS:
        return None
    pods = {member.uid: member.pod.key for member in attempt.members}
    nominated = {pods[uid]: node for uid, node in done.nominated.items() if uid in pods}
    return GroupNomination(nominated, tuple(sorted(victim.key for victim in done.victims)))
