"""PodTopologySpread: spread the pods of a kind evenly over zones, hosts or any other domains."""

from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, Protocol, TypeVar

from moorage.common.caches import LRU, MAX_KEY_LABELS
from moorage.common.errors import SelectorError
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.shape import Shape
from moorage.scheduler.config.args import PodTopologySpreadArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    QueueingHint,
    Resource,
    changed_keys,
    queue_if,
)
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    PreFilterAnswer,
    PreFilterExtensions,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import SKIP, IntArray, Status, Verdict
from moorage.scheduler.plugins.pod_topology_spread.filter import SpreadCounts, SpreadState
from moorage.scheduler.plugins.pod_topology_spread.score import PreferenceCounts, PreferenceState
from moorage.scheduler.plugins.pod_topology_spread.spread_constraints import Constraints, ConstraintSource, Inclusion
from moorage.scheduler.plugins.taint_toleration import COMPARING
from moorage.scheduler.state.handle import ClusterHandle
from moorage.scheduler.state.selector_index import list_places, places

FILTER_STATE: Final = StateKey[SpreadState](
    "PreFilterPodTopologySpread", missing='reading "PreFilterPodTopologySpread" from cycleState: not found'
)
SCORE_STATE: Final = StateKey[PreferenceState](
    "PreScorePodTopologySpread", missing='error reading "PreScorePodTopologySpread" from cycleState: not found'
)


class PodTopologySpread(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Hard constraints filter nodes, soft ones score them. Pods without constraints get the default ones."""

    Args = PodTopologySpreadArgs
    depends_on = DependsOn.CLUSTER
    _narrow_is_checked = True

    def __init__(self, *, args: PodTopologySpreadArgs | None = None, handle: ClusterHandle) -> None:
        self._handle = handle
        self._source = ConstraintSource(args or PodTopologySpreadArgs(), handle)
        by_number = handle.features.enabled(COMPARING)
        self._hard = SpreadCache(SpreadCounts, by_number=by_number)
        self._soft = SpreadCache(self._new_preferences, by_number=by_number)

    def events_to_register(self) -> Sequence[EventRegistration]:
        pod_change = Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE
        own_change = Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL
        node_change = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return (
            EventRegistration(
                ClusterEvent(Resource.ASSIGNED_POD, pod_change),
                self.after_assigned_pod,
                index=_PodsBySelector(self._source),
            ),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, own_change), self.after_own_change),
            EventRegistration(
                ClusterEvent(Resource.NODE, node_change), self.after_node, index=_PodsBySpreadKey(self._source)
            ),
        )

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        try:
            constraints = self._source.hard(pod)
        except SelectorError as error:
            reason = f"get constraints from pod: obtaining pod's hard topology spread constraints: {error}"
            return Status.error(reason, cause=error)
        if not constraints:
            return SKIP
        counts = self._hard.find(constraints, pod, len(nodes))
        cycle[FILTER_STATE] = counts.state(self._handle.pods, nodes)
        return None

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        cycle[FILTER_STATE].change(pod, added, node, 1)
        return None

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        cycle[FILTER_STATE].change(pod, removed, node, -1)
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return cycle[FILTER_STATE].filter(node)

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        return cycle[FILTER_STATE].filter_nodes(nodes)

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        try:
            constraints = self._source.soft(pod)
        except SelectorError as error:
            reason = f"calculating preScoreState: obtaining pod's soft topology spread constraints: {error}"
            return Status.error(reason, cause=error)
        if not constraints:
            return SKIP
        everywhere = self._handle.nodes
        counts = self._soft.find(constraints, pod, len(everywhere))
        cycle[SCORE_STATE] = counts.state(self._handle.pods, everywhere, nodes)
        return None

    def _new_preferences(self, constraints: Constraints, pod: Pod, inclusion: Inclusion) -> PreferenceCounts:
        return PreferenceCounts(constraints, pod, inclusion, needs_all_keys=self._source.needs_all_keys(pod))

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return cycle[SCORE_STATE].score(node, pod.namespace)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        return cycle[SCORE_STATE].score_nodes(nodes)

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        return cycle[SCORE_STATE].normalize(nodes, scores)

    def after_assigned_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queue when a counted pod was added or deleted, or when a pod began or ceased to count."""
        for assigned in (old, new):
            if assigned is not None and not (
                (assigned.node_name or assigned.nominated_node_name) and assigned.namespace == pod.namespace
            ):
                return QueueingHint.SKIP
        constraints = self._source.hard(pod)
        if old is not None and new is not None:
            return queue_if(_match_changed(constraints, old, new))
        labels = (new or old or pod).labels
        return queue_if(any(constraint.matcher.matches(labels) for constraint in constraints))

    def after_own_change(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        """Queue when the pod's tolerations change the included nodes, or when the pod's own match changes."""
        constraints = self._source.hard(pod)
        if old.spec.tolerations != new.spec.tolerations and any(item.honors_taints for item in constraints):
            return QueueingHint.QUEUE
        return queue_if(_match_changed(constraints, old, new))

    def after_node(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue when a node joined, left or changed a domain."""
        constraints = self._source.hard(pod)
        was_in, is_in = (
            node is not None and all(constraint.topology_key in node.labels for constraint in constraints)
            for node in (old, new)
        )
        if old is None or new is None:
            return queue_if(was_in or is_in)
        is_moved = any(old.labels.get(item.topology_key) != new.labels.get(item.topology_key) for item in constraints)
        return queue_if(was_in != is_in or (is_in and (is_moved or old.taints != new.taints)))


class _PodsBySelector:
    """Finds the pending pods with constraints that may select a changed pod."""

    def __init__(self, source: ConstraintSource) -> None:
        self._source = source

    def keys(self, pod: Pod) -> set[Hashable] | None:
        if not pod.spec.topology_spread_constraints:
            return None  # a deduced selector may change
        namespaces = frozenset((pod.namespace,))
        return {key for item in self._source.hard(pod) for key in places(namespaces, item.matcher)}

    def affected(self, old: Pod | None, new: Pod | None) -> set[Hashable]:
        versions = [pod for pod in (old, new) if pod is not None]
        return {key for pod in versions for key in list_places(pod.namespace, pod.labels)}


class _PodsBySpreadKey:
    """Finds the pending pods with a constraint on the domains that a node enters, leaves, opens or closes."""

    def __init__(self, source: ConstraintSource) -> None:
        self._source = source

    def keys(self, pod: Pod) -> set[Hashable] | None:
        constraints = self._source.hard(pod) if pod.spec.topology_spread_constraints else ()
        return {item.topology_key for item in constraints} if constraints else None

    def affected(self, old: Node | None, new: Node | None) -> set[Hashable]:
        before, after = ({} if node is None else node.labels for node in (old, new))
        if old is not None and new is not None and old.taints != new.taints:
            return {*before, *after}
        return changed_keys(before, after)


def _match_changed(constraints: Constraints, old: Pod, new: Pod) -> bool:
    return old.labels != new.labels and any(
        item.matcher.matches(old.labels) != item.matcher.matches(new.labels) for item in constraints
    )


MAX_BYTES: Final = 32 << 20
BYTES_PER_ROW: Final = 32
MIN_KEPT: Final = 16
MAX_KEPT: Final = 1024
MAX_TEMPLATES: Final = 1024

Template = tuple[Shape, str, frozenset[tuple[str, str]]]


class Kept(Protocol):
    """A cached value for pods that share constraints."""

    @property
    def constraints(self) -> Constraints:
        """The constraints of the pods."""
        ...


K = TypeVar("K", bound=Kept)


class SpreadCache(Generic[K]):
    """Caches values by pod template, and by the properties of the pod that affect them."""

    def __init__(self, make: Callable[[Constraints, Pod, Inclusion], K], *, by_number: bool = False) -> None:
        self._make = make
        self._by_number = by_number
        self._by_template: LRU[Template, K] = LRU("spread counts by template", MAX_TEMPLATES)
        self._cached_counts: LRU[Hashable, K] = LRU("spread counts", MIN_KEPT, on_drop=self._drop_templates)

    def find(self, constraints: Constraints, pod: Pod, rows: int) -> K:
        """Return the cached value for a pod. ``rows`` limits the number of cached values."""
        metadata = pod.metadata
        template = (pod.shape, metadata.namespace, frozenset(metadata.labels.items()))
        counts = self._by_template.find(template)
        if counts is None or counts.constraints != constraints:
            counts = self._find(constraints, pod, rows)
            if len(metadata.labels) <= MAX_KEY_LABELS:
                self._by_template.put(template, counts)
        return counts

    def _find(self, constraints: Constraints, pod: Pod, rows: int) -> K:
        inclusion = Inclusion(pod, by_number=self._by_number)
        counts_itself = tuple(constraint.matcher.matches(pod.labels) for constraint in constraints)
        is_written = bool(pod.spec.topology_spread_constraints)
        key = (constraints, is_written, pod.namespace, counts_itself, inclusion.sign(constraints))
        counts = self._cached_counts.find(key)
        if counts is None:
            counts = self._make(constraints, pod, inclusion)
            self._cached_counts.resize(max(MIN_KEPT, min(MAX_KEPT, MAX_BYTES // (BYTES_PER_ROW * (rows + 1)))))
            self._cached_counts.put(key, counts)
        return counts

    def _drop_templates(self, key: Hashable, dropped: K) -> None:
        # Templates would keep the dropped value in memory.
        self._by_template.clear()
