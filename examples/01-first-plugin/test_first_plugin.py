from pathlib import Path

from first_plugin import spot_only

from moorage.testing import Cluster, check_plugin, in_virtual_time

WORKLOAD = Path(__file__).with_name("workload.yaml")


@in_virtual_time
async def test_batch_pods_run_on_spot_capacity_only() -> None:
    async with Cluster(nodes=5, shape="cpu=8", plugins=[spot_only]) as cluster:
        await cluster.apply(WORKLOAD)
        await cluster.wait_for(lambda: len(cluster.running("app=crunch")) == 4)
        assert {pod.node_name for pod in cluster.running()} == {"node-1", "node-2"}

        (waiting,) = (pod.name for pod in cluster.pods() if not pod.node_name)
        await cluster.wait_for(lambda: "3 node(s) were not spot capacity" in cluster.why_pending(waiting))

        await cluster.apply(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-3", "labels": {"capacity": "spot"}}}
        )
        await cluster.wait_for(lambda: len(cluster.running("app=crunch")) == 5)


def test_both_forms_agree() -> None:
    check_plugin(spot_only, labels={"tier": ["batch", "web"], "capacity": ["spot", "reserved"]})
