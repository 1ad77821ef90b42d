from pathlib import Path

from gpu_labels import GpuLabels

from moorage.testing import Cluster, check_plugin, in_virtual_time

WORKLOAD = Path(__file__).with_name("workload.yaml")


@in_virtual_time
async def test_pods_get_the_requested_gpus() -> None:
    async with Cluster(nodes=3, plugins=[GpuLabels]) as cluster:
        await cluster.apply(WORKLOAD)
        await cluster.wait_for(lambda: [pod.node_name for pod in cluster.running()] == ["node-1"])
        await cluster.wait_for(lambda: "1 node(s) had too few GPUs, 2 node(s) had no" in cluster.why_pending("greedy"))
        await cluster.wait_for(lambda: "is '8GB': write a whole number" in cluster.why_pending("mistaken"))


LABELS = {
    "scv/Gpu": ["True"],
    "scv/Health": ["Healthy"],
    "scv/Level": ["High", "Low"],
    "scv/FreeMemory": ["1000", "8000", "much"],
    "scv/Memory": ["8000", "16000"],
    "scv/Number": ["1", "2"],
}


def test_both_forms_agree() -> None:
    check_plugin(GpuLabels, labels=LABELS, examples=50)
