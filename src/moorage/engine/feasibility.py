"""Finding the nodes a pod fits on: pre-filters, filters, promised nodes, and where the search ends."""

from typing import Final

import numpy as np
import structlog
from msgspec import Struct

from moorage.api.pod import Pod
from moorage.engine import timing
from moorage.engine.answers import Answers
from moorage.engine.boundary import ask
from moorage.engine.crosscheck import CrossCheck
from moorage.engine.diagnosis import NOT_EXAMINED, Diagnosis
from moorage.engine.evaluation import judge_node
from moorage.engine.fresh import judge_fresh
from moorage.engine.judgement import FEASIBLE, IdArray
from moorage.engine.prefilter import PreFiltered, run_pre_filters
from moorage.engine.profile import Profile, derives_filter
from moorage.engine.services import Services
from moorage.engine.standing import Answer
from moorage.engine.statuses import RowStatuses
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.node_statuses import NodeStatuses
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable, RowArray
from moorage.framework.status import BoolArray, Status

log = structlog.get_logger(__name__)

FEWEST_NODES: Final = 100
LOWEST_PERCENTAGE: Final = 5


class Rotation:
    """Where the next search starts; shared by all profiles, since it decides ties."""

    def __init__(self) -> None:
        self.start = 0

    def advance(self, looked_at: int, node_count: int) -> None:
        """Go on by the nodes that were looked at."""
        self.start = (self.start + looked_at) % node_count


class Extended(Struct):
    """The feasible nodes as extenders left them, in their order; ``scored`` is the cluster as score plugins see it."""

    rows: RowArray
    scored: NodeTable | None = None


class Found(Struct):
    """The nodes a pod fits on, over all rows, and how they were found."""

    pod: Pod
    cycle: CycleState
    answer: Answer | None
    feasible: BoolArray
    count: int
    start: int
    diagnosis: Diagnosis
    is_standing: bool = True
    """Whether the answer was brought up to date for this; not so if a plugin failed, and nodes were judged singly."""
    is_narrowed: bool = False
    promised: NodeInfo | None = None
    extended: Extended | None = None


class Search:
    """Looks for feasible nodes, one profile's way."""

    def __init__(self, profile: Profile, services: Services, rotation: Rotation, percentage: int | None) -> None:
        self.profile = profile
        self.cache = services.cache
        self.rotation = rotation
        self.percentage = percentage
        # Otherwise every node is looked at.
        self._is_limited = percentage is not None or not profile.score
        self.answers = Answers(profile, services.cache)
        self._services = services
        self.cross_check: CrossCheck | None = None
        self.stopwatch = timing.Stopwatch()

    def find(self, pod: Pod, *, try_promised: bool = True) -> Found:
        """Find every feasible node, or as many as are wanted; a plugin that fails ends the attempt with its error."""
        try:
            return self._find(pod, try_promised)
        except PluginError as error:
            return self._find_one_by_one(pod, try_promised, error)

    def _find(self, pod: Pod, try_promised: bool) -> Found:
        nodes, began = self.cache.nodes, timing.read()
        answer = self.answers.for_pod(pod)
        cycle = answer.cycle.share()
        pre = run_pre_filters(answer.to_pre_filter, cycle, pod, nodes, answer.pre_filter)
        if pre.rejection is not None:
            self.stopwatch.took(timing.PRE_FILTER, began, pre.rejection.code)
            return self._rejected(pod)
        prepared = timing.read()
        self.stopwatch[timing.PRE_FILTER](prepared - began)
        diagnosis = Diagnosis(len(nodes))
        diagnosis.unschedulable_plugins |= pre.narrowing
        promise: dict[int, Status] = {}
        if try_promised and pod.status.nominated_node_name:
            tried = self._try_promised_node(cycle, pod)
            if isinstance(tried, NodeInfo):
                return self._only(pod, cycle, tried, diagnosis)
            promise = tried
        numbers, feasible, count = judge_fresh(answer, cycle, pod, nodes)
        if self.cross_check is not None:
            self.cross_check.verdicts(pod, nodes, numbers, answer.statuses)
        found = Found(pod, cycle, answer, feasible, count, self.rotation.start, diagnosis)
        self._settle(found, numbers, pre, promise)
        self.stopwatch[timing.FILTER](timing.read() - prepared)
        return found

    def _settle(self, found: Found, numbers: IdArray, pre: PreFiltered, promise: dict[int, Status]) -> None:
        """Apply nominated pods, the narrowed list and the limit of the search, and move the rotation on."""
        nodes, answer = self.cache.nodes, found.answer
        assert answer is not None
        examined: BoolArray | None = None
        absent = NOT_EXAMINED
        if refused := self._nominated_refusals(found):
            numbers = answer.statuses.written(numbers, refused)
            found.feasible = np.equal(numbers, FEASIBLE)
        if pre.names is not None:
            found.is_narrowed = True
            examined = self._rows_named(pre.names)
            found.feasible = found.feasible & examined
            # Upstream names the plugin that refused the promised node among those that narrowed the search.
            named = sorted({*pre.narrowing, *(status.plugin for status in promise.values())})
            absent = Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(named)}]")
        if refused or examined is not None:
            found.count = int(np.count_nonzero(found.feasible))
        if self._is_limited:
            examined = self._limit(found, examined)
        if examined is not None:
            for row in promise:
                if not examined[row]:
                    numbers = answer.statuses.written(numbers, promise)
                    examined[row] = True
        found.diagnosis.statuses = statuses = RowStatuses(nodes, numbers, answer.statuses, examined, absent)
        if examined is not None:
            self.rotation.advance(found.count + statuses.explicit_count, len(nodes))
        if found.count == 0:
            for status in statuses.distinct():
                found.diagnosis.blame(status)

    def _find_one_by_one(self, pod: Pod, try_promised: bool, error: PluginError) -> Found:
        """Go node by node, as upstream does, and raise the error met first; the nodes before it count as looked at.

        Columns meet the error of the first plugin, upstream that of the first node; and a node that is refused for the
        pods it is promised to is not asked about again. A plugin that has the columnar form only keeps its error.
        """
        nodes, cycle, answer = self.cache.nodes, CycleState(), self.answers.unjudged(pod)
        if answer is None:
            raise error
        pre = run_pre_filters(self.profile.pre_filter, cycle, pod, nodes)
        if pre.rejection is not None:
            return self._rejected(pod)
        if derives_filter(self.profile, error.plugin):
            raise error
        diagnosis = Diagnosis(len(nodes))
        diagnosis.unschedulable_plugins |= pre.narrowing
        promise = self._try_promised_node(cycle, pod) if try_promised else {}
        if isinstance(promise, NodeInfo):
            return self._only(pod, cycle, promise, diagnosis)
        refused = self._refused_one_by_one(cycle, pod, pre, promise, error)
        numbers = answer.statuses.written(np.full(len(nodes), FEASIBLE, dtype=np.int32), refused)
        feasible = np.equal(numbers, FEASIBLE)
        count = int(np.count_nonzero(feasible))
        found = Found(pod, cycle, answer, feasible, count, self.rotation.start, diagnosis, is_standing=False)
        self._settle(found, numbers, pre, promise)
        return found

    def _refused_one_by_one(
        self, cycle: CycleState, pod: Pod, pre: PreFiltered, promise: dict[int, Status], error: PluginError
    ) -> dict[int, Status]:
        """Judge nodes until more than enough will do; return those that will not, or raise the first error."""
        order = self.cache.order
        if pre.names is not None:
            order = order[self._rows_named(pre.names)[order]]
        refused: dict[int, Status] = {}
        for place in range(len(order)):
            row = int(order[(self.rotation.start + place) % len(order)])
            try:
                status = self.judge(cycle, pod, self.cache.nodes[row])
            except PluginError as first:
                # The promised node has its status from before, whether or not its turn had come.
                looked_at = place + len(promise.keys() - refused.keys())
                self.rotation.advance(looked_at, len(self.cache))
                raise first from error
            if status is not None:
                refused[row] = status
            elif place - len(refused) >= self._enough(len(order)):
                break
        return refused

    def _rejected(self, pod: Pod) -> Found:
        """Run the pre-filters again from nothing: what those after the rejecting one stored must not be there."""
        nodes, cycle = self.cache.nodes, CycleState()
        pre = run_pre_filters(self.profile.pre_filter, cycle, pod, nodes)
        assert pre.rejection is not None
        diagnosis = Diagnosis(len(nodes), NodeStatuses({}, pre.rejection), pre_filter=pre.rejection)
        if pre.rejection.plugin:
            diagnosis.blame(pre.rejection)
        else:
            diagnosis.unschedulable_plugins |= pre.narrowing
        none = np.zeros(len(nodes), dtype=np.bool_)
        return Found(pod, cycle, None, none, 0, self.rotation.start, diagnosis)

    def _try_promised_node(self, cycle: CycleState, pod: Pod) -> NodeInfo | dict[int, Status]:
        """Look first at the node the pod was promised; if it fits, no other is looked at."""
        if not pod.nominated_node_name:
            return {}
        info = self.cache.node(pod.nominated_node_name)
        if info is None:
            log.error("nominated node is not there", pod=pod.key, node=pod.nominated_node_name)
            return {}
        try:
            status = self.judge(cycle, pod, info)
        except PluginError as error:
            log.warning("nominated node could not be judged", pod=pod.key, node=info.name, error=str(error))
            return {}
        return info if status is None else {info.row: status}

    def _only(self, pod: Pod, cycle: CycleState, info: NodeInfo, diagnosis: Diagnosis) -> Found:
        feasible = np.zeros(len(self.cache.nodes), dtype=np.bool_)
        feasible[info.row] = True
        return Found(pod, cycle, None, feasible, 1, self.rotation.start, diagnosis, promised=info)

    def judge(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Judge one node, perhaps a what-if, by all filters; pods promised to it count as there in a first pass."""
        promised = self._promised_before(pod, node.name)
        if promised:
            status = self._judge_with(promised, cycle, pod, node)
            if status is not None:
                return status
        return judge_node(self.profile.filter, cycle, pod, node)

    def _judge_with(self, promised: list[Pod], cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        what_if, state = node.copy(), cycle.clone()
        for other in promised:
            what_if.add_pod(other)
            if (status := self.add_pod(state, pod, other, what_if)) is not None:
                raise PluginError(status.plugin, status.message)
        return judge_node(self.profile.filter, state, pod, what_if)

    def _promised_before(self, pod: Pod, node_name: str) -> list[Pod]:
        return [
            other
            for other in self._services.nominator.nominated_pods(node_name)
            if other.priority >= pod.priority and other.uid != pod.uid
        ]

    def _nominated_refusals(self, found: Found) -> dict[int, Status]:
        """Find the nodes that would do but for the pods they are promised to, with what is said of them then."""
        pod = found.pod
        refused: dict[int, Status] = {}
        for name in self._services.nominator.nodes_with_nominations():
            info = self.cache.node(name)
            if info is not None and (promised := self._promised_before(pod, name)):
                status = self._refusal(promised, found, info)
                if status is not None:
                    refused[info.row] = status
        return refused

    def _refusal(self, promised: list[Pod], found: Found, info: NodeInfo) -> Status | None:
        """Judge a node with the pods it is promised to; what only depends on them and the row is remembered."""
        assert found.answer is not None
        if found.answer.is_fresh_for(found.cycle):
            return self._judge_with(promised, found.cycle, found.pod, info)
        # A pod in flight is known by its identity alone: without containers, and so without requests.
        state = (info.version, *((p.uid, p.metadata.resource_version, bool(p.spec.containers)) for p in promised))
        known = found.answer.refusals.get(info.name)
        if known is None or known[0] != state:
            status = self._judge_with(promised, found.cycle, found.pod, info)
            known = found.answer.refusals[info.name] = (state, status)
        return known[1]

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        """Tell the pre-filters that a pod was added to a what-if."""
        for plugin in self.profile.extensions:
            if plugin.name not in cycle.skipped_filters:
                status = ask("AddPod on PreFilter", plugin, plugin.add_pod, cycle, pod, added, node)
                if status is not None:
                    return Status.error(f'running AddPod on PreFilter plugin "{plugin.name}": {status.message}').by(
                        plugin.name
                    )
        return None

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        """Tell the pre-filters that a pod was taken off a what-if."""
        for plugin in self.profile.extensions:
            if plugin.name not in cycle.skipped_filters:
                status = ask("RemovePod on PreFilter", plugin, plugin.remove_pod, cycle, pod, removed, node)
                if status is not None:
                    text = f'running RemovePod on PreFilter plugin "{plugin.name}": {status.message}'
                    return Status.error(text).by(plugin.name)
        return None

    def _rows_named(self, names: frozenset[str]) -> BoolArray:
        rows = np.zeros(len(self.cache.nodes), dtype=np.bool_)
        for name in names:
            if (info := self.cache.node(name)) is not None:
                rows[info.row] = True
        return rows

    def wanted(self, nodes_to_check: int) -> int:
        """Return how many feasible nodes are enough: all, unless a percentage was written in the configuration."""
        if self.percentage is None or nodes_to_check < FEWEST_NODES:
            return nodes_to_check
        percentage = self.percentage or max(LOWEST_PERCENTAGE, 50 - nodes_to_check // 125)
        return max(nodes_to_check * percentage // 100, FEWEST_NODES)

    def _enough(self, nodes_to_check: int) -> int:
        return self.wanted(nodes_to_check) if self.profile.score else 1

    def _limit(self, found: Found, narrowed: BoolArray | None) -> BoolArray | None:
        """End the search where upstream ends it with one worker; return the rows looked at, or ``None`` for all."""
        size = len(self.cache) if narrowed is None else int(np.count_nonzero(narrowed))
        wanted = self._enough(size)
        if found.count <= wanted:
            return narrowed
        order = self.cache.order if narrowed is None else self.cache.order[narrowed[self.cache.order]]
        visited = np.roll(order, -(self.rotation.start % size))
        places = np.flatnonzero(found.feasible[visited])
        # The first node too many ends the search and counts for nothing, but those turned down before it do.
        looked_at = np.zeros(len(found.feasible), dtype=np.bool_)
        looked_at[visited[: int(places[wanted])]] = True
        found.feasible = np.zeros_like(found.feasible)
        found.feasible[visited[places[:wanted]]] = True
        found.count = wanted
        return looked_at
