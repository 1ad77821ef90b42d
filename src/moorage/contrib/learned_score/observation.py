"""The observation of a policy: columns of the nodes and of the pod, equal in training and in a cluster.

>>> columns = ObservedColumns(("cpu",))
>>> columns.of_nodes
('cpu.allocatable', 'cpu.free', 'cpu.left', 'pods.free', 'taints.avoided')
>>> columns.of_pod
('cpu.request', 'priority')
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from moorage.common.arrays import NDArray
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from moorage.scheduler.framework.nodetable import NodeTable

Float32Array = NDArray[np.float32]

_GIB: Final = float(1 << 30)
_UNITS: Final = {CPU: 1000.0, MEMORY: _GIB, EPHEMERAL_STORAGE: _GIB}
_AVOIDED: Final = "PreferNoSchedule"


class Observation(NamedTuple):
    """One row per node, and one row for the pod, with the columns of :class:`ObservedColumns`."""

    nodes: Float32Array
    pod: Float32Array


class ObservedColumns:
    """The columns for some resources, and how they are read from a cluster.

    For each resource a node has ``allocatable`` (cores, GiB, or a number), ``free`` (the share that is not requested)
    and ``left`` (the share that would be free with the pod; negative if it does not fit). A node without the resource
    has zeros. ``pods.free`` is the free share of the pod limit, ``taints.avoided`` the number of untolerated
    PreferNoSchedule taints. The pod has its requests and the decimal logarithm of its priority.
    """

    def __init__(self, resources: Sequence[str]) -> None:
        self.resources = tuple(resources)
        per_node = [f"{resource}.{column}" for resource in self.resources for column in ("allocatable", "free", "left")]
        self.of_nodes = (*per_node, "pods.free", "taints.avoided")
        self.of_pod = (*(f"{resource}.request" for resource in self.resources), "priority")
        self.left = [self.of_nodes.index(f"{resource}.left") for resource in self.resources]
        """The indexes of the ``left`` columns, which decide without a policy."""

    def observe(self, pod: Pod, nodes: NodeTable) -> Observation:
        """Return the observation of a pod and the nodes of a table."""
        rows = np.zeros((len(nodes), len(self.of_nodes)), dtype=np.float32)
        for number, resource in enumerate(self.resources):
            allocatable, columns = nodes.allocatable[resource], rows[:, 3 * number : 3 * number + 3]
            free = allocatable - nodes.requested[resource]
            columns[:, 0] = allocatable / _unit(resource)
            columns[:, 1] = _shares(free, allocatable)
            columns[:, 2] = _shares(free - pod.requests.get(resource, 0), allocatable)
        rows[:, -2] = _shares(nodes.allocatable[PODS] - nodes.pod_count, nodes.allocatable[PODS])
        rows[:, -1] = nodes.taints.map(
            lambda taints: sum(taint.effect == _AVOIDED and not pod.tolerates(taint) for taint in taints)
        )
        requests = [pod.requests.get(resource, 0) / _unit(resource) for resource in self.resources]
        importance = np.sign(pod.priority) * np.log10(1.0 + abs(pod.priority))
        return Observation(rows, np.array([*requests, importance], dtype=np.float32))


def _unit(resource: str) -> float:
    return _GIB if resource.startswith("hugepages-") else _UNITS.get(resource, 1.0)


def _shares(amounts: NDArray[np.int64], of: NDArray[np.int64]) -> NDArray[np.float64]:
    return np.divide(amounts, of, out=np.zeros(len(of), dtype=np.float64), where=of > 0)
