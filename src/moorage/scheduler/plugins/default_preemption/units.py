"""Eviction units: a victim is a single pod, or all pods of a group that is disrupted as a whole."""

from collections.abc import Callable, Iterable, Sequence
from enum import IntEnum
from typing import NamedTuple

from msgspec import Struct

from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup
from moorage.scheduler.framework.groups import Group
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.plugins.default_preemption.dry_run import start_time
from moorage.scheduler.plugins.default_preemption.eligibility import VictimRules
from moorage.scheduler.state.pod_groups import PodGroups, group_key


class Rank(IntEnum):
    """Rank of units with equal priority."""

    POD = 1
    GROUPED = 2
    COMPOSITE = 3


class Unit(Struct, frozen=True, eq=False):
    """Pods that are evicted together, or not at all."""

    pods: tuple[Pod, ...]
    priority: int
    rank: Rank
    group: Group | None = None
    """The group that is disrupted as a whole; ``None`` for a single pod."""


class UnitSplit(NamedTuple):
    """Units whose eviction violates a budget, the others, and the violating pods."""

    protected: list[Unit]
    others: list[Unit]
    violating: set[str]


def may_evict(unit: Unit, preemptor: Pod, priority: int, rules: VictimRules | None) -> bool:
    """Return whether all pods of a unit may be evicted for a pod, or for a group with this priority."""
    if rules is None:
        return unit.priority < priority
    return all(rules.may_evict(preemptor, pod, unit.priority) for pod in unit.pods)


class Units:
    """Finds the units and effective priorities of pods on nodes."""

    def __init__(self, groups: PodGroups) -> None:
        self._groups = groups

    def chain_of(self, pod: Pod) -> Sequence[Group]:
        """Return the known groups above a pod."""
        key = group_key(pod)
        group = self._groups.group(key) if key is not None else None
        return () if group is None else tuple(self._groups.chain(group))

    def priority_of(self, pod: Pod) -> int:
        """Return the effective priority of a pod: that of its root group, if known."""
        chain = self.chain_of(pod)
        return chain[-1].priority if chain else pod.priority

    def of(self, pods: Iterable[Pod]) -> list[Unit]:
        """Return the units of some pods, each once, with all of their pods."""
        units: list[Unit] = []
        identities: set[tuple[bool, str]] = set()
        for pod in pods:
            chain = self.chain_of(pod)
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
                units.append(Unit(self._scheduled_below(top), chain[-1].priority, rank, top))
        return units

    def _scheduled_below(self, group: Group) -> tuple[Pod, ...]:
        return tuple(
            pod
            for key in self._groups.leaf_keys(group)
            if (members := self._groups.members(key)) is not None
            for pod in members.scheduled()
        )


def missing_node(units: Iterable[Unit], nodes: NodeTable) -> str:
    """Return an error if a node of a unit's pods is missing in the snapshot; otherwise an empty string."""
    names = {pod.node_name for unit in units if unit.group is not None for pod in unit.pods}
    missing = next((name for name in sorted(names) if nodes.find(name) is None), None)
    if missing is None:
        return ""
    return f'failed to get node info for node "{missing}" from snapshot: nodeinfo not found for node name "{missing}"'


def sort_by_importance(units: Iterable[Unit], now: float) -> list[Unit]:
    """Sort units by importance: priority, rank, number of pods, then earliest start."""
    return sorted(
        units,
        key=lambda unit: (
            -unit.priority,
            -unit.rank,
            -len(unit.pods),
            min((start_time(pod, now) for pod in unit.pods), default=now),
        ),
    )


def split_units(units: Sequence[Unit], split: Callable[[Sequence[Pod]], tuple[list[Pod], list[Pod]]]) -> UnitSplit:
    """Split units, sorted by importance, by whether their eviction violates a budget."""
    protected, _ = split([pod for unit in units for pod in unit.pods])
    violating = {pod.metadata.uid for pod in protected}
    guarded, unprotected = list[Unit](), list[Unit]()
    for unit in units:
        is_protected = any(pod.metadata.uid in violating for pod in unit.pods)
        (guarded if is_protected else unprotected).append(unit)
    return UnitSplit(guarded, unprotected, violating)
