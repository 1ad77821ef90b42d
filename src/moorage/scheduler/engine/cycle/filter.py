"""Finding the nodes a pod fits on: all pre-filters, then the nominated node, then the filters.

Filters that keep their answers are brought up to date first, whatever their place in the profile; the others are asked
about the rows that are left. The plugin that rejects a node first *in the profile's order* is the one that counts.
"""

from functools import partial
from typing import Final

import numpy as np
import structlog
from msgspec import Struct, field

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.answers.answers import Answers
from moorage.scheduler.engine.answers.layout import FreshFilter
from moorage.scheduler.engine.answers.standing import StandingAnswer
from moorage.scheduler.engine.cycle.cross_check import CrossCheck
from moorage.scheduler.engine.cycle.found import FEW, Found, NoNode, OneNode, SeveralNodes
from moorage.scheduler.engine.cycle.nominated import NominatedFilter
from moorage.scheduler.engine.extension_points import pre_filter
from moorage.scheduler.engine.outcomes import NOT_EXAMINED, Diagnosis, NodeScope
from moorage.scheduler.engine.profile import Profile, derives_filter
from moorage.scheduler.engine.services import Services
from moorage.scheduler.engine.statuses import FEASIBLE, IdArray, RowStatuses, StatusTable, rejected_rows, with_ids
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import NodeNames, PreFilterPlugin
from moorage.scheduler.framework.status import SKIP, BoolArray, Code, Status

log = structlog.get_logger(__name__)

MIN_NODES: Final = 100
MIN_PERCENTAGE: Final = 5


class Rotation:
    """Where the next search starts; shared by all profiles, since it decides ties."""

    def __init__(self) -> None:
        self.start = 0

    def advance(self, examined: int, node_count: int) -> None:
        """Go on by the nodes that were examined."""
        self.start = (self.start + examined) % node_count


class SearchRequest(Struct, frozen=True):
    """The extent of a search for nodes.

    ``scope`` restricts it to a part of the cluster, ``group`` is the state of the group whose member is tried.
    ``evaluates_all``: every node is evaluated, the nominated node like any other, because the caller chooses.
    """

    scope: NodeScope | None = None
    group: CycleState | None = None
    evaluates_all: bool = False


WHOLE_CLUSTER: Final = SearchRequest()
"""The request for an ordinary pod."""
EVERY_NODE: Final = SearchRequest(evaluates_all=True)


class PreFiltered(Struct):
    """The result of all pre-filters: a rejection, or the names of the only candidate nodes."""

    pod: Pod
    request: SearchRequest
    answer: StandingAnswer
    cycle: CycleState
    rejection: Status | None = None
    names: frozenset[str] | None = None
    narrowing: set[str] = field(default_factory=set)

    def narrow(self, plugin: str, names: frozenset[str]) -> None:
        """Keep only these nodes; when none is left, that is a rejection."""
        self.narrowing.add(plugin)
        self.names = names if self.names is None else self.names & names
        if not self.names:
            plugins = " ".join(sorted(self.narrowing))
            many = f"node(s) didn't satisfy plugin(s) [{plugins}] simultaneously"
            self.rejection = Status.unresolvable(
                many if len(self.narrowing) > 1 else f"node(s) didn't satisfy plugin {plugins}"
            )


class Filtering:
    """Looks for feasible nodes, one profile's way."""

    def __init__(self, profile: Profile, services: Services, rotation: Rotation, percentage: int | None) -> None:
        self.profile = profile
        self.cache = services.cache
        self.rotation = rotation
        self.percentage = percentage
        # Otherwise every node is looked at.
        self._is_limited = percentage is not None or not profile.score
        self.answers = Answers(profile, services.cache)
        self.nominated = NominatedFilter(profile, services)
        self.cross_check: CrossCheck | None = None

    def find(self, pod: Pod, request: SearchRequest = WHOLE_CLUSTER) -> Found:
        """Find the requested feasible nodes; PluginError if a plugin fails."""
        pre = self.pre_filter(pod, request)
        return self.rejected(pre) if pre.rejection is not None else self.filter(pre)

    def pre_filter(self, pod: Pod, request: SearchRequest = WHOLE_CLUSTER) -> PreFiltered:
        """Call the pre-filters in order, each at most once; plugins with a cached result are not called again."""
        nodes, answer = self.cache.nodes, self.answers.find(pod)
        cycle, steps = answer.begin()
        cycle.group = request.group
        pre = PreFiltered(pod, request, answer, cycle)
        for plugin, part in steps:
            if part is None:
                said = pre_filter(plugin, cycle, pod, nodes)
            else:
                said = part.pre_filtered if part.is_prepared else part.pre_filter(pod, nodes)
            if said is None:
                continue
            if said is SKIP or (isinstance(said, Status) and said.code == Code.SKIP):
                cycle.skipped_filters.add(plugin.name)
            elif isinstance(said, NodeNames):
                pre.narrow(plugin.name, said.names)
                if not pre.names:
                    return self._stopped_at(plugin, pre)
            elif said.code == Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                pre.rejection = said.by(plugin.name)
                pre.narrowing = set()
                return self._stopped_at(plugin, pre)
            else:
                # The pre-filters behind it are asked all the same, as upstream does.
                pre.rejection = said.by(plugin.name)
        answer.join(cycle)
        return pre

    @staticmethod
    def _stopped_at(plugin: PreFilterPlugin, pre: PreFiltered) -> PreFiltered:
        pre.answer.join_up_to(plugin, pre.cycle)
        return pre

    def rejected(self, pre: PreFiltered) -> NoNode:
        """Describe a pod that the pre-filters rejected on all nodes."""
        assert pre.rejection is not None
        scope = pre.request.scope
        node_count = len(self.cache.nodes) if scope is None else scope.count
        diagnosis = Diagnosis(node_count, NodeStatuses({}, pre.rejection), pre_filter=pre.rejection, scope=scope)
        if pre.rejection.plugin:
            diagnosis.add_rejection(pre.rejection)
        else:
            diagnosis.unschedulable_plugins |= pre.narrowing
        return NoNode(pre.pod, pre.cycle, diagnosis)

    def filter(self, pre: PreFiltered, *, try_nominated: bool = True) -> Found:
        """Evaluate the nominated node, and if it is infeasible all nodes."""
        pod, cycle, answer, nodes = pre.pod, pre.cycle, pre.answer, self.cache.nodes
        scope = pre.request.scope
        diagnosis = Diagnosis(len(nodes) if scope is None else scope.count, scope=scope)
        diagnosis.unschedulable_plugins |= pre.narrowing
        known: dict[int, Status] = {}
        if pod.status.nominated_node_name and try_nominated and not pre.request.evaluates_all:
            tried = self._try_nominated_node(cycle, pod, scope)
            if isinstance(tried, NodeInfo):
                return OneNode(pod, cycle, diagnosis, tried, is_nominated=True)
            known = tried
        if pre.names is not None and len(pre.names) == 1 and scope is None and not known:
            return self._look_at_named(pre, diagnosis)
        try:
            answer.filter(pod, nodes)
            status_ids, feasible, is_own = self._ask_fresh_filters(answer, cycle, pod)
            if self.cross_check is not None:
                self.cross_check.verdicts(pod, nodes, status_ids, answer.table, pre.request.group)
            if self.nominated.nodes() and (refused := self._refused_with_nominated(answer, cycle, pod)):
                status_ids = with_ids(status_ids, refused)
                feasible, is_own = np.equal(status_ids, FEASIBLE), False
        except PluginError as error:
            status_ids, table = self._filter_one_by_one(pre, known, error)
            found = SeveralNodes(pod, cycle, diagnosis, None, np.equal(status_ids, FEASIBLE), 0, self.rotation.start)
            return self._settle(found, status_ids, table, pre, known)
        version = answer.feasible_version if is_own else None
        found = SeveralNodes(pod, cycle, diagnosis, answer, feasible, 0, self.rotation.start, version)
        return self._settle(found, status_ids, answer.table, pre, known)

    def _look_at_named(self, pre: PreFiltered, diagnosis: Diagnosis) -> NoNode | OneNode:
        """Look at the only node that pre-filters named: what stands of all others need not be brought up to date."""
        assert pre.names is not None
        (name,) = pre.names
        info, nodes, table = self.cache.node(name), self.cache.nodes, pre.answer.table
        status = None if info is None else self.nominated.filter_node(pre.cycle, pre.pod, info)
        status_ids: IdArray = np.zeros(len(nodes), dtype=np.int32)
        if info is not None:
            self.rotation.advance(1, len(nodes))
            status_ids[info.row] = FEASIBLE if status is None else table.number(status)
        absent = _not_named(pre.narrowing)
        diagnosis.statuses = RowStatuses(nodes, status_ids, table, None, absent)
        if info is not None and status is None:
            return OneNode(pre.pod, pre.cycle, diagnosis, info)
        if status is not None:
            diagnosis.add_rejection(status)
        return NoNode(pre.pod, pre.cycle, diagnosis)

    def _refused_with_nominated(self, answer: StandingAnswer, cycle: CycleState, pod: Pod) -> dict[int, int]:
        refused = self.nominated.refused_nodes(answer, cycle, pod)
        if self.cross_check is not None:
            again = partial(self.nominated.refused_from_nothing, answer, cycle, pod)
            self.cross_check.nominated(pod, refused, again)
        return refused

    def _ask_fresh_filters(
        self, answer: StandingAnswer, cycle: CycleState, pod: Pod
    ) -> tuple[IdArray, BoolArray, bool]:
        """Add the verdicts of the filters that are asked in every cycle; return whether the answer's own still hold."""
        status_ids, feasible, is_own = answer.status_ids, answer.feasible, True
        for fresh in answer.layout.fresh_filters:
            if fresh.plugin.name in cycle.skipped_filters:
                continue
            alive = _alive(fresh, answer, status_ids, feasible)
            for rejected, number in rejected_rows(fresh.plugin, cycle, pod, self.cache.nodes, answer.table, alive):
                status_ids, is_own = status_ids.copy(), False
                if np.count_nonzero(rejected) * FEW <= len(rejected):
                    # Writing to a few rows is faster by far than going by the mask.
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
        found: SeveralNodes,
        status_ids: IdArray,
        table: StatusTable,
        pre: PreFiltered,
        known: dict[int, Status],
    ) -> Found:
        """Apply the names that pre-filters gave and the limit of the search, move the rotation on, and count."""
        nodes, scope = self.cache.nodes, pre.request.scope
        examined: BoolArray | None = None
        absent = NOT_EXAMINED
        if scope is not None:
            examined = self._narrow_to(scope, found)
        if pre.names is not None:
            found.is_narrowed = True
            named_rows = self._rows_named(pre.names)
            examined = named_rows if examined is None else examined & named_rows
            found.feasible, found.feasible_version = found.feasible & examined, None
            # Upstream names the plugin that rejected the nominated node among those that narrowed the search.
            absent = _not_named({*pre.narrowing, *(status.plugin for status in known.values())})
        if found.feasible_version is not None and found.answer is not None:
            found.count = found.answer.feasible_count
        else:
            found.count = int(np.count_nonzero(found.feasible))
        if self._is_limited and not pre.request.evaluates_all:
            examined = self._limit(found, examined)
        if examined is not None:
            for row in known:
                if not examined[row]:
                    status_ids = table.written(status_ids, known)
                    examined = examined.copy()
                    examined[row] = True
        found.diagnosis.statuses = statuses = RowStatuses(nodes, status_ids, table, examined, absent)
        if examined is not None:
            self.rotation.advance(found.count + statuses.explicit_count, found.diagnosis.node_count)
        if found.count == 0:
            for status in statuses.distinct():
                found.diagnosis.add_rejection(status)
            return NoNode(found.pod, found.cycle, found.diagnosis)
        if found.count == 1:
            return OneNode(found.pod, found.cycle, found.diagnosis, nodes[int(found.feasible.argmax())])
        return found

    def _filter_one_by_one(
        self, pre: PreFiltered, known: dict[int, Status], error: PluginError
    ) -> tuple[IdArray, StatusTable]:
        """Go node by node, as upstream does, until more than enough will do, and raise the error met first.

        Columns meet the error of the first plugin, upstream that of the first node; and a node that is rejected for
        its nominated pods is not asked about again. A plugin that has the columnar form only keeps its error.
        """
        if derives_filter(self.profile, error.plugin):
            raise error
        scope, order = pre.request.scope, self.cache.order
        if scope is not None:
            order = scope.order
        node_count = len(order)
        if pre.names is not None:
            order = order[self._rows_named(pre.names)[order]]
        rejected: dict[int, Status] = {}
        for place in range(len(order)):
            row = int(order[(self.rotation.start + place) % len(order)])
            try:
                status = self.nominated.filter_node(pre.cycle, pre.pod, self.cache.nodes[row])
            except PluginError as first:
                # The nominated node has its status from before, whether or not its turn had come.
                self.rotation.advance(place + len(known.keys() - rejected.keys()), node_count)
                raise first from error
            if status is not None:
                rejected[row] = status
            elif place - len(rejected) >= (len(order) if pre.request.evaluates_all else self._enough(len(order))):
                break
        table = StatusTable()
        return table.written(np.full(len(self.cache.nodes), FEASIBLE, dtype=np.int32), rejected), table

    def _try_nominated_node(self, cycle: CycleState, pod: Pod, scope: NodeScope | None) -> NodeInfo | dict[int, Status]:
        """Look first at the node the pod is nominated to; if it fits, no other is looked at."""
        info = self.cache.node(pod.nominated_node_name)
        if info is None or (scope is not None and not scope.mask[info.row]):
            log.error("nominated node is not there", pod=pod.key, node=pod.nominated_node_name)
            return {}
        try:
            status = self.nominated.filter_node(cycle, pod, info)
        except PluginError as error:
            log.warning("nominated node could not be filtered", pod=pod.key, node=info.name, error=str(error))
            return {}
        return info if status is None else {info.row: status}

    def _narrow_to(self, scope: NodeScope, found: SeveralNodes) -> BoolArray:
        """Search a part of the cluster only, in the order of the cluster."""
        found.feasible, found.feasible_version = found.feasible & scope.mask, None
        found.start = self.rotation.start % scope.count
        found.order = np.roll(scope.order, -found.start) if found.start else scope.order
        return scope.mask

    def _rows_named(self, names: frozenset[str]) -> BoolArray:
        rows = np.zeros(len(self.cache.nodes), dtype=np.bool_)
        for name in names:
            if (info := self.cache.node(name)) is not None:
                rows[info.row] = True
        return rows

    def wanted(self, nodes_to_check: int) -> int:
        """Return how many feasible nodes are enough: all, unless a percentage was written in the configuration."""
        if self.percentage is None or nodes_to_check < MIN_NODES:
            return nodes_to_check
        percentage = self.percentage or max(MIN_PERCENTAGE, 50 - nodes_to_check // 125)
        return max(nodes_to_check * percentage // 100, MIN_NODES)

    def _enough(self, nodes_to_check: int) -> int:
        return self.wanted(nodes_to_check) if self.profile.score else 1

    def _limit(self, found: SeveralNodes, narrowed: BoolArray | None) -> BoolArray | None:
        """End the search where upstream ends it with one worker; return the rows looked at, or ``None`` for all."""
        size = len(self.cache) if narrowed is None else int(np.count_nonzero(narrowed))
        wanted = self._enough(size)
        if found.count <= wanted:
            return narrowed
        order = self.cache.order if narrowed is None else self.cache.order[narrowed[self.cache.order]]
        visited = np.roll(order, -(self.rotation.start % size))
        places = np.flatnonzero(found.feasible[visited])
        # The first node too many ends the search and counts for nothing, but those rejected before it do.
        looked_at = np.zeros(len(found.feasible), dtype=np.bool_)
        looked_at[visited[: int(places[wanted])]] = True
        found.feasible, found.feasible_version = np.zeros_like(found.feasible), None
        found.feasible[visited[places[:wanted]]] = True
        found.count = wanted
        return looked_at


def _not_named(plugins: set[str]) -> Status:
    """Return what is said of nodes that the plugins did not name."""
    return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(plugins))}]")


def _alive(fresh: FreshFilter, answer: StandingAnswer, status_ids: IdArray, feasible: BoolArray) -> BoolArray:
    """Find the rows no filter before this one rejected: a later standing rejection gives way to this plugin's."""
    table = answer.table
    if fresh.kept_after.isdisjoint(table.plugins):
        return feasible
    later = [True]
    for number in range(1, len(table)):
        status = table[number]
        later.append(status is not None and status.plugin in fresh.kept_after)
    return np.array(later, dtype=np.bool_)[status_ids]
