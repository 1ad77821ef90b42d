"""A first plugin: batch pods run on spot capacity only."""

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.functions import filter_function
from moorage.scheduler.framework.nodeinfo import NodeInfo


@filter_function("node(s) were not spot capacity")
def spot_only(pod: Pod, node: NodeInfo) -> bool:
    """Keep batch pods on spot capacity; all others may go anywhere."""
    return pod.labels.get("tier") != "batch" or node.labels.get("capacity") == "spot"
