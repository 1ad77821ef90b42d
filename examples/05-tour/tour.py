"""A tour: one plugin that implements every extension point and logs each call, in the order of a pod's lifecycle."""

from typing import Any

import moorage as m
from moorage import IntArray, NodeStatuses, QueuedPod

SEEN = m.StateKey[int]("tour: how many nodes there were")


class Tour(
    m.PreEnqueuePlugin, m.QueueSortPlugin, m.PreFilterPlugin, m.FilterPlugin, m.PostFilterPlugin, m.PreScorePlugin,
    m.ScorePlugin, m.ReservePlugin, m.PermitPlugin, m.PreBindPlugin, m.BindPlugin, m.PostBindPlugin,
):  # fmt: skip
    """Log the life of a pod and change nothing."""

    def __init__(self, *, handle: m.Handle) -> None:
        self._log = handle.log

    def _say(self, point: str, pod: m.Pod, **facts: Any) -> None:
        self._log.info(point, pod=pod.key, **facts)

    def pre_enqueue(self, pod: m.Pod) -> None:
        self._say("PreEnqueue", pod)

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return -queued.priority, queued.timestamp

    def pre_filter(self, cycle: m.CycleState, pod: m.Pod, nodes: m.NodeTable) -> None:
        cycle[SEEN] = len(nodes)
        self._say("PreFilter", pod, nodes=len(nodes))

    def filter(self, cycle: m.CycleState, pod: m.Pod, node: m.NodeInfo) -> None:
        self._say("Filter", pod, node=node.name)

    async def post_filter(self, cycle: m.CycleState, pod: m.Pod, statuses: NodeStatuses) -> m.PostFilterResult:
        self._say("PostFilter", pod, why=statuses.histogram(cycle[SEEN]))
        return m.PostFilterResult(m.Status.unschedulable("the tour does not help"))

    def pre_score(self, cycle: m.CycleState, pod: m.Pod, nodes: m.NodeTable) -> None:
        self._say("PreScore", pod, nodes=len(nodes))

    def score(self, cycle: m.CycleState, pod: m.Pod, node: m.NodeInfo) -> int:
        self._say("Score", pod, node=node.name)
        return len(node.pods)

    def normalize_scores(self, cycle: m.CycleState, pod: m.Pod, nodes: m.NodeTable, scores: IntArray) -> IntArray:
        self._say("NormalizeScore", pod, scores=scores.tolist())
        return scores * 0

    def reserve(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._say("Reserve", pod, node=node_name)

    def unreserve(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._say("Unreserve", pod, node=node_name)

    def permit(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._say("Permit", pod, node=node_name)

    def pre_bind_pre_flight(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._say("PreBindPreFlight", pod, node=node_name)

    async def pre_bind(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._say("PreBind", pod, node=node_name)

    async def bind(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> m.Status:
        self._say("Bind", pod, node=node_name)
        return m.Status.skip()  # the next bind plugin does it

    async def post_bind(self, cycle: m.CycleState, pod: m.Pod, node_name: str) -> None:
        self._say("PostBind", pod, node=node_name, nodes=cycle[SEEN])
