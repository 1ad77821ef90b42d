"""The plugin: it adds a source of groups to GangScheduling, and events for their pods."""

from collections.abc import Hashable, Iterable, Sequence
from functools import partial
from typing import ClassVar, Final

import numpy as np
from msgspec import Struct

from moorage.contrib.community.coscheduling.gangs import (
    BY_LABEL,
    CoschedulingGroup,
    Gangs,
    Phases,
    group_name,
    is_settled,
    plain_name,
)
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.api.requests import countable
from moorage.scheduler.config.contrib_args import CoschedulingArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import QueueingHint, queue_if
from moorage.scheduler.framework.group_plugins import GroupSourcePlugin
from moorage.scheduler.framework.groups import DescribedGroup, Group, GroupTree
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    PostFilterPlugin,
    PostFilterResult,
    PreFilterPlugin,
    QueuedPod,
    QueueSortPlugin,
    ReservePlugin,
)
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.gang_scheduling import GangScheduling
from moorage.scheduler.state.handle import ClusterHandle
from moorage.scheduler.state.pod_groups import Members, group_key

MAX_PERMIT_WAIT: Final = 900.0
REPORT_AFTER: Final = 10.0
"""Delay before a problem of a group is reported, since its pods seldom arrive together."""
REPORT_AGAIN: Final = 300.0


class GroupWait(Struct):
    """The state of a group that is or was delayed."""

    until: float = 0.0
    """Earliest time of a retry after a failure."""
    is_due: bool = False
    """Whether events of its pods must report the problem. An attempt without effect writes them."""
    reported_at: float | None = None
    is_timed: bool = False


HOLDS: Final = StateKey[dict[str, GroupWait]]("delayed groups")
"""By key; plugins of all profiles share them, because a group may have pods of several profiles."""


class Coscheduling(
    GangScheduling, GroupSourcePlugin, QueueSortPlugin, PreFilterPlugin, PostFilterPlugin, ReservePlugin
):
    """Start pods together that are grouped by a label or an annotation.

    A group is scheduled as a unit; a pending group reserves nothing. Events of its pods report the obstacle, ten
    seconds after it was detected.
    """

    Args = CoschedulingArgs
    depends_on = DependsOn.NODE
    group_kinds = (CoschedulingGroup,)
    _idle_when_skipped = True
    _minimum: ClassVar[str] = "minMember"

    def __init__(self, *, args: CoschedulingArgs | None = None, handle: ClusterHandle) -> None:
        super().__init__(handle=handle)
        self._args = args or CoschedulingArgs()
        self._gangs = Gangs(handle.lister(CoschedulingGroup))
        self._holds: dict[str, GroupWait] = handle.shared(HOLDS, dict)
        self._phases = Phases(handle, self._gangs, handle.groups)

    async def start(self) -> None:
        self._phases.start()
        # Timers of the previous instance end with it, but the pods it delayed are delayed for all.
        now = self._handle.clock.now()
        for key, hold in self._holds.items():
            if hold.until > now:
                self._handle.call_later(hold.until - now, partial(self._try_again, key))
            if hold.is_timed:
                self._handle.call_later(REPORT_AFTER, partial(self._try_again, key, reports=True))

    async def close(self) -> None:
        await self._phases.close()

    def _judges(self, group: Group) -> bool:
        return isinstance(group, DescribedGroup)

    def _max_wait(self, group: PodGroup) -> float:
        assert isinstance(group, DescribedGroup)
        gang = self._gangs.find_object(group)
        own = None if gang is None else gang.spec.schedule_timeout_seconds
        return min(float(self._args.permit_waiting_time_seconds if own is None else max(own, 0)), MAX_PERMIT_WAIT)

    # ── Source of groups ─────────────────────────────────────────────────────────────────────────────────────────────

    def group_name(self, pod: Pod) -> str:
        return group_name(pod)

    def describe(self, namespace: str, name: str, members: Iterable[Pod]) -> DescribedGroup | None:
        group = self._gangs.describe(namespace, name, members)
        if group is None:
            self._holds.pop(f"{namespace}/{name}", None)
        return group

    def group_changed(self, key: str) -> None:
        self._phases.changed(key)

    def member_gone(self, pod: Pod) -> None:
        self._phases.pod_gone(pod)

    def is_described(self, group: DescribedGroup, pod: Pod) -> bool:
        return is_settled(group, pod)

    def name_of_object(self, obj: KubeObject) -> str:
        return BY_LABEL + obj.name

    # ── Queue ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def pre_enqueue(self, pod: Pod) -> Status | None:
        key = group_key(pod)
        members = None if key is None or pod.node_name else self._groups.members(key)
        if key is None or members is None or not isinstance(members.group, DescribedGroup):
            return None
        now, problem = self._handle.clock.now(), _problem(members)
        if not problem:
            if (last := self._holds.get(key)) is not None and now < last.until:
                return Status.unresolvable(f'the group "{plain_name(members.group.name)}" failed recently')
            return None
        hold = self._holds.setdefault(key, GroupWait())
        if hold.reported_at is not None and now - hold.reported_at >= REPORT_AGAIN:
            hold.is_due = True
        if not hold.is_due and hold.reported_at is None and not hold.is_timed:
            hold.is_timed = True
            self._handle.call_later(REPORT_AFTER, partial(self._try_again, key, reports=True))
        # An attempt writes the events. It cannot succeed.
        return None if hold.is_due else Status.unresolvable(problem)

    def _try_again(self, key: str, *, reports: bool = False) -> None:
        """Requeue a group: any of its pending pods represents it."""
        members, hold = self._groups.members(key), self._holds.get(key)
        pod = None if members is None else next(members.unscheduled(), None)
        if pod is None or (reports and hold is None):
            self._holds.pop(key, None)
            return
        if reports and hold is not None:
            hold.is_timed, hold.is_due = False, True
        self._handle.activate({pod.key: pod})

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        first = queued.initial_attempt_timestamp
        return -queued.priority, queued.timestamp if first is None else first

    # ── Attempt of a group ───────────────────────────────────────────────────────────────────────────────────────────

    def placement_feasible(self, group: GroupTree, remaining: int, scheduled: int) -> Status | None:
        if not isinstance(group.group, DescribedGroup):
            return None
        if (remaining, scheduled) == (len(group.members), len(group.scheduled)):
            members = self._groups.members(group.key)
            if members is not None and (problem := _problem(members)):
                return Status.unresolvable(problem)
            if lacking := self._lacking(group.group, group.scheduled):
                return Status.unresolvable(lacking)
        return super().placement_feasible(group, remaining, scheduled)

    def _lacking(self, group: DescribedGroup, scheduled: Sequence[Pod]) -> str:
        """Return the resource that is short of the group's minResources. Resources of its pods are treated as free."""
        gang = self._gangs.find_object(group)
        min_resources = {} if gang is None else countable(gang.spec.min_resources)
        nodes = self._handle.nodes
        for resource, amount in min_resources.items():
            free = np.maximum(nodes.allocatable[resource] - nodes.requested[resource], 0)
            own = sum(pod.requests_on_node.get(resource, 0) for pod in scheduled)
            if int(free.sum()) + own < amount:
                return f"minResources of the group exceed the free {resource} of the cluster"
        return ""

    def attempted(self, group: DescribedGroup, status: Status | None) -> None:
        members = self._groups.members(group.key)
        if members is not None and _problem(members):
            hold = self._holds.setdefault(group.key, GroupWait())
            hold.is_due, hold.reported_at = False, self._handle.clock.now()
            return
        seconds = self._args.pod_group_backoff_seconds
        if status is None or not status.is_rejection or not seconds:
            self._holds.pop(group.key, None)
            return
        self._holds.setdefault(group.key, GroupWait()).until = self._handle.clock.now() + seconds
        self._handle.call_later(seconds, partial(self._try_again, group.key))

    # Configurations enable these points, because scheduler-plugins works there. Here entire groups are scheduled.

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        return Status.skip()

    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        return PostFilterResult(Status.unschedulable())

    def reserve(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    def unreserve(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        return None

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def after_group_changed(self, pod: Pod, old: PodGroup, new: PodGroup) -> QueueingHint:
        """Queue if the pod's group changed in any way: the problem may be fixed."""
        return queue_if(group_key(pod) == new.key)


def _problem(members: Members) -> str:
    """Return the obstacle that delays a group, if any."""
    group = members.group
    assert isinstance(group, DescribedGroup)
    pod_count, minimum = members.known_count, group.min_count or 1
    if group.problem or pod_count >= minimum:
        return group.problem
    return f'the group "{plain_name(group.name)}" requires {minimum} pods, but only {pod_count} exist'
