"""What must hold of the cluster after a round."""

from benchmarks.live.workload import NAMESPACE, Workload
from moorage.api.pod import Pod
from moorage.client.rest import ApiClient


async def problems(client: ApiClient, workload: Workload) -> list[str]:
    """Say what is wrong."""
    pods = await client.list(Pod, NAMESPACE)
    bound = sum(bool(pod.node_name) for pod in pods)
    return [] if bound >= workload.bound else [f"{bound} bound"]
