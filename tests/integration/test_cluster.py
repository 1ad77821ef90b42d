"""`moorage.testing.Cluster` in real time, over HTTP; and what it tells when something goes wrong."""

import asyncio

import pytest

from moorage.testing import Cluster, in_virtual_time
from tests.integration.test_workloads import workload


def test_the_same_in_real_time() -> None:
    async def story() -> None:
        async with Cluster(nodes=2) as cluster:
            await cluster.apply(workload("Deployment", replicas=2))
            await cluster.wait_for(lambda: len(cluster.running("app=web")) == 2)
            assert cluster.kubeconfig["current-context"] == "moorage"

    asyncio.run(story())


@in_virtual_time
async def test_what_does_not_happen_is_told_with_the_pods_as_they_are() -> None:
    async with Cluster(nodes=1) as cluster:
        await cluster.apply(workload("Deployment", cpu="900", replicas=1))
        with pytest.raises(TimeoutError, match="Insufficient cpu"):
            await cluster.wait_for(lambda: bool(cluster.running()), seconds=30)


@in_virtual_time
async def test_without_a_scheduler_pods_wait() -> None:
    async with Cluster(nodes=1, scheduler=False) as cluster:
        await cluster.apply(workload("Deployment", replicas=1))
        await cluster.wait_for(lambda: len(cluster.pods()) == 1)
        await cluster.sleep(60.0)
        assert [pod.node_name for pod in cluster.pods()] == [""]


@in_virtual_time
async def test_text_and_data_are_applied_like_files() -> None:
    async with Cluster(nodes=0) as cluster:
        one = "apiVersion: v1\nkind: Namespace\nmetadata: {name: %s}\n"
        text = "---\n".join((one % "a", one % "b"))
        stored = await cluster.apply(text, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "c"}})
        assert [item["metadata"]["name"] for item in stored] == ["a", "b", "c"]
