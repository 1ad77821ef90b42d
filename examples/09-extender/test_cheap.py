from pathlib import Path

from cheap import Cheap

from moorage.testing import Cluster, check_plugin, in_virtual_time

WORKLOAD = Path(__file__).with_name("workload.yaml")


@in_virtual_time
async def test_plugin_gives_the_same_result_in_process() -> None:
    async with Cluster(nodes=3, plugins=[Cheap]) as cluster:
        await cluster.apply(WORKLOAD)
        await cluster.wait_for(lambda: [pod.name for pod in cluster.running()] == ["thrifty"])
        assert cluster.running()[0].node_name == "node-2"
        await cluster.wait_for(lambda: "3 node(s) were above the pod's budget" in cluster.why_pending("broke"))


def test_both_forms_agree() -> None:
    check_plugin(Cheap, labels={"price": ["5", "90"], "budget": ["10", "cheap"]}, examples=30)
