"""CapacityScheduling on an embedded cluster: borrowing and reclaiming."""

from pathlib import Path
from typing import Any

from moorage.contrib.community.capacity_scheduling.plugin import ElasticQuota
from moorage.testing import Cluster, in_virtual_time

DEFINITIONS = Path(__file__).parents[2] / "deploy/community/definitions.yaml"
CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- plugins:
    multiPoint: {enabled: [{name: CapacityScheduling}]}
    postFilter: {enabled: [{name: CapacityScheduling}], disabled: [{name: "*"}]}
"""


def deployment(namespace: str, replicas: int) -> dict[str, Any]:
    container = {"name": "main", "image": "app", "resources": {"requests": {"cpu": "2"}}}
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container]}
    template = {"metadata": {"labels": {"app": "web"}}, "spec": spec}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "web", "namespace": namespace},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": "web"}}, "template": template},
    }


async def add_namespace(cluster: Cluster, name: str) -> None:
    await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    spec = {"min": {"cpu": 4}, "max": {"cpu": 6}}
    head = {"apiVersion": "scheduling.x-k8s.io/v1alpha1", "kind": "ElasticQuota"}
    await cluster.apply({**head, "metadata": {"name": "quota", "namespace": name}, "spec": spec})


@in_virtual_time
async def test_borrowed_quota_is_reclaimed() -> None:
    async with Cluster(nodes=2, shape="cpu=4", config=CONFIG, definitions=[DEFINITIONS]) as cluster:

        def running(namespace: str) -> int:
            return len(cluster.running(namespace=namespace))

        def used(namespace: str) -> object:
            quota = cluster.find(ElasticQuota, "quota", namespace)
            return None if quota is None else quota.status.used.get("cpu")

        await add_namespace(cluster, "red")
        await add_namespace(cluster, "blue")
        await cluster.apply(deployment("red", 4))
        await cluster.wait_for(lambda: running("red") == 3)
        await cluster.sleep(30)
        assert running("red") == 3, "six CPUs are its limit"
        assert used("red") == "6"
        waiting = next(pod for pod in cluster.pods(namespace="red") if not pod.node_name)
        assert "because ElasticQuota quota is more than Max" in cluster.why_pending(waiting.name, "red")

        await cluster.apply(deployment("blue", 2))
        await cluster.wait_for(lambda: running("blue") == 2)
        await cluster.sleep(30)
        assert (running("red"), running("blue")) == (2, 2), "red has returned the borrowed part"
        assert (used("red"), used("blue")) == ("4", "4")
        waiting = next(pod for pod in cluster.pods(namespace="red") if not pod.node_name)
        assert "because total ElasticQuota used is more than min" in cluster.why_pending(waiting.name, "red")
