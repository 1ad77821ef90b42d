"""A first plugin: batch pods run on spot capacity only."""

from moorage import NodeInfo, Pod, filter_function


@filter_function("node(s) were not spot capacity")
def spot_only(pod: Pod, node: NodeInfo) -> bool:
    """Keep batch pods on spot capacity; all others may go anywhere."""
    return pod.labels.get("tier") != "batch" or node.labels.get("capacity") == "spot"
