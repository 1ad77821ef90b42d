"""Eviction units: a victim is a single pod, or all pods of a group that is disrupted as a unit."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum

from msgspec import Struct

from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.groups import Group
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Status
from moorage.scheduler.framework.victims import Victims
from moorage.scheduler.plugins.default_preemption.dry_run import (
    NO_VICTIMS,
    PreemptionDryRun,
    Split,
    WhatIf,
    start_time,
)
from moorage.scheduler.plugins.default_preemption.eligibility import VictimRules
from moorage.scheduler.state.pod_groups import PodGroups, group_key


class Rank(IntEnum):
    """Rank of units with equal priority."""

    POD = 1
    GROUPED = 2
    COMPOSITE = 3


class Unit(Struct, frozen=True, eq=False):
    """Pods that are evicted together."""

    pods: tuple[Pod, ...]
    priority: int
    rank: Rank
    group: Group | None = None
    """The group that is disrupted as a unit, or ``None`` for a single pod."""


def may_evict(unit: Unit, preemptor: Pod, priority: int, rules: VictimRules | None) -> bool:
    """Return whether all pods of a unit may be evicted for a pod, or for a group with this priority."""
    if rules is None:
        return unit.priority < priority
    return all(rules.may_evict(preemptor, pod, unit.priority) for pod in unit.pods)


class Units:
    """Finds the units and effective priorities of pods on nodes."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups

    @property
    def has_been_used(self) -> bool:
        """Whether a pod ever belonged to a group."""
        return self._groups.has_been_used

    def list_groups(self, pod: Pod) -> Sequence[Group]:
        """List the known groups above a pod, from its own to the root."""
        key = group_key(pod)
        group = self._groups.group(key) if key is not None else None
        return () if group is None else tuple(self._groups.chain(group))

    def effective_priority(self, pod: Pod) -> int:
        """Return the priority of a pod's root group, or its own."""
        chain = self.list_groups(pod)
        return chain[-1].priority if chain else pod.priority

    def of(self, pods: Iterable[Pod]) -> list[Unit]:
        """Return the units of some pods, each once, with all of their pods."""
        units: list[Unit] = []
        identities: set[tuple[bool, str]] = set()
        for pod in pods:
            chain = self.list_groups(pod)
            disrupted_whole = [group for group in chain if group.spec.is_disrupted_whole]
            if not disrupted_whole:
                rank = Rank.POD if group_key(pod) is None else Rank.GROUPED
                units.append(Unit((pod,), chain[-1].priority if chain else pod.priority, rank))
                continue
            top = disrupted_whole[-1]
            is_composite = isinstance(top, CompositePodGroup)
            if (identity := (is_composite, top.key)) not in identities:
                identities.add(identity)
                rank = Rank.COMPOSITE if is_composite else Rank.GROUPED
                members = [self._groups.members(key) for key in self._groups.leaf_keys(top)]
                scheduled = tuple(pod for leaf in members if leaf is not None for pod in leaf.scheduled())
                units.append(Unit(scheduled, chain[-1].priority, rank, top))
        return units


def missing_node(units: Iterable[Unit], nodes: NodeTable) -> str:
    """Return an error if a node of a unit's pods is missing in the snapshot, otherwise an empty string."""
    names = {pod.node_name for unit in units if unit.group is not None for pod in unit.pods}
    unknown = next((name for name in sorted(names) if nodes.find(name) is None), None)
    if unknown is None:
        return ""
    return f'failed to get node info for node "{unknown}" from snapshot: nodeinfo not found for node name "{unknown}"'


def sort_by_importance(units: Iterable[Unit], unstarted: float, *, by_uid: bool) -> list[Unit]:
    """Sort units by importance: priority, rank, number of pods, earliest start, then optionally the UID."""
    return sorted(
        units,
        key=lambda unit: (
            -unit.priority,
            -unit.rank,
            -len(unit.pods),
            min((start_time(pod, unstarted) for pod in unit.pods), default=unstarted),
            min((pod.metadata.uid for pod in unit.pods), default="") if by_uid else "",
        ),
    )


def reprieve_units(
    units: Sequence[Unit], split: Split, reprieve: Callable[[Unit], bool]
) -> tuple[list[Unit], set[str]]:
    """Reprieve as many units as fit, those protected by a budget first. The units are sorted by importance.

    Return the units to evict, and the UIDs of pods with an eviction that violates a budget.
    """
    protected, _ = split([pod for unit in units for pod in unit.pods])
    violating = {pod.metadata.uid for pod in protected}
    by_protection = sorted(units, key=lambda unit: not any(pod.metadata.uid in violating for pod in unit.pods))
    evicted_ids = {id(unit) for unit in by_protection if not reprieve(unit)}
    return [unit for unit in units if id(unit) in evicted_ids], violating


class UnitDryRun(PreemptionDryRun):
    """Tries nodes for one pod. Victims are units, with the priorities of their groups.

    Units with pods on several nodes are evicted as a unit.
    """

    def __init__(
        self,
        handle: PreemptionHandle,
        cycle: CycleState,
        pod: Pod,
        split: Split,
        units: Units,
        rules: VictimRules | None = None,
    ) -> None:
        super().__init__(handle, cycle, pod, split, rules)
        self._units = units

    def on(self, node: NodeInfo) -> Victims | Status:
        """Return the victims needed for the pod to fit, including members of units on other nodes."""
        if not _has_groups(node):
            return super().on(node)
        units = self._units.of(node.pods.values())
        if problem := missing_node(units, self._handle.nodes):
            return Status.error(problem)
        pool = [unit for unit in units if may_evict(unit, self._pod, self.priority, self._rules)]
        if not pool:
            return NO_VICTIMS
        what_if = UnitWhatIf(self._handle, self._cycle, self._pod, node, pool)
        if (status := what_if.run_filters()) is not None:
            return status
        ordered = sort_by_importance(pool, self._now, by_uid=self._orders_by_uid)
        victims, violating = reprieve_units(ordered, self._split, what_if.reprieve_unit)
        pods = tuple(pod for unit in victims for pod in unit.pods)
        if not pods:
            return Status.error(f'expected at least one victim pod on node "{node.name}"')
        return Victims(pods, sum(pod.metadata.uid in violating for pod in pods))

    def is_row_local(self, node: NodeInfo) -> bool:
        """Return whether the outcome depends only on the node and its pods; not if they belong to groups."""
        return not _has_groups(node) and super().is_row_local(node)


class UnitWhatIf(WhatIf):
    """A node without some units. Cluster-wide plugins also see their pods on other nodes removed."""

    def __init__(
        self, handle: PreemptionHandle, cycle: CycleState, pod: Pod, node: NodeInfo, removed: list[Unit]
    ) -> None:
        super().__init__(handle, cycle, pod, node, ())
        for unit in removed:
            self._change(unit, is_back=False)

    def reprieve_unit(self, unit: Unit) -> bool:
        """Put a unit back if the pod still fits, otherwise omit it."""
        self._change(unit, is_back=True)
        if self._fits():
            return True
        self._change(unit, is_back=False)
        return False

    def _change(self, unit: Unit, *, is_back: bool) -> None:
        notify = self._handle.add_pod if is_back else self._handle.remove_pod
        for member in unit.pods:
            if member.node_name == self.node.name:
                (self._add if is_back else self._remove)(member)
            elif (info := self._handle.nodes.find(member.node_name)) is not None:
                notify(self._cycle, self._pod, member, info)


def _has_groups(node: NodeInfo) -> bool:
    return any(pod.spec.scheduling_group is not None for pod in node.pods.values())
