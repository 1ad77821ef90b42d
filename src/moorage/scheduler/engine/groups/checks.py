"""Fields that all pods of a group must have in common; the first violation fails the entire group."""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Final

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.groups import Group

PREEMPT_LOWER: Final = "PreemptLowerPriority"
TOGETHER: Final = "all pods in a single pod group should have the same"


def apply_default(value: str | None) -> str:
    """Return a preemption policy, by default PreemptLowerPriority."""
    return value or PREEMPT_LOWER


def violation(root: Group, queued: Sequence[Pod], scheduled: Iterable[Pod], *, with_policy: bool) -> str:
    """Describe the first difference between pods of a group: scheduler, priority and preemption policy must agree.

    With ``with_policy`` (gate PodGroupPreemptionPolicy) the group's preemption policy counts.
    """
    first = queued[0]
    for pod in chain(queued, scheduled):
        if pod.scheduler_name != first.scheduler_name:
            return f'{TOGETHER} .spec.schedulerName set, got: "{pod.scheduler_name}" and "{first.scheduler_name}"'
        if pod.priority != root.priority:
            text = "priority as the pod group's priority, got"
            return f"{TOGETHER} {text} {pod.priority} and {root.priority}"
        policy = apply_default(pod.spec.preemption_policy)
        if with_policy and policy != (expected_policy := apply_default(root.spec.preemption_policy)):
            text = "preemption policy as the pod group's preemption policy, got"
            return f"{TOGETHER} {text} {policy} and {expected_policy}"
        if not with_policy and policy != (expected_policy := apply_default(first.spec.preemption_policy)):
            return f"{TOGETHER} preemption policy, got {policy} and {expected_policy}"
    return ""
