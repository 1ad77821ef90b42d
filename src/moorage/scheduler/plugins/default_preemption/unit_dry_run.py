"""Dry runs for a single pod with pod groups: units with pods on several nodes are evicted as a whole."""

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Status
from moorage.scheduler.framework.victims import Victims
from moorage.scheduler.plugins.default_preemption.dry_run import NO_VICTIMS, PreemptionDryRun, Split, WhatIf
from moorage.scheduler.plugins.default_preemption.eligibility import VictimRules
from moorage.scheduler.plugins.default_preemption.units import (
    Unit,
    Units,
    may_evict,
    missing_node,
    sort_by_importance,
    split_units,
)


class UnitDryRun(PreemptionDryRun):
    """Tries nodes for one pod; victims are units, with the priorities of their groups."""

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
        if not has_groups(node):
            return super().on(node)
        units = self._units.of(node.pods.values())
        if problem := missing_node(units, self._handle.nodes):
            return Status.error(problem)
        pool = [unit for unit in units if may_evict(unit, self._pod, self.priority, self._rules)]
        if not pool:
            return NO_VICTIMS
        what_if = UnitWhatIf(self._handle, self._cycle, self._pod, node, pool)
        status = what_if.run_filters()
        return status if status is not None else self._reprieve_units(what_if, pool)

    def is_row_local(self, node: NodeInfo) -> bool:
        """Return whether the outcome depends only on the node and its pods; not if they belong to groups."""
        return not has_groups(node) and super().is_row_local(node)

    def _reprieve_units(self, what_if: "UnitWhatIf", pool: list[Unit]) -> Victims | Status:
        ordered = sort_by_importance(pool, self._now)
        protected, unprotected, violating = split_units(ordered, self._split)
        evicted_ids = {id(unit) for unit in (*protected, *unprotected) if not what_if.reprieve_unit(unit)}
        victims = [pod for unit in ordered if id(unit) in evicted_ids for pod in unit.pods]
        if not victims:
            return Status.error(f'expected at least one victim pod on node "{what_if.node.name}"')
        return Victims(tuple(victims), sum(pod.metadata.uid in violating for pod in victims))


class UnitWhatIf(WhatIf):
    """A node without some units; cluster-wide plugins also see their pods on other nodes removed."""

    def __init__(
        self, handle: PreemptionHandle, cycle: CycleState, pod: Pod, node: NodeInfo, removed: list[Unit]
    ) -> None:
        super().__init__(handle, cycle, pod, node, ())
        for unit in removed:
            self._remove_unit(unit)

    def reprieve_unit(self, unit: Unit) -> bool:
        """Put a unit back if the pod still fits; otherwise leave it out."""
        for member in unit.pods:
            if member.node_name == self.node.name:
                self._add(member)
            elif (info := self._handle.nodes.find(member.node_name)) is not None:
                self._handle.add_pod(self._cycle, self._pod, member, info)
        if self._fits():
            return True
        self._remove_unit(unit)
        return False

    def _remove_unit(self, unit: Unit) -> None:
        for member in unit.pods:
            if member.node_name == self.node.name:
                self._remove(member)
            elif (info := self._handle.nodes.find(member.node_name)) is not None:
                self._handle.remove_pod(self._cycle, self._pod, member, info)


def has_groups(node: NodeInfo) -> bool:
    """Return whether a pod of the node belongs to a group."""
    return any(pod.spec.scheduling_group is not None for pod in node.pods.values())
