"""Dry runs of preemption: the victims needed on a node for a pod to fit. The cluster is not changed."""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from math import inf
from typing import Final, TypeAlias, cast

from moorage.common.clock import Clock
from moorage.common.errors import PluginError
from moorage.kube.api.meta import parse_time
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import PODS
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import CountingPlugin, DependsOn
from moorage.scheduler.framework.status import Code, IntArray, Status, Verdict
from moorage.scheduler.framework.victims import Victims
from moorage.scheduler.plugins.default_preemption.eligibility import VictimRules

NO_VICTIMS: Final = Status.unresolvable("No preemption victims found for incoming pod")

Importance: TypeAlias = tuple[int, float, str]
"""Sort key of pods, the most important first: high priority, early start, then UID."""

Split: TypeAlias = Callable[[Sequence[Pod]], tuple[list[Pod], list[Pod]]]
"""Splits pods in order of importance into those protected by a budget and other victims."""


class PreemptionDryRun:
    """Tries nodes for one unschedulable pod. Each node is evaluated independently, on a copy."""

    def __init__(
        self, handle: PreemptionHandle, cycle: CycleState, pod: Pod, split: Split, rules: VictimRules | None = None
    ) -> None:
        self._rules = rules
        self._handle = handle
        self._cycle = cycle
        self._pod = pod
        self.priority = pod.priority
        self._split = split
        self._now = start_of_unstarted(handle.features, handle.clock)
        self._orders_by_uid = handle.features.since(1, 38)
        self._counting = counting_filters(handle, cycle)
        self._nominated_nodes: Collection[str] = handle.nominator.nodes_with_nominations()

    def on(self, node: NodeInfo) -> Victims | Status:
        """Return the victims needed for the pod to fit, or a rejection. Raise PluginError if a plugin fails."""
        pool = self._pool(node)
        if not pool:
            return NO_VICTIMS
        what_if = self._what_if(node, pool)
        status = what_if.run_filters()
        return status if status is not None else self._reprieve(what_if, pool)

    def _pool(self, node: NodeInfo) -> list[Pod]:
        """Return the possible victims on a node."""
        priority, rules = self.priority, self._rules
        if rules is None:
            return [pod for pod in node.pods.values() if pod.priority < priority]
        return [pod for pod in node.pods.values() if rules.may_evict(self._pod, pod, pod.priority)]

    def is_row_local(self, node: NodeInfo) -> bool:
        """Return whether the outcome depends only on the node, its pods and the kind of pod."""
        # Nodes with nominated pods are filtered twice, with and without these pods. Counting covers one run only.
        return self._counting is not None and self._rules is None and node.name not in self._nominated_nodes

    def infeasible_nodes(
        self, statuses: NodeStatuses, nodes: NodeTable, freed: Mapping[str, IntArray]
    ) -> Verdict | None:
        """Reject nodes that remain too full without the possible victims. Return ``None`` if this needs a copy.

        This applies if a single counting filter rejected the nodes: all earlier filters accept them without any pod.
        """
        if self._counting is None or self._rules is not None or len(self._counting) != 1:
            return None
        (plugin,) = self._counting
        distinct = (*statuses.counts(), statuses.absent)
        rejecting = {status.plugin for status in distinct if status.code is Code.UNSCHEDULABLE}
        return plugin.filter_without(self._cycle, self._pod, nodes, freed) if rejecting == {plugin.name} else None

    @property
    def kind(self) -> Hashable | None:
        """Key of row-local outcomes besides row and budgets, or ``None`` if a plugin has no signature."""
        skipped_plugins = self._cycle.skipped_filters
        filters = [plugin for plugin in self._handle.filters if plugin.name not in skipped_plugins]
        signs = [plugin.sign(self._pod) for plugin in filters]
        if self._counting is None or None in signs:
            return None
        return self.priority, *(
            (plugin.name, sign, plugin.epoch()) for plugin, sign in zip(filters, signs, strict=True)
        )

    def _what_if(self, node: NodeInfo, removed: Iterable[Pod]) -> "WhatIf":
        if self._counting is None or not self.is_row_local(node):
            return WhatIf(self._handle, self._cycle, self._pod, node, removed)
        return CountedWhatIf(self._handle, self._cycle, self._pod, node, removed, self._counting)

    def _reprieve(self, what_if: "WhatIf", pool: list[Pod]) -> Victims | Status:
        """Reprieve as many victims as fit, protected pods first, then by importance."""
        # Until 1.37, equal pods keep their order on the node. Upstream's sort is unstable for more than 12 pods.
        pool.sort(key=self._importance)
        protected, unprotected = self._split(pool)
        victims = [pod for pod in protected if not what_if.reprieve(pod)]
        violations = len(victims)
        victims += [pod for pod in unprotected if not what_if.reprieve(pod)]
        if not victims:
            return Status.error(f'expected at least one victim pod on node "{what_if.node.name}"')
        if violations:
            victims.sort(key=self._importance)
        return Victims(tuple(victims), violations)

    def _importance(self, pod: Pod) -> Importance:
        return -pod.priority, start_time(pod, self._now), pod.metadata.uid if self._orders_by_uid else ""


class WhatIf:
    """A copy of a node without some of its pods. All filters run after every change."""

    def __init__(
        self, handle: PreemptionHandle, cycle: CycleState, pod: Pod, node: NodeInfo, removed: Iterable[Pod]
    ) -> None:
        self.node = node.copy()
        self._handle = handle
        self._cycle = cycle.clone()
        self._pod = pod
        for victim in removed:
            self._remove(victim)

    def run_filters(self) -> Status | None:
        return self._handle.run_filters(self._cycle, self._pod, self.node)

    def reprieve(self, victim: Pod) -> bool:
        """Put a pod back if both pods fit, otherwise omit it."""
        self._add(victim)
        if self._fits():
            return True
        self._remove(victim)
        return False

    def _fits(self) -> bool:
        try:
            return self.run_filters() is None
        except PluginError:
            # As upstream: if a filter fails here, the pod remains a victim.
            return False

    def _add(self, victim: Pod) -> None:
        self.node.add_pod(victim)
        _require_success(self._handle.add_pod(self._cycle, self._pod, victim, self.node))

    def _remove(self, victim: Pod) -> None:
        self.node.remove_pod(victim)
        _require_success(self._handle.remove_pod(self._cycle, self._pod, victim, self.node))


class CountedWhatIf(WhatIf):
    """A node where only counting filters decide: they run once, then victims are subtracted."""

    def __init__(
        self,
        handle: PreemptionHandle,
        cycle: CycleState,
        pod: Pod,
        node: NodeInfo,
        removed: Iterable[Pod],
        counting: Sequence[CountingPlugin],
    ) -> None:
        self.node = node.copy()
        self._handle = handle
        self._cycle = cycle  # no plugin has PreFilter extensions here, so the state need not be cloned
        self._pod = pod
        self._counting = counting
        self._leftovers: list[dict[str, int]] | None = None
        for victim in removed:
            self.node.remove_pod(victim)

    def reprieve(self, victim: Pod) -> bool:
        """Put a pod back if its requests still fit."""
        if self._leftovers is None:
            self._leftovers = [plugin.left_over(self._cycle, self._pod, self.node) for plugin in self._counting]
        requests = victim.requests_on_node
        for free in self._leftovers:
            for resource, amount in free.items():
                if amount < (1 if resource == PODS else requests.get(resource, 0)):
                    return False
        for free in self._leftovers:
            for resource in free:
                free[resource] -= 1 if resource == PODS else requests.get(resource, 0)
        return True


def counting_filters(handle: PreemptionHandle, cycle: CycleState) -> Sequence[CountingPlugin] | None:
    """Return the filters that depend on a node's pods if all of them are counting filters, otherwise ``None``."""
    skipped_plugins = cycle.skipped_filters
    if any(plugin.name not in skipped_plugins for plugin in handle.extensions):
        return None
    looking = [
        plugin for plugin in handle.filters if plugin.depends_on > DependsOn.NODE and plugin.name not in skipped_plugins
    ]
    if not all(isinstance(plugin, CountingPlugin) for plugin in looking):
        return None
    return cast("list[CountingPlugin]", looking)


def start_of_unstarted(features: FeatureGates, clock: Clock) -> float:
    """Return the assumed start of pods that have not started: now; from 1.38, after all other pods."""
    return inf if features.since(1, 38) else clock.wall()


def start_time(pod: Pod, unstarted: float) -> float:
    """Return the start time of a pod, or the assumed one if it has not started."""
    started = pod.status.start_time
    return unstarted if started is None else parse_time(started)


def _require_success(status: Status | None) -> None:
    if status is not None:
        raise PluginError(status.plugin, status.message)
