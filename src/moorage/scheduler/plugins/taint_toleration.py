"""TaintToleration: reject untolerated taints, and prefer nodes with few PreferNoSchedule taints."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

from moorage.kube.api.affinity import PREFER_NO_SCHEDULE, Taint, Toleration
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    PreFilterAnswer,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    default_normalize,
)
from moorage.scheduler.framework.status import IntArray, Status, Verdict

COMPARING: Final = "TaintTolerationComparisonOperators"
UNTOLERATED: Final = Status.unresolvable("node(s) had untolerated taint(s)")
SOFT: Final = StateKey[tuple[Toleration, ...]](
    "PreScoreTaintToleration", missing='failed to read "PreScoreTaintToleration" from cycleState: not found'
)


class TaintToleration(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Reject nodes with untolerated NoSchedule or NoExecute taints; score by untolerated PreferNoSchedule taints."""

    depends_on = DependsOn.NODE
    _signs_template = True
    _normalizes_by_value = True

    def __init__(self, *, handle: Handle | None = None) -> None:
        self._by_number = handle is not None and handle.features.enabled(COMPARING)

    def sign(self, pod: Pod) -> Hashable:
        return pod.spec.tolerations

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        taints = node.taints
        return UNTOLERATED if taints and repels(taints, pod, by_number=self._by_number) else None

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        # Large clusters have thousands of nodes but few distinct taint sets: evaluate each set once.
        by_number = self._by_number
        repelled = nodes.taints.where(lambda taints: repels(taints, pod, by_number=by_number))
        return Verdict.reject(where=repelled, because=UNTOLERATED)

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        cycle[SOFT] = tuple(item for item in pod.spec.tolerations if item.effect in ("", PREFER_NO_SCHEDULE))
        return None

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        tolerations = cycle[SOFT]
        return count_discouraging(node.taints, tolerations, by_number=self._by_number)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        tolerations, by_number = cycle[SOFT], self._by_number
        return nodes.taints.map(lambda taints: count_discouraging(taints, tolerations, by_number=by_number))

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        return default_normalize(scores, reverse=True)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._after_node),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION)),
        )

    def _after_node(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        """Queue when a node that the pod tolerates was added, or when the pod now tolerates a node."""
        by_number = self._by_number
        was_closed = old is None or repels(old.taints, pod, by_number=by_number)
        return queue_if(was_closed and not repels(new.taints, pod, by_number=by_number))


def repels(taints: Iterable[Taint], pod: Pod, *, by_number: bool = False) -> bool:
    """Return whether a taint keeps the pod off the node."""
    return any(taint.repels_pods and not pod.tolerates(taint, by_number=by_number) for taint in taints)


def count_discouraging(taints: Iterable[Taint], tolerations: Iterable[Toleration], *, by_number: bool = False) -> int:
    """Count the untolerated PreferNoSchedule taints. Duplicates count separately."""
    return sum(
        taint.effect == PREFER_NO_SCHEDULE
        and not any(item.tolerates(taint, by_number=by_number) for item in tolerations)
        for taint in taints
    )
