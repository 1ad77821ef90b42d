"""PreemptionToleration: priority classes that tolerate preemptors of a slightly higher priority."""

import re
from functools import partial
from random import Random
from typing import Final

from msgspec import Struct

from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.meta import parse_time
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.config.contrib_args import PreemptionTolerationArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.group_plugins import GroupPostFilterResult
from moorage.scheduler.framework.groups import GroupTree
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.plugin import PostFilterResult
from moorage.scheduler.plugins.default_preemption.budgets import Budgets
from moorage.scheduler.plugins.default_preemption.candidates import CandidateSearch
from moorage.scheduler.plugins.default_preemption.group_preemption import GroupHandle
from moorage.scheduler.plugins.default_preemption.plugin import DefaultPreemption
from moorage.scheduler.plugins.default_preemption.units import Units

MIN_PRIORITY: Final = "preemption-toleration.scheduling.x-k8s.io/minimum-preemptable-priority"
SECONDS: Final = "preemption-toleration.scheduling.x-k8s.io/toleration-seconds"
SCHEDULED: Final = "PodScheduled"
_NUMBER: Final = re.compile(r"[+-]?[0-9]{1,18}", re.ASCII)


class ClassToleration(Struct, frozen=True):
    """The toleration of a priority class: the priority that may preempt immediately, and the delay for other pods."""

    min_priority: int
    seconds: int = 0
    """Seconds since a pod was scheduled. A negative number means forever."""


class Tolerations:
    """Selects victims: pods of lower priority, except those with a priority class that tolerates the preemptor."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._classes = handle.lister(PriorityClass)
        self._complained: dict[str, str] = {}
        self.ends_at: float | None = None
        """When the first toleration ends that protected a pod since the last reset."""

    def may_evict(self, preemptor: Pod, victim: Pod, priority: int) -> bool:
        """Return whether a pod has a lower priority and its class does not tolerate this preemptor."""
        if priority >= preemptor.priority:
            return False
        name = victim.spec.priority_class_name
        priority_class = self._classes.get(name) if name else None
        toleration = None if priority_class is None else self._toleration(priority_class)
        if toleration is None or preemptor.priority >= toleration.min_priority or toleration.seconds == 0:
            return True
        if toleration.seconds < 0:
            return False
        condition = victim.condition(SCHEDULED)
        scheduling_time = None if condition is None or condition.status != "True" else condition.last_transition_time
        # A pod that is not bound yet was scheduled just now.
        end = (
            self._handle.clock.wall() if scheduling_time is None else parse_time(scheduling_time)
        ) + toleration.seconds
        if self._handle.clock.wall() > end:
            return True
        self.ends_at = end if self.ends_at is None else min(self.ends_at, end)
        return False

    def _toleration(self, priority_class: PriorityClass) -> ClassToleration | None:
        annotations = priority_class.metadata.annotations or {}
        least, seconds = annotations.get(MIN_PRIORITY), annotations.get(SECONDS)
        if least is None and seconds is None:
            return None
        for key, text in ((MIN_PRIORITY, least), (SECONDS, seconds)):
            if text is not None and not _NUMBER.fullmatch(text):
                # Log an invalid class once per version. Its pods can be preempted like others.
                version = priority_class.metadata.resource_version
                if self._complained.get(priority_class.name) != version:
                    self._complained[priority_class.name] = version
                    hint = "write a whole number, in quotes"
                    facts = {"priority_class": priority_class.name, "annotation": key, "found": text[:40], "hint": hint}
                    self._handle.log.warning("invalid preemption toleration", **facts)
                return None
        return ClassToleration(
            priority_class.value + 1 if least is None else int(least), 0 if seconds is None else int(seconds)
        )


class PreemptionToleration(DefaultPreemption):
    """Preempt like DefaultPreemption, except for pods with toleration annotations on their PriorityClass.

    A preemptor that a toleration delayed is retried when the toleration ends.
    """

    Args = PreemptionTolerationArgs

    def __init__(
        self, *, args: PreemptionTolerationArgs | None = None, handle: GroupHandle, chance: Random | None = None
    ) -> None:
        self._tolerations = Tolerations(handle)
        super().__init__(args=args or PreemptionTolerationArgs(), handle=handle, chance=chance)

    def _make_search(
        self, args: DefaultPreemptionArgs, budgets: Budgets, chance: Random | None, units: Units | None
    ) -> CandidateSearch:
        return CandidateSearch(self._handle, args, budgets, chance, units, self._tolerations)

    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        self._tolerations.ends_at = None
        result = await super().post_filter(cycle, pod, statuses)
        if result.status is not None:
            self._try_again(pod)
        return result

    async def post_filter_group(self, cycle: CycleState, group: GroupTree) -> GroupPostFilterResult:
        self._tolerations.ends_at = None
        result = await super().post_filter_group(cycle, group)
        if result.status is not None:
            self._try_again(next(group.all_members))
        return result

    def _try_again(self, pod: Pod) -> None:
        if self._tolerations.ends_at is not None:
            seconds = max(self._tolerations.ends_at - self._handle.clock.wall(), 0.0) + 1.0
            self._handle.call_later(seconds, partial(self._handle.activate, {pod.key: pod}))
