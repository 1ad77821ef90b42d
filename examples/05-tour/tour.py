"""A tour: one plugin that implements every extension point and logs each call, in the order of a pod's lifecycle."""

from typing import Any

import moorage as m
from moorage import IntArray, NodeStatuses, QueuedPod

SEEN = m.StateKey[int]("tour: number of nodes")


class Tour(
    m.PreEnqueuePlugin, m.QueueSortPlugin, m.PreFilterPlugin, m.FilterPlugin, m.PostFilterPlugin, m.PreScorePlugin,
    m.ScorePlugin, m.ReservePlugin, m.PermitPlugin, m.PreBindPlugin, m.BindPlugin, m.PostBindPlugin,
):  # fmt: skip
    """Log the lifecycle of a pod without changing decisions."""

    def __init__(self, *, handle: m.Handle) -> None:
        self._log = handle.log

    def _record(self, point: str, pod: m.Pod, **facts: Any) -> None:
        self._log.info(point, pod=pod.key, **facts)

    def pre_enqueue(self, pod: m.Pod) -> None:
        self._record("PreEnqueue", pod)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.priority, queued.timestamp

    def pre_filter(self, cycle: m.CycleState, pod: m.Pod, nodes: m.NodeTable) -> None:
        cycle[SEEN] = len(nodes)
        self._record("PreFilter", pod, nodes=len(nodes))

    def filter(self, cycle: m.CycleState, pod: m.Pod, node: m.NodeInfo) -> None:
        self._record("Filter", pod, node=node.name)

    async def post_filter(self, cycle: m.CycleState, pod: m.Pod, statuses: NodeStatuses) -> m.PostFilterResult:
        self._record("PostFilter", pod, why=statuses.histogram(cycle[SEEN]))
        return m.PostFilterResult(m.Status.unschedulable("the tour does not preempt"))

    def pre_score(self, cycle: m.CycleState, pod: m.Pod, nodes: m.NodeTable) -> None:
        self._record("PreScore", pod, nodes=len(nodes))

    def score(self, cycle: m.CycleState, pod: m.Pod, node: m.NodeInfo) -> int:
        self._record("Score", pod, node=node.name)
        return len(node.pods)

    def normalize_scores(self, cycle: m.CycleState, pod: m.Pod, nodes: m.NodeTable, scores: IntArray) -> IntArray:
        self._record("NormalizeScore", pod, scores=scores.tolist())
        return scores * 0

    def reserve(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._record("Reserve", pod, node=node_name)

    def unreserve(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._record("Unreserve", pod, node=node_name)

    def permit(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._record("Permit", pod, node=node_name)

    def pre_bind_pre_flight(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._record("PreBindPreFlight", pod, node=node_name)

    async def pre_bind(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._record("PreBind", pod, node=node_name)

    async def bind(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> m.Status:
        self._record("Bind", pod, node=node_name)
        return m.Status.skip()  # the next bind plugin binds the pod

    async def post_bind(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._record("PostBind", pod, node=node_name, nodes=cycle[SEEN])
