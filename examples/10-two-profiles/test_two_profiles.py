from pathlib import Path

from moorage.testing import Cluster, in_virtual_time

DIRECTORY = Path(__file__).parent


@in_virtual_time
async def test_services_spread_and_batch_packs() -> None:
    async with Cluster(nodes=4, shape="cpu=8,memory=32Gi,zones=2", config=DIRECTORY / "scheduler.yaml") as cluster:
        await cluster.apply(DIRECTORY / "workload.yaml")
        await cluster.wait_for(lambda: len(cluster.running()) == 8)
        assert len({pod.node_name for pod in cluster.running("app=shop")}) == 4
        assert len({pod.node_name for pod in cluster.running("app=crunch")}) == 1
