"""Base class of GPU policies, which score a node by its free resources and the pod's request."""

from abc import abstractmethod
from collections.abc import Hashable
from typing import Final

from moorage.contrib.gpu.books import books_of
from moorage.contrib.gpu.columns import GpuTable
from moorage.contrib.gpu.demand import GpuDemand, readable_demand
from moorage.contrib.gpu.devices import NodeGpus
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, ScorePlugin
from moorage.scheduler.framework.status import IntArray

LARGEST_CPU: Final = 128_000
"""The CPU of the largest node of the published experiments, in thousandths: what scores are relative to."""
LARGEST_GPU: Final = 8_000


class GpuPolicy(ScorePlugin):
    """A score that goes by a node's free CPU and devices, and the pod's demand of them."""

    depends_on = DependsOn.PODS

    def __init__(self, *, handle: Handle) -> None:
        self._books = books_of(handle)

    @abstractmethod
    def score_node(self, cpu: int, demand: GpuDemand | None, node: NodeGpus) -> int:
        """Score one node for a pod with this CPU and GPU request."""

    @abstractmethod
    def score_table(self, cpu: int, demand: GpuDemand | None, table: GpuTable) -> IntArray:
        """Score many nodes for it."""

    def sign(self, pod: Pod) -> Hashable:
        return pod.requests.get("cpu", 0), readable_demand(pod)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        gpus = self._books.columns.of(node)
        return self.score_node(pod.requests.get("cpu", 0), readable_demand(pod), gpus)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        table = self._books.columns.through(nodes)
        return self.score_table(pod.requests.get("cpu", 0), readable_demand(pod), table)
