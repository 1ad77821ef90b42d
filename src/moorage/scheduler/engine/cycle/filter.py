"""Finding feasible nodes: all pre-filters, then the nominated node, then the filters.

Cached results of filters are updated first, regardless of the profile's order. The other filters are called for
the remaining rows. The reported rejection is that of the first rejecting plugin *in the profile's order*.
"""

from collections.abc import Collection, Iterable
from functools import partial
from typing import Final

import numpy as np
import structlog
from msgspec import Struct, field

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cached_results.combined_result import CombinedResult, UncachedFilter
from moorage.scheduler.engine.cached_results.result_cache import ResultCache
from moorage.scheduler.engine.cycle.search_result import FEW, NoNode, OneNode, SearchResult, SeveralNodes
from moorage.scheduler.engine.extension_points import ADD_POD, change_what_if, filter_node, pre_filter
from moorage.scheduler.engine.outcomes import NOT_EXAMINED, Diagnosis, NodeScope
from moorage.scheduler.engine.phases import FILTER_PHASE, NO_HOOKS, PRE_FILTER_PHASE, PhaseHooks
from moorage.scheduler.engine.profile import Profile, derives_filter
from moorage.scheduler.engine.reference import CrossCheck
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.statuses import (
    FEASIBLE,
    IdArray,
    RowStatuses,
    StatusTable,
    WithNominated,
    rejected_rows,
    with_ids,
)
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import NodeNames
from moorage.scheduler.framework.status import SKIP, BoolArray, Code, Status

log = structlog.get_logger(__name__)

MIN_NODES: Final = 100
MIN_PERCENTAGE: Final = 5


class Rotation:
    """The start of the next search; shared by all profiles, because it decides ties."""

    def __init__(self) -> None:
        self.start = 0

    def advance(self, examined: int, node_count: int) -> None:
        """Move on by the number of examined nodes."""
        self.start = (self.start + examined) % node_count


class SearchRequest(Struct, frozen=True):
    """The extent of a search for nodes.

    ``scope`` restricts it to a part of the cluster, ``group`` is the state of the group of the tried member.
    ``evaluates_all``: every node is evaluated, the nominated node like any other, because the caller chooses.
    ``may_suspend``: the caller retries the pod if a filter suspends the attempt.
    """

    scope: NodeScope | None = None
    group: CycleState | None = None
    evaluates_all: bool = False
    may_suspend: bool = False


WHOLE_CLUSTER: Final = SearchRequest()
"""The request for an ordinary pod."""
QUEUED_POD: Final = SearchRequest(may_suspend=True)
"""The request for a pod that the queue can retry."""
EVERY_NODE: Final = SearchRequest(evaluates_all=True)


class PreFiltered(Struct):
    """The result of all pre-filters: a rejection, or the names of the only candidates."""

    pod: Pod
    request: SearchRequest
    cached: CombinedResult
    cycle: CycleState
    rejection: Status | None = None
    names: frozenset[str] | None = None
    narrowing: set[str] = field(default_factory=set)

    def narrow(self, plugin: str, names: frozenset[str]) -> None:
        """Intersect the candidates with these nodes. An empty intersection is a rejection."""
        self.narrowing.add(plugin)
        self.names = names if self.names is None else self.names & names
        if not self.names:
            plugins = " ".join(sorted(self.narrowing))
            several = f"node(s) didn't satisfy plugin(s) [{plugins}] simultaneously"
            self.rejection = Status.unresolvable(
                several if len(self.narrowing) > 1 else f"node(s) didn't satisfy plugin {plugins}"
            )


class Filtering:
    """Finds the feasible nodes for pods of a profile."""

    def __init__(
        self,
        profile: Profile,
        services: Services,
        rotation: Rotation,
        percentage: int | None,
        hooks: PhaseHooks = NO_HOOKS,
        cross_check: CrossCheck | None = None,
    ) -> None:
        self.profile = profile
        self.cache = services.cache
        self.rotation = rotation
        self.percentage = percentage
        self._is_limited = percentage is not None or not profile.score
        self.results = ResultCache(profile, services.cache, services.clock)
        self.nominated = NominatedFilter(profile, services)
        self.cross_check = cross_check
        self.pre_filter = hooks.wrap(self._pre_filter, PRE_FILTER_PHASE)
        self.filter = hooks.wrap(self._filter, FILTER_PHASE)

    def find(self, pod: Pod, request: SearchRequest = WHOLE_CLUSTER) -> SearchResult:
        """Find the requested feasible nodes; PluginError if a plugin fails."""
        pre = self.pre_filter(pod, request)
        return self.rejected(pre) if pre.rejection is not None else self.filter(pre)

    def _pre_filter(self, pod: Pod, request: SearchRequest = WHOLE_CLUSTER) -> PreFiltered:
        """Call the pre-filters in order, each at most once. Plugins with a cached result are not called."""
        nodes, cached = self.cache.nodes, self.results.find(pod)
        cycle, steps = cached.begin()
        cycle.group, cycle.may_suspend = request.group, request.may_suspend
        pre = PreFiltered(pod, request, cached, cycle)
        for plugin, part in steps:
            if part is None:
                result = pre_filter(plugin, cycle, pod, nodes)
            else:
                result = part.pre_filtered if part.is_prepared else part.pre_filter(pod, nodes)
            if result is None:
                continue
            if result is SKIP or (isinstance(result, Status) and result.code == Code.SKIP):
                cycle.skipped_filters.add(plugin.name)
            elif isinstance(result, NodeNames):
                pre.narrow(plugin.name, result.names)
                if not pre.names:
                    cached.join_states(plugin, cycle)
                    return pre
            elif result.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                pre.rejection = result.by(plugin.name)
                pre.narrowing = set()
                cached.join_states(plugin, cycle)
                return pre
            else:
                # The remaining pre-filters are called nevertheless, as upstream does.
                pre.rejection = result.by(plugin.name)
        cached.join(cycle)
        return pre

    def rejected(self, pre: PreFiltered) -> NoNode:
        """Return the result for a pod that the pre-filters rejected on all nodes."""
        assert pre.rejection is not None
        scope = pre.request.scope
        node_count = len(self.cache.nodes) if scope is None else scope.count
        diagnosis = Diagnosis(node_count, NodeStatuses({}, pre.rejection), pre_filter=pre.rejection, scope=scope)
        if pre.rejection.plugin:
            diagnosis.add_rejection(pre.rejection)
        else:
            diagnosis.unschedulable_plugins |= pre.narrowing
        return NoNode(pre.pod, pre.cycle, diagnosis)

    def _filter(self, pre: PreFiltered, *, try_nominated: bool = True) -> SearchResult:
        """Evaluate the nominated node, and if it is infeasible all nodes."""
        pod, cycle, cached, nodes = pre.pod, pre.cycle, pre.cached, self.cache.nodes
        scope = pre.request.scope
        diagnosis = Diagnosis(len(nodes) if scope is None else scope.count, scope=scope)
        diagnosis.unschedulable_plugins |= pre.narrowing
        nominated: dict[int, Status] = {}
        if pod.status.nominated_node_name and try_nominated and not pre.request.evaluates_all:
            evaluated = self._try_nominated_node(cycle, pod, scope)
            if isinstance(evaluated, NodeInfo):
                return OneNode(pod, cycle, diagnosis, evaluated, is_nominated=True)
            nominated = evaluated
        if pre.names is not None and len(pre.names) == 1 and scope is None and not nominated:
            return self._evaluate_named(pre, diagnosis)
        try:
            cached.filter(pod, nodes)
            status_ids, feasible, is_own = self._run_uncached_filters(cached, cycle, pod)
            if self.cross_check is not None:
                self.cross_check.verdicts(pod, nodes, status_ids, cached.table, pre.request.group)
            if self.nominated.nodes():
                rejections = self.nominated.refused_nodes(cached, cycle, pod)
                if self.cross_check is not None:
                    compute = partial(self.nominated.compute_refused, cached, cycle, pod)
                    self.cross_check.nominated(pod, rejections, compute)
                if rejections:
                    status_ids = with_ids(status_ids, rejections)
                    feasible, is_own = np.equal(status_ids, FEASIBLE), False
        except PluginError as error:
            status_ids, table = self._filter_one_by_one(pre, nominated, error)
            result = SeveralNodes(pod, cycle, diagnosis, None, np.equal(status_ids, FEASIBLE), 0, self.rotation.start)
            return self._settle(result, status_ids, table, pre, nominated)
        version = cached.feasible_version if is_own else None
        result = SeveralNodes(pod, cycle, diagnosis, cached, feasible, 0, self.rotation.start, version)
        return self._settle(result, status_ids, cached.table, pre, nominated)

    def _evaluate_named(self, pre: PreFiltered, diagnosis: Diagnosis) -> NoNode | OneNode:
        """Evaluate the only candidate: the cached results of all other nodes need no update."""
        assert pre.names is not None
        (name,) = pre.names
        info, nodes, table = self.cache.node(name), self.cache.nodes, pre.cached.table
        status = None if info is None else self.nominated.filter_node(pre.cycle, pre.pod, info)
        status_ids: IdArray = np.zeros(len(nodes), dtype=np.int32)
        if info is not None:
            self.rotation.advance(1, len(nodes))
            status_ids[info.row] = FEASIBLE if status is None else table.number(status)
        diagnosis.statuses = RowStatuses(nodes, status_ids, table, None, _not_named(pre.narrowing))
        if info is not None and status is None:
            return OneNode(pre.pod, pre.cycle, diagnosis, info)
        if status is not None:
            diagnosis.add_rejection(status)
        return NoNode(pre.pod, pre.cycle, diagnosis)

    def _run_uncached_filters(
        self, cached: CombinedResult, cycle: CycleState, pod: Pod
    ) -> tuple[IdArray, BoolArray, bool]:
        """Add the verdicts of filters without cached results. The last value is whether they rejected nothing."""
        status_ids, feasible, is_own = cached.status_ids, cached.feasible, True
        for uncached in cached.layout.uncached_filters:
            if uncached.plugin.name in cycle.skipped_filters:
                continue
            alive = _alive(uncached, cached, status_ids, feasible)
            for rejected, number in rejected_rows(uncached.plugin, cycle, pod, self.cache.nodes, cached.table, alive):
                status_ids, is_own = status_ids.copy(), False
                if np.count_nonzero(rejected) * FEW <= len(rejected):
                    # Writing to a few rows is much faster than using the mask.
                    rows = rejected.nonzero()[0]
                    feasible = feasible.copy()
                    status_ids[rows] = number
                    feasible[rows] = False
                else:
                    np.putmask(status_ids, rejected, number)
                    feasible = feasible & ~rejected
        return status_ids, feasible, is_own

    def _settle(
        self,
        result: SeveralNodes,
        status_ids: IdArray,
        table: StatusTable,
        pre: PreFiltered,
        nominated: dict[int, Status],
    ) -> SearchResult:
        """Apply the scope, the candidates and the limit of the search, advance the rotation, and count."""
        nodes, scope = self.cache.nodes, pre.request.scope
        examined: BoolArray | None = None
        absent = NOT_EXAMINED
        if scope is not None:
            examined = scope.mask
            result.feasible, result.feasible_version = result.feasible & examined, None
            result.start = self.rotation.start % scope.count
            result.order = np.roll(scope.order, -result.start) if result.start else scope.order
        if pre.names is not None:
            result.is_narrowed = True
            candidates = self._mask_named(pre.names)
            examined = candidates if examined is None else examined & candidates
            result.feasible, result.feasible_version = result.feasible & examined, None
            # Upstream lists the plugin that rejected the nominated node with the plugins that narrowed the search.
            absent = _not_named({*pre.narrowing, *(status.plugin for status in nominated.values())})
        if result.feasible_version is not None and result.cached is not None:
            result.count = result.cached.feasible_count
        else:
            result.count = int(np.count_nonzero(result.feasible))
        if self._is_limited and not pre.request.evaluates_all:
            examined = self._limit(result, examined)
        if examined is not None:
            for row in nominated:
                if not examined[row]:
                    status_ids = table.written(status_ids, nominated)
                    examined = examined.copy()
                    examined[row] = True
        result.diagnosis.statuses = statuses = RowStatuses(nodes, status_ids, table, examined, absent)
        if examined is not None:
            self.rotation.advance(result.count + statuses.explicit_count, result.diagnosis.node_count)
        if result.count == 0:
            for status in statuses.counts():
                result.diagnosis.add_rejection(status)
            return NoNode(result.pod, result.cycle, result.diagnosis)
        if result.count == 1:
            return OneNode(result.pod, result.cycle, result.diagnosis, nodes[int(result.feasible.argmax())])
        return result

    def _filter_one_by_one(
        self, pre: PreFiltered, nominated: dict[int, Status], error: PluginError
    ) -> tuple[IdArray, StatusTable]:
        """Filter node by node, as upstream does, until enough are feasible, and raise the first error.

        The columnar forms meet the error of the first plugin, upstream that of the first node, and a node that is
        rejected for its nominated pods is not filtered twice. A plugin with only the columnar form keeps its error.
        """
        if derives_filter(self.profile, error.plugin):
            raise error
        order = self.cache.order if pre.request.scope is None else pre.request.scope.order
        node_count = len(order)
        if pre.names is not None:
            order = order[self._mask_named(pre.names)[order]]
        limit = len(order) if pre.request.evaluates_all else self._find_limit(len(order))
        rejected: dict[int, Status] = {}
        for index in range(len(order)):
            row = int(order[(self.rotation.start + index) % len(order)])
            try:
                status = self.nominated.filter_node(pre.cycle, pre.pod, self.cache.nodes[row])
            except PluginError as first:
                # The nominated node was evaluated before, regardless of its position.
                self.rotation.advance(index + len(nominated.keys() - rejected.keys()), node_count)
                raise first from error
            if status is not None:
                rejected[row] = status
            elif index - len(rejected) >= limit:
                break
        table = StatusTable()
        return table.written(np.full(len(self.cache.nodes), FEASIBLE, dtype=np.int32), rejected), table

    def _try_nominated_node(self, cycle: CycleState, pod: Pod, scope: NodeScope | None) -> NodeInfo | dict[int, Status]:
        """Evaluate the nominated node first. If it is feasible, no other node is evaluated."""
        info = self.cache.node(pod.nominated_node_name)
        if info is None or (scope is not None and not scope.mask[info.row]):
            log.error("nominated node not found", pod=pod.key, node=pod.nominated_node_name)
            return {}
        try:
            status = self.nominated.filter_node(cycle, pod, info)
        except PluginError as error:
            log.warning("cannot filter the nominated node", pod=pod.key, node=info.name, error=str(error))
            return {}
        return info if status is None else {info.row: status}

    def _mask_named(self, names: frozenset[str]) -> BoolArray:
        rows = np.zeros(len(self.cache.nodes), dtype=np.bool_)
        for name in names:
            if (info := self.cache.node(name)) is not None:
                rows[info.row] = True
        return rows

    def count_to_find(self, node_count: int) -> int:
        """Return how many feasible nodes are sufficient: all, unless the configuration sets a percentage."""
        if self.percentage is None or node_count < MIN_NODES:
            return node_count
        percentage = self.percentage or max(MIN_PERCENTAGE, 50 - node_count // 125)
        return max(node_count * percentage // 100, MIN_NODES)

    def _find_limit(self, node_count: int) -> int:
        return self.count_to_find(node_count) if self.profile.score else 1

    def _limit(self, result: SeveralNodes, narrowed: BoolArray | None) -> BoolArray | None:
        """End the search where upstream ends it with one worker. Return the examined rows, or ``None`` for all."""
        size = len(self.cache) if narrowed is None else int(np.count_nonzero(narrowed))
        limit = self._find_limit(size)
        if result.count <= limit:
            return narrowed
        order = self.cache.order if narrowed is None else self.cache.order[narrowed[self.cache.order]]
        visited = np.roll(order, -(self.rotation.start % size))
        feasible_places = np.flatnonzero(result.feasible[visited])
        # The first node above the limit ends the search and is not counted, but the rejected ones before it are.
        examined = np.zeros(len(result.feasible), dtype=np.bool_)
        examined[visited[: int(feasible_places[limit])]] = True
        result.feasible, result.feasible_version = np.zeros_like(result.feasible), None
        result.feasible[visited[feasible_places[:limit]]] = True
        result.count = limit
        return examined


def _not_named(plugins: set[str]) -> Status:
    """Return the status of nodes that these plugins excluded."""
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]")


def _alive(uncached: UncachedFilter, cached: CombinedResult, status_ids: IdArray, feasible: BoolArray) -> BoolArray:
    """Find the rows that no earlier filter rejected: this plugin's rejection replaces cached ones of later plugins."""
    table = cached.table
    if uncached.cached_after.isdisjoint(table.plugins):
        return feasible
    is_alive = [True]
    for number in range(1, len(table)):
        status = table[number]
        is_alive.append(status is not None and status.plugin in uncached.cached_after)
    return np.array(is_alive, dtype=np.bool_)[status_ids]


class NominatedFilter:
    """Filters single nodes both with and without their nominated pods. A pod must fit in both cases."""

    def __init__(self, profile: Profile, services: Services) -> None:
        self._profile = profile
        self._services = services

    def nodes(self) -> Collection[str]:
        """Return the names of nodes with nominated pods."""
        return self._services.nominator.nodes_with_nominations()

    def filter_node(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Run all filters on one node, perhaps a what-if copy. A first pass includes its nominated pods."""
        nominated = self._list_nominated(pod, node.name)
        if nominated:
            status = self._filter_with_nominated(nominated, cycle, pod, node)
            if status is not None:
                return status
        return filter_node(self._profile.filter, cycle, pod, node)

    def refused_nodes(self, cached: CombinedResult, cycle: CycleState, pod: Pod) -> dict[int, int]:
        """Find the rows that are infeasible with their nominated pods, and the numbers of their statuses.

        Verdicts that depend only on the row and its nominated pods are cached between pods: during mass preemption
        hundreds of nodes are nominated, and only one of them has changed. The node to which the pod itself is nominated
        is evaluated separately, because for other pods the pod itself counts there.
        """
        nominator = self._services.nominator
        if cached.has_uncached_filters(cycle):
            return self.compute_refused(cached, cycle, pod)
        verdicts = cached.with_nominated.find(pod.priority)
        stale = None if verdicts is None else self._find_stale(verdicts)
        if verdicts is None or stale is None:
            verdicts, stale = WithNominated(), {*self.nodes()}
            cached.with_nominated.put(pod.priority, verdicts)
        own = nominator.node_of(pod)
        stale.discard(own)
        self._evaluate(stale, verdicts, cached, cycle, pod)
        # Last: after an error of a plugin all of them are re-evaluated.
        verdicts.rows_position = self._services.cache.nodes.position
        verdicts.nominations_position = nominator.changes.position
        verdicts.unread = (own,) if own else ()
        if not own:
            return verdicts.status_ids
        return self._evaluate((own,), WithNominated({**verdicts.status_ids}), cached, cycle, pod)

    def compute_refused(self, cached: CombinedResult, cycle: CycleState, pod: Pod) -> dict[int, int]:
        """Find the same rows without cached verdicts."""
        return self._evaluate(self.nodes(), WithNominated(), cached, cycle, pod)

    def _find_stale(self, verdicts: WithNominated) -> set[str] | None:
        """Return the nodes to re-evaluate, or ``None`` for all of them."""
        nominator, nodes = self._services.nominator, self._services.cache.nodes
        renominated = nominator.changes.since(verdicts.nominations_position)
        changed_rows = nodes.changed_since(verdicts.rows_position)
        # Members of groups are added and removed with their groups.
        groups = self._services.cache.groups
        if renominated is None or changed_rows is None or (groups is not None and groups.has_been_used):
            return None
        nominated = nominator.nodes_with_nominations()
        names = (nodes[row].name for row in set(changed_rows) if row < len(nodes))
        return {*renominated, *verdicts.unread, *(name for name in names if name in nominated)}

    def _evaluate(
        self, names: Iterable[str], verdicts: WithNominated, cached: CombinedResult, cycle: CycleState, pod: Pod
    ) -> dict[int, int]:
        for name in names:
            info = self._services.cache.node(name)
            if info is None:
                continue
            nominated = self._list_nominated(pod, name)
            status = self._filter_with_nominated(nominated, cycle, pod, info) if nominated else None
            if status is None:
                verdicts.status_ids.pop(info.row, None)
            else:
                verdicts.status_ids[info.row] = cached.table.number(status)
        return verdicts.status_ids

    def _filter_with_nominated(
        self, nominated: list[Pod], cycle: CycleState, pod: Pod, node: NodeInfo
    ) -> Status | None:
        what_if, state = node.copy(), cycle.clone()
        for nominated_pod in nominated:
            what_if.add_pod(nominated_pod)
            if (status := change_what_if(ADD_POD, self._profile, state, pod, nominated_pod, what_if)) is not None:
                raise PluginError(status.plugin, status.message)
        return filter_node(self._profile.filter, state, pod, what_if)

    def _list_nominated(self, pod: Pod, node_name: str) -> list[Pod]:
        return [
            nominated_pod
            for nominated_pod in self._services.nominator.nominated_pods(node_name)
            if nominated_pod.priority >= pod.priority and nominated_pod.uid != pod.uid
        ]
