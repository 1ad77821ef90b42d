from pathlib import Path

from reserved import Reserved

from moorage.testing import Cluster, in_virtual_time

DIRECTORY = Path(__file__).parent
ADS = {"apiVersion": "example.org/v1", "kind": "Reservation", "metadata": {"name": "node-2"}}


@in_virtual_time
async def test_reserved_nodes_are_kept_for_their_team() -> None:
    async with Cluster(nodes=2, plugins=[Reserved], definitions=[DIRECTORY / "definition.yaml"]) as cluster:
        await cluster.apply(DIRECTORY / "workload.yaml")
        await cluster.wait_for(lambda: [pod.name for pod in cluster.running()] == ["indexer"])
        assert cluster.running()[0].node_name == "node-1"
        await cluster.wait_for(lambda: "reserved for team search" in cluster.why_pending("visitor"))
        assert "1 node(s) were reserved for team ads" in cluster.why_pending("visitor")

        await cluster.delete(ADS)
        await cluster.wait_for(lambda: [pod.name for pod in cluster.running()] == ["indexer", "visitor"])
        assert cluster.running()[1].node_name == "node-2"
