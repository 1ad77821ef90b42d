"""Candidate nodes for preemption, found by dry runs."""

from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain
from random import Random
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct, field

from moorage.common.caches import LRU
from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import PODS
from moorage.scheduler.config.args import DefaultPreemptionArgs
from moorage.scheduler.framework.columns import Growing
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import PreemptionHandle
from moorage.scheduler.framework.node_statuses import NodeStatuses, histogram
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.status import BoolArray, Code, IntArray, Status
from moorage.scheduler.framework.victims import Victims
from moorage.scheduler.plugins.default_preemption.budgets import Budgets
from moorage.scheduler.plugins.default_preemption.dry_run import NO_VICTIMS, PreemptionDryRun
from moorage.scheduler.plugins.default_preemption.eligibility import VictimRules
from moorage.scheduler.plugins.default_preemption.units import UnitDryRun, Units
from moorage.scheduler.state.side_columns import SideColumns

NOT_HELPFUL: Final = "Preemption is not helpful for scheduling"
MANY_ROWS: Final = 32
"""Fewer nodes are tried one by one."""
NO_PODS: Final = np.iinfo(np.int64).max
ANY_PRIORITY: Final = int(np.iinfo(np.int64).min)
MAX_PRIORITIES: Final = 8
"""Number of priorities with cached sums. Clusters have few priority classes that preempt."""

Outcome: TypeAlias = Victims | Status


class Findings(Struct):
    """Results of the dry runs: victims by node in search order, or reasons and errors."""

    examined: int
    candidates: dict[str, Victims] = field(default_factory=dict)
    reasons: Counter[str] = field(default_factory=Counter)
    errors: list[str] = field(default_factory=list)

    def message(self, node_count: int) -> str:
        """Return why preemption does not help. Nodes that were not tried are treated as not helpful."""
        reasons = self.reasons + Counter({NOT_HELPFUL: node_count - self.examined})
        return f"0/{node_count} nodes are available: {histogram(reasons)}."

    @property
    def error(self) -> str:
        """The distinct errors in one message."""
        distinct = list(dict.fromkeys(self.errors))
        return distinct[0] if len(distinct) == 1 else f"[{', '.join(distinct)}]"


class CandidateSearch:
    """Tries the nodes where preemption may resolve the rejection.

    The search starts at the first node in visiting order, or at a node chosen by ``rng``. If it will stop early, it
    visits nodes with nominated pods last. ``units`` groups the pods that are evicted together; ``rules`` replace the
    comparison of priorities.
    """

    def __init__(
        self,
        handle: PreemptionHandle,
        args: DefaultPreemptionArgs,
        budgets: Budgets,
        rng: Random | None = None,
        units: Units | None = None,
        rules: VictimRules | None = None,
    ) -> None:
        self._units = units
        self.rules = rules
        self._handle = handle
        self._budgets = budgets
        self._percentage = args.min_candidate_nodes_percentage
        self._min_candidates = args.min_candidate_nodes_absolute
        self._chance = rng
        self._lower_priority_pods = LowerPriorityPods(handle)
        self._cache = CachedOutcomes(handle.nodes)

    def find(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> Findings:
        """Try nodes until there are enough candidates, one of them without violating a budget."""
        nodes = self._handle.nodes
        rows = statuses.select_rows(Code.UNSCHEDULABLE, nodes, self._handle.order)
        if self._chance is not None and len(rows):
            rows = np.roll(rows, -self._chance.randrange(len(rows)))
        findings = Findings(examined=len(rows))
        rows_to_try = rows if self.rules is not None else rows[self._lower_priority_pods.is_below(pod.priority, rows)]
        if len(rows_to_try) < len(rows):
            findings.reasons[NO_VICTIMS.message] = len(rows) - len(rows_to_try)
        num_candidates = self.wanted(len(rows))
        nominated = nodes.find_rows(self._handle.nominator.nodes_with_nominations())
        if len(rows_to_try) > num_candidates and self._chance is None:
            # Upstream starts at a random node. If it always were the first, preemptors in a row would find only each
            # other's nodes, evict more pods than needed, and wait for one another: try nominated nodes last.
            claimed = np.isin(rows_to_try, nominated)
            rows_to_try = np.concatenate((rows_to_try[~claimed], rows_to_try[claimed]))
        dry_run = self._dry_run(cycle, pod)
        self._cache.keep_valid(dry_run.kind, self._budgets.version, nominated)
        if not self._cache.outcomes and len(rows_to_try) >= MANY_ROWS and self.units is None:
            # Drop rows that remain too full without all possible victims. Nominated nodes are tried one by one.
            freed = self._lower_priority_pods.held_below(dry_run.priority, rows_to_try)
            verdict = dry_run.infeasible_nodes(statuses, self._handle.nodes.take(rows_to_try), freed)
            if verdict is not None:
                is_left_out = verdict.rejected & ~np.isin(rows_to_try, nominated)
                for where, status in verdict.rejections:
                    findings.reasons.update(dict.fromkeys(status.reasons, int((where & is_left_out).sum())))
                rows_to_try = rows_to_try[~is_left_out]
        self._try_nodes(dry_run, rows_to_try.tolist(), num_candidates, findings)
        return findings

    @property
    def units(self) -> Units | None:
        """The units of pods; ``None`` in clusters without groups, which are searched faster."""
        return self._units if self._units is not None and self._units.has_been_used else None

    def _dry_run(self, cycle: CycleState, pod: Pod) -> PreemptionDryRun:
        units = self.units
        if units is None:
            return PreemptionDryRun(self._handle, cycle, pod, self._budgets.split, self.rules)
        return UnitDryRun(self._handle, cycle, pod, self._budgets.split, units, self.rules)

    def wanted(self, nodes: int) -> int:
        """Return the number of candidates to find among this many nodes."""
        return min(max(nodes * self._percentage // 100, self._min_candidates), nodes)

    def _try_nodes(
        self, dry_run: PreemptionDryRun, rows: Iterable[int], num_candidates: int, findings: Findings
    ) -> None:
        nodes, cached_outcomes = self._handle.nodes, self._cache.outcomes
        clean: dict[str, Victims] = {}
        violating: dict[str, Victims] = {}
        for row in rows:
            node = nodes[row]
            # When many pods preempt, almost all outcomes of hundreds of nodes are cached.
            outcome: Outcome | None = cached_outcomes.get(row)
            if outcome is None:
                try:
                    outcome = dry_run.on(node)
                    if dry_run.is_row_local(node):
                        cached_outcomes[row] = outcome
                except PluginError as error:
                    outcome = Status.error(str(error))
            if isinstance(outcome, Victims):
                bucket = violating if outcome.violations else clean
                if len(bucket) < num_candidates:
                    bucket[node.name] = outcome
                if clean and len(clean) + len(violating) >= num_candidates:
                    break
            elif outcome.code is Code.ERROR:
                findings.errors.append(outcome.message)
            else:
                findings.reasons.update(outcome.reasons)
        findings.candidates = clean | violating


class CachedOutcomes:
    """Outcomes for the last kind of pod, by row. Each is valid until its row changes."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._position = 0
        self._key: tuple[Hashable | None, int] = (None, 0)
        self._nominated: frozenset[int] = frozenset()
        self.outcomes: dict[int, Outcome] = {}

    def keep_valid(self, kind: Hashable | None, budgets: int, nominated: Iterable[int]) -> None:
        """Drop outcomes that are invalid for this kind of pod, version of the budgets, and nominated rows.

        A node with nominated pods is filtered with these pods, so earlier outcomes are invalid, and new ones are not
        stored. So only the rows that were nominated since the last call can have one.
        """
        previous, self._nominated = self._nominated, frozenset(nominated)
        is_known = kind is not None and self._key == (kind, budgets)
        changed_rows = self._nodes.changed_since(self._position) if is_known else None
        self._key, self._position = (kind, budgets), self._nodes.position
        if changed_rows is None:
            self.outcomes.clear()
            return
        for row in chain(changed_rows, self._nominated - previous):
            self.outcomes.pop(row, None)


class LowerPriorityPods(SideColumns):
    """The lowest priority on each node, and the requests of pods below some priorities.

    These columns rule out nodes before any node is copied.
    """

    def __init__(self, handle: PreemptionHandle) -> None:
        super().__init__(handle.nodes, {})
        self._lowest = Growing(np.int64)
        self._held_requests: LRU[int, HeldBelow] = LRU("requests by priority", MAX_PRIORITIES)

    def write(self, info: NodeInfo) -> None:
        self._lowest.reserve(info.row + 1)
        self._lowest.array[info.row] = min((_lowest(pod) for pod in info.pods.values()), default=NO_PODS)
        for _, sums in self._held_requests.items():
            sums.write(info)

    def is_below(self, priority: int, rows: RowArray) -> BoolArray:
        """Find the rows with a pod of lower priority. Other rows have no victims."""
        self.refresh()
        below: BoolArray = self._lowest.array[rows] < priority
        return below

    def held_below(self, priority: int, rows: RowArray) -> dict[str, IntArray]:
        """Return the requests of lower-priority pods on these rows by resource, with their number as ``pods``."""
        self.refresh()
        sums = self._held_requests.find(priority)
        if sums is None:
            sums = HeldBelow(priority)
            for info in self._nodes:
                sums.write(info)
            self._held_requests.put(priority, sums)
        return {resource: column.view(len(self._nodes))[rows] for resource, column in sums.columns.items()}


class HeldBelow:
    """The sums for one priority, one column per resource."""

    def __init__(self, priority: int) -> None:
        self._priority = priority
        self.columns: dict[str, Growing] = {PODS: Growing(np.int64)}

    def write(self, info: NodeInfo) -> None:
        sums: dict[str, int] = {PODS: 0}
        for pod in info.pods.values():
            if pod.priority < self._priority:
                for resource, amount in pod.requests_on_node.items():
                    sums[resource] = sums.get(resource, 0) + (amount if resource != PODS else 0)
                sums[PODS] += 1
        for resource in sums:
            self.columns.setdefault(resource, Growing(np.int64))
        for resource, column in self.columns.items():
            column.reserve(info.row + 1)
            column.array[info.row] = sums.get(resource, 0)


def _lowest(pod: Pod) -> int:
    """Return the lowest effective priority of a pod. For group members it depends on the group."""
    return pod.priority if pod.spec.scheduling_group is None else ANY_PRIORITY
