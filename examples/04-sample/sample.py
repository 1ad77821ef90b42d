"""The smallest complete plugin: a filter that accepts every node, and a pre-bind that reads the node."""

from moorage import CycleState, FilterPlugin, Handle, NodeInfo, Pod, PreBindPlugin, Status


class Sample(FilterPlugin, PreBindPlugin):
    """Log the filtered pods and nodes, and the node of each pod."""

    name = "sample"

    def __init__(self, *, handle: Handle) -> None:
        self._handle = handle

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Accept every node."""
        self._handle.log.v(3).info("filter", pod=pod.key, node=node.name)
        return None

    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Request a pre-bind call for every pod."""
        return None

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Look up the current state of the node."""
        node = self._handle.nodes.find(node_name)
        if node is None:
            return Status.error(f"node {node_name} no longer exists")
        self._handle.log.v(3).info("prebind", pod=pod.key, node=node.name, pods_there=len(node.pods))
        return None
