"""Revision histories and rollbacks, claims that are deleted with their pods, and scheduled jobs."""

from itertools import pairwise
from typing import Any

from moorage.kube.api.cluster import ServiceAccount
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.api.workloads import ControllerRevision, DaemonSet, Job, ReplicationController, StatefulSet
from moorage.testing.cluster import Cluster, in_virtual_time
from tests.integration.test_workloads import STORAGE, Data, status, workload

CLAIM = {
    "metadata": {"name": "data"},
    "spec": {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "fast",
    },
}


def images(cluster: Cluster, app: str) -> list[str]:
    return [pod.spec.containers[0].image for pod in sorted(cluster.running(f"app={app}"), key=lambda pod: pod.name)]


def revisions(cluster: Cluster) -> list[tuple[int, str]]:
    items = (
        (item.revision, item.data["spec"]["template"]["spec"]["containers"][0]["image"])
        for item in cluster.objects(ControllerRevision)
    )
    return sorted(items)


@in_virtual_time
async def test_stateful_set_stores_its_revisions() -> None:
    async with Cluster(nodes=3) as cluster:
        await cluster.apply(workload("StatefulSet", "db", image="db:1", replicas=3))
        await cluster.wait_for(lambda: images(cluster, "db") == ["db:1"] * 3)
        await cluster.apply(partitioned(2))
        await cluster.wait_for(lambda: images(cluster, "db") == ["db:1", "db:1", "db:2"])
        assert revisions(cluster) == [(1, "db:1"), (2, "db:2")]

        (first,) = [pod for pod in cluster.pods() if pod.name == "db-0"]
        await cluster.delete({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0"}})
        await cluster.wait_for(lambda: any(pod.name == "db-0" and pod.uid != first.uid for pod in cluster.running()))
        assert images(cluster, "db")[0] == "db:1", "below the partition, the old revision is used"

        await cluster.apply(workload("StatefulSet", "db", image="db:1", replicas=3))
        await cluster.wait_for(lambda: images(cluster, "db") == ["db:1"] * 3)
        assert revisions(cluster) == [(2, "db:2"), (3, "db:1")]


def partitioned(partition: int) -> Data:
    update = {"type": "RollingUpdate", "rollingUpdate": {"partition": partition}}
    return workload("StatefulSet", "db", image="db:2", replicas=3, updateStrategy=update)


@in_virtual_time
async def test_daemon_set_stores_its_revisions() -> None:
    async with Cluster(nodes=2) as cluster:
        for image in ("log:1", "log:2"):
            await cluster.apply(workload("DaemonSet", "log", image=image))
            await cluster.wait_for(lambda image=image: images(cluster, "log") == [image] * 2)  # type: ignore[misc]
        assert revisions(cluster) == [(1, "log:1"), (2, "log:2")]
        await cluster.wait_for(lambda: status(cluster, DaemonSet, "log").get("updatedNumberScheduled") == 2)
        await cluster.delete(workload("DaemonSet", "log"))
        await cluster.wait_for(lambda: not cluster.objects(ControllerRevision) and not cluster.pods())


def database(deleted: str, scaled: str, replicas: int) -> Data:
    policy = {"whenDeleted": deleted, "whenScaled": scaled}
    more: dict[str, Any] = {"persistentVolumeClaimRetentionPolicy": policy, "volumeClaimTemplates": [CLAIM]}
    return workload("StatefulSet", "db", replicas=replicas, **more)


@in_virtual_time
async def test_claims_of_scaled_down_pods_are_deleted() -> None:
    async with Cluster(nodes=3) as cluster:
        await cluster.apply(STORAGE, database("Retain", "Delete", 2))
        await cluster.wait_for(lambda: len(cluster.running("app=db")) == 2)
        await cluster.apply(database("Retain", "Delete", 1))
        await cluster.wait_for(
            lambda: [claim.name for claim in cluster.objects(PersistentVolumeClaim)] == ["data-db-0"]
        )
        await cluster.delete(database("Retain", "Delete", 1))
        await cluster.wait_for(lambda: not cluster.pods() and not cluster.objects(StatefulSet))
        assert len(cluster.objects(PersistentVolumeClaim)) == 1


@in_virtual_time
async def test_claims_are_deleted_with_their_stateful_set() -> None:
    async with Cluster(nodes=3) as cluster:
        await cluster.apply(STORAGE, database("Delete", "Retain", 2))
        await cluster.wait_for(lambda: len(cluster.running("app=db")) == 2)
        await cluster.delete(database("Delete", "Retain", 2))
        await cluster.wait_for(lambda: not cluster.objects(PersistentVolumeClaim))


@in_virtual_time
async def test_cron_job_creates_and_cleans_up_jobs() -> None:
    template = workload("Job", "tick", pod={"restartPolicy": "Never"})["spec"]
    spec = {"schedule": "* * * * *", "jobTemplate": {"spec": template}, "successfulJobsHistoryLimit": 2}
    async with Cluster(nodes=1) as cluster:
        await cluster.apply({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "tick"}, "spec": spec})
        names: set[str] = set()

        def have_been(count: int) -> bool:
            names.update(job.name for job in cluster.objects(Job))
            return len(names) >= count

        await cluster.wait_for(lambda: have_been(4), seconds=3600)
        await cluster.wait_for(lambda: len(cluster.objects(Job)) <= 3)
        numbers = sorted(int(name.removeprefix("tick-")) for name in names)
        assert [b - a for a, b in pairwise(numbers)] == [1, 1, 1]


@in_virtual_time
async def test_replication_controller_maintains_its_pods() -> None:
    obj = workload("ReplicationController", "old", replicas=2) | {"apiVersion": "v1"}
    obj["spec"]["selector"] = {"app": "old"}
    async with Cluster(nodes=1) as cluster:
        await cluster.apply(obj)
        await cluster.wait_for(lambda: len(cluster.running("app=old")) == 2)
        await cluster.wait_for(lambda: cluster.objects(ReplicationController)[0].status.get("readyReplicas") == 2)
        await cluster.delete(obj)
        await cluster.wait_for(lambda: not cluster.pods())


@in_virtual_time
async def test_each_namespace_has_a_service_account() -> None:
    async with Cluster(nodes=1) as cluster:
        await cluster.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}})
        await cluster.wait_for(
            lambda: {"default", "shop"} <= {item.namespace for item in cluster.objects(ServiceAccount)}
        )
