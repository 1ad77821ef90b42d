from pathlib import Path

from gang import Gang

from moorage import Pod
from moorage.testing import Cluster, in_virtual_time

WORKLOAD = Path(__file__).with_name("workload.yaml")


@in_virtual_time
async def test_gangs_start_together() -> None:
    async with Cluster(nodes=2, shape="cpu=4", plugins=[Gang]) as cluster:
        await cluster.apply(WORKLOAD)

        def bound(gang: str) -> list[Pod]:
            return [pod for pod in cluster.pods(f"gang={gang}") if pod.node_name]

        bound_counts: set[tuple[int, int]] = set()

        def all_done() -> bool:
            bound_counts.add((len(bound("red")), len(bound("blue"))))
            return all(pod.status.phase == "Succeeded" for pod in cluster.pods()) and len(cluster.pods()) == 6

        await cluster.wait_for(all_done, seconds=1200)
        # Never have both gangs some pods bound but not all.
        assert not [pair for pair in bound_counts if 0 < pair[0] < 3 and 0 < pair[1] < 3]


@in_virtual_time
async def test_invalid_gang_size_is_reported() -> None:
    async with Cluster(nodes=1, plugins=[Gang]) as cluster:
        labels = {"gang": "red", "gang-size": "many"}
        spec = {"containers": [{"name": "main", "image": "a:1"}]}
        await cluster.apply(
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "labels": labels}, "spec": spec}
        )
        await cluster.wait_for(lambda: "gang-size is 'many': write the number" in cluster.why_pending("a"))
