"""Moorage's controllers, kubelets and scheduler on the real API server."""

import asyncio
from collections.abc import Callable

import msgspec

from moorage.cluster.applying import check_manifests
from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
from moorage.common.clock import SystemClock
from moorage.kube.api.cluster import Namespace, PodDisruptionBudget
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.api.workloads import DaemonSet, Deployment, Job, ReplicaSet
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from tests.integration.test_workloads import Data, workload
from tests.support.control_plane import ControlPlane, control_plane

ENOUGH = 60.0
STORAGE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "disk.example.org",
    "volumeBindingMode": "WaitForFirstConsumer",
}
CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    },
}
BUDGET = {
    "apiVersion": "policy/v1",
    "kind": "PodDisruptionBudget",
    "metadata": {"name": "web"},
    "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
}
SHOP = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
INSIDE = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "shop"}}
JOB = workload("Job", "sum", completions=3, pod={"restartPolicy": "Never"}, annotations={"moorage.io/run-for": "1s"})
SET = workload("StatefulSet", "db", replicas=2, serviceName="db", volumeClaimTemplates=[CLAIM])


def test_complete_cluster_on_the_real_api_server() -> None:
    with control_plane() as plane:
        asyncio.run(story(plane))


async def story(plane: ControlPlane) -> None:
    connection = plane.connection()
    options = ClusterOptions(nodes=3, policy=load_policy(collect_plugins()))
    async with EmbeddedCluster(lambda: ApiClient(connection), SystemClock(), options) as embedded:
        web, log = workload("Deployment", replicas=4), workload("DaemonSet", "log")
        await apply(embedded, STORAGE, SHOP, INSIDE, BUDGET, web, log, JOB, SET)
        await until(embedded, lambda: status(embedded, Deployment, "web").get("availableReplicas") == 4)
        await until(embedded, lambda: status(embedded, DaemonSet, "log").get("numberAvailable") == 3)
        await until(embedded, lambda: status(embedded, Job, "sum").get("succeeded") == 3)
        await until(embedded, lambda: status(embedded, PodDisruptionBudget, "web").get("disruptionsAllowed") == 2)
        await until(embedded, lambda: [c.status.phase for c in embedded.cache[PersistentVolumeClaim]] == ["Bound"] * 2)

        await apply(embedded, workload("Deployment", image="web:2", replicas=4))
        await until(embedded, lambda: sorted(item.spec.replicas for item in embedded.cache[ReplicaSet]) == [0, 4])
        await until(embedded, lambda: {pod.spec.containers[0].image for pod in of(embedded, "web")} == {"web:2"})

        await embedded.applier.delete(check_manifests(to_documents([SHOP, web], source="the story")))
        await until(embedded, lambda: not of(embedded, "web") and embedded.cache[Namespace].get("shop") is None)


async def apply(embedded: EmbeddedCluster, *objects: Data) -> None:
    await embedded.applier.apply(check_manifests(to_documents(objects, source="the story")))


async def until(embedded: EmbeddedCluster, condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(ENOUGH):
        while not condition():
            assert embedded.failure() is None
            await asyncio.sleep(0.05)


def status(
    embedded: EmbeddedCluster, kind: type[Deployment | DaemonSet | Job | PodDisruptionBudget], name: str
) -> Data:
    obj = embedded.cache[kind].get(f"default/{name}")
    plain: Data = {} if obj is None else msgspec.to_builtins(obj.status)
    return plain


def of(embedded: EmbeddedCluster, app: str) -> list[Pod]:
    return [pod for pod in embedded.cache[Pod] if pod.labels.get("app") == app and not pod.is_terminating]
