"""A first plugin: batch pods run on spot capacity only."""

from moorage import NodeInfo, Pod, filter_function


@filter_function("node(s) were not spot capacity")
def spot_only(pod: Pod, node: NodeInfo) -> bool:
    """Limit batch pods to spot capacity; accept all nodes for other pods."""
    return pod.labels.get("tier") != "batch" or node.labels.get("capacity") == "spot"
