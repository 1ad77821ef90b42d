"""Complete clusters in virtual time: manifests, and the results of controllers, kubelets and the scheduler."""

import json
from typing import Any

from moorage.kube.api.cluster import Namespace, PodDisruptionBudget
from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.kube.api.workloads import AppsWorkload, DaemonSet, Deployment, Job, ReplicaSet
from moorage.testing.cluster import Cluster, in_virtual_time

Data = dict[str, Any]


STORAGE = {
    "apiVersion": "storage.k8s.io/v1",
    "kind": "StorageClass",
    "metadata": {"name": "fast"},
    "provisioner": "disk.example.org",
    "volumeBindingMode": "WaitForFirstConsumer",
}


def workload(kind: str, name: str = "web", *, image: str = "web:1", cpu: str = "100m", **spec: Any) -> Data:
    container = {"name": "c", "image": image, "resources": {"requests": {"cpu": cpu}}}
    template: Data = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container]}}
    template["spec"] |= spec.pop("pod", {})
    template["metadata"]["annotations"] = spec.pop("annotations", {})
    version = "batch/v1" if kind == "Job" else "apps/v1"
    selector = {} if kind == "Job" else {"selector": {"matchLabels": {"app": name}}}
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": name},
        "spec": {**selector, "template": template, **spec},
    }


def status(cluster: Cluster, kind: type[AppsWorkload | Job], name: str) -> Data:
    obj = cluster.find(kind, name)
    return {} if obj is None else obj.status


@in_virtual_time
async def test_deployment_is_rolled_out_scaled_and_deleted() -> None:
    async with Cluster(nodes=3) as cluster:
        await cluster.apply(workload("Deployment", replicas=4))
        await cluster.wait_for(lambda: len(cluster.running("app=web")) == 4)
        await cluster.wait_for(lambda: status(cluster, Deployment, "web").get("availableReplicas") == 4)

        await cluster.apply(workload("Deployment", image="web:2", replicas=4))
        await cluster.wait_for(lambda: _is_rolled_out(cluster, 4))
        assert {pod.spec.containers[0].image for pod in cluster.running()} == {"web:2"}
        assert sorted(item.spec.replicas for item in cluster.objects(ReplicaSet)) == [0, 4]

        await cluster.apply(workload("Deployment", image="web:2", replicas=1))
        await cluster.wait_for(lambda: len(cluster.pods()) == 1)
        await cluster.delete(workload("Deployment"))
        await cluster.wait_for(lambda: not cluster.pods() and not cluster.objects(ReplicaSet))


def _is_rolled_out(cluster: Cluster, replicas: int) -> bool:
    """Return the condition that ``kubectl rollout status`` waits for."""
    result, deployment = status(cluster, Deployment, "web"), cluster.find(Deployment, "web")
    counts = [result.get(field, 0) for field in ("replicas", "updatedReplicas", "availableReplicas")]
    generation = deployment.metadata.generation if deployment is not None else 1
    return result.get("observedGeneration", 0) >= generation and counts == [replicas] * 3


@in_virtual_time
async def test_rolling_deployment_keeps_its_minimum_of_pods() -> None:
    async with Cluster(nodes=3) as cluster:
        await cluster.apply(workload("Deployment", replicas=8))
        await cluster.wait_for(lambda: _is_rolled_out(cluster, 8))
        await cluster.apply(workload("Deployment", image="web:2", replicas=8))
        fewest, most = 8, 8
        for _ in range(300):
            live = cluster.running("app=web")
            fewest, most = min(fewest, len(live)), max(most, len([p for p in cluster.pods() if not p.is_terminating]))
            await cluster.sleep(0.02)
        assert _is_rolled_out(cluster, 8)
        assert (fewest >= 6, most <= 10) == (True, True), (fewest, most)


@in_virtual_time
async def test_stateful_set_starts_in_order_and_keeps_its_volumes() -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": "fast",
        },
    }
    async with Cluster(nodes=3) as cluster:
        manifest = workload("StatefulSet", "db", replicas=3, serviceName="db", volumeClaimTemplates=[claim])
        await cluster.apply(STORAGE, manifest)
        await cluster.wait_for(lambda: len(cluster.running("app=db")) == 3)
        names = [pod.name for pod in cluster.pods("app=db")]
        assert names == ["db-0", "db-1", "db-2"]
        starts = [pod.status.start_time for pod in cluster.pods("app=db")]
        assert starts == sorted(starts, key=str)
        assert [item.status.phase for item in cluster.objects(PersistentVolumeClaim)] == ["Bound"] * 3
        assert len(cluster.objects(PersistentVolume)) == 3

        await cluster.apply({**manifest, "spec": {**manifest["spec"], "replicas": 1}})
        await cluster.wait_for(lambda: [pod.name for pod in cluster.pods("app=db")] == ["db-0"])
        assert len(cluster.objects(PersistentVolumeClaim)) == 3, "volumes outlive the pods"


@in_virtual_time
async def test_claims_are_provisioned_for_every_kind_of_provisioner() -> None:
    """Names of CSI drivers have no slash, but names of other provisioners have one."""
    sources = {"ebs.csi.aws.com": "csi", "rancher.io/local-path": "hostPath", "kubernetes.io/gce-pd": "hostPath"}
    async with Cluster(nodes=1) as cluster:
        for number, provisioner in enumerate(sources):
            storage = {**STORAGE, "metadata": {"name": f"s{number}"}, "provisioner": provisioner}
            spec = {"storageClassName": f"s{number}", "accessModes": ["ReadWriteOnce"]}
            claim = {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": f"c{number}"},
                "spec": {**spec, "resources": {"requests": {"storage": "1Gi"}}},
            }
            await cluster.apply({**storage, "volumeBindingMode": "Immediate"}, claim)
        await cluster.sleep(5)
        claims = await cluster.client.list(PersistentVolumeClaim)
        assert {claim.name: claim.status.phase for claim in claims} == dict.fromkeys(("c0", "c1", "c2"), "Bound")
        response = await cluster.client.request("GET", "/api/v1/persistentvolumes")
        volumes = {item["spec"]["storageClassName"]: item["spec"] for item in json.loads(response)["items"]}
        for number, source in enumerate(sources.values()):
            assert source in volumes[f"s{number}"]


@in_virtual_time
async def test_daemon_set_has_a_pod_on_every_node() -> None:
    async with Cluster(nodes=4) as cluster:
        await cluster.apply(workload("DaemonSet", "log"))
        await cluster.wait_for(lambda: status(cluster, DaemonSet, "log").get("numberAvailable") == 4)
        assert sorted(pod.node_name for pod in cluster.pods("app=log")) == [node.name for node in cluster.nodes()]
        await cluster.embedded.add_nodes(1, name=lambda _number: "late")
        await cluster.wait_for(lambda: any(pod.node_name == "late" for pod in cluster.running("app=log")))


@in_virtual_time
async def test_job_runs_to_completion_and_is_cleaned_up() -> None:
    async with Cluster(nodes=2) as cluster:
        manifest = workload(
            "Job",
            "sum",
            completions=5,
            parallelism=2,
            ttlSecondsAfterFinished=60,
            pod={"restartPolicy": "Never"},
            annotations={"moorage.io/run-for": "3s"},
        )
        await cluster.apply(manifest)
        await cluster.wait_for(lambda: _has_ended(cluster, "sum", "Complete"))
        assert cluster.objects(Job)[0].status["succeeded"] == 5
        await cluster.wait_for(lambda: not cluster.objects(Job) and not cluster.pods(), seconds=120)


@in_virtual_time
async def test_failing_job_stops_after_its_backoff_limit() -> None:
    async with Cluster(nodes=1) as cluster:
        notes = {"moorage.io/run-for": "1s", "moorage.io/exit-code": "1"}
        await cluster.apply(workload("Job", "bad", backoffLimit=1, pod={"restartPolicy": "Never"}, annotations=notes))
        await cluster.wait_for(lambda: _has_ended(cluster, "bad", "Failed"), seconds=120)
        assert cluster.objects(Job)[0].status["failed"] == 2


def _has_ended(cluster: Cluster, name: str, kind: str) -> bool:
    conditions = status(cluster, Job, name).get("conditions") or ()
    return any(item["type"] == kind and item["status"] == "True" for item in conditions)


@in_virtual_time
async def test_pods_of_a_failed_node_are_replaced_until_it_returns() -> None:
    async with Cluster(nodes=2) as cluster:
        await cluster.apply(workload("Deployment", replicas=4))
        await cluster.wait_for(lambda: len(cluster.running("app=web")) == 4)
        victim = cluster.nodes()[0].name
        await cluster.fail_node(victim)
        await cluster.wait_for(lambda: len(_taints(cluster, victim)) == 2, seconds=120)
        await cluster.wait_for(
            lambda: len([pod for pod in cluster.running("app=web") if pod.node_name != victim]) == 4, seconds=400
        )
        await cluster.recover_node(victim)
        await cluster.wait_for(lambda: not _taints(cluster, victim), seconds=60)
        await cluster.wait_for(lambda: len(cluster.pods("app=web")) == 4, seconds=60)


def _taints(cluster: Cluster, name: str) -> list[str]:
    return [taint.key for node in cluster.nodes() if node.name == name for taint in node.taints]


@in_virtual_time
async def test_deleted_namespace_deletes_its_objects() -> None:
    async with Cluster(nodes=2) as cluster:
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
        inside = workload("Deployment", replicas=2)
        inside["metadata"]["namespace"] = "shop"
        note = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "note", "namespace": "shop"}}
        await cluster.apply(inside, note, namespace)
        await cluster.wait_for(lambda: len(cluster.running(namespace="shop")) == 2)
        await cluster.delete(namespace)
        await cluster.wait_for(lambda: all(item.name != "shop" for item in cluster.objects(Namespace)))
        assert not cluster.pods(namespace="shop")


@in_virtual_time
async def test_budget_counts_allowed_disruptions() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web"},
        "spec": {"minAvailable": "50%", "selector": {"matchLabels": {"app": "web"}}},
    }

    def allowed(cluster: Cluster) -> int:
        obj = cluster.find(PodDisruptionBudget, "web")
        return obj.status.disruptions_allowed if obj is not None else 0

    async with Cluster(nodes=2) as cluster:
        await cluster.apply(workload("Deployment", replicas=4), budget)
        await cluster.wait_for(lambda: allowed(cluster) == 2)


@in_virtual_time
async def test_claims_from_templates_are_created_allocated_and_released() -> None:
    device_class = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": 'device.driver == "gpu.example.org"'}}]},
    }
    resource_slice = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": "node-1-gpus"},
        "spec": {
            "driver": "gpu.example.org",
            "nodeName": "node-1",
            "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
            "devices": [{"name": "gpu-0"}],
        },
    }
    template = {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": "one-gpu"},
        "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}},
    }
    asks = {"restartPolicy": "Never", "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "one-gpu"}]}
    first, second = (
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "annotations": {"moorage.io/run-for": "10s"}},
            "spec": {"containers": [{"name": "c", "image": "i"}], **asks},
        }
        for name in ("first", "second")
    )
    async with Cluster(nodes=2) as cluster:
        await cluster.apply(device_class, resource_slice, template, first)
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        assert cluster.running()[0].node_name == "node-1"
        await cluster.apply(second)
        await cluster.sleep(2.0)
        assert cluster.why_pending("second"), "there is one device only"
        await cluster.wait_for(lambda: [pod.name for pod in cluster.running()] == ["second"])
        await cluster.wait_for(lambda: len(cluster.pods()) == 2 and not cluster.objects(ResourceClaim), seconds=60)


@in_virtual_time
async def test_dependents_of_an_orphaning_deletion_remain() -> None:
    async with Cluster(nodes=2) as cluster:
        await cluster.apply(workload("Deployment", replicas=5))
        await cluster.wait_for(lambda: len(cluster.running("app=web")) == 5)
        await cluster.sleep(5.0)
        (replica_set,) = cluster.objects(ReplicaSet)
        path = f"/apis/apps/v1/namespaces/default/replicasets/{replica_set.name}"
        await cluster.client.request("DELETE", path, b'{"propagationPolicy": "Orphan"}')
        await cluster.wait_for(lambda: cluster.find(ReplicaSet, replica_set.name) != replica_set)
        await cluster.sleep(5.0)
        before = {pod.uid for pod in cluster.running("app=web")}
        (successor,) = cluster.objects(ReplicaSet)
        assert successor.uid != replica_set.uid
        assert len(before) == 5
        owners = {pod.metadata.controller.uid for pod in cluster.pods() if pod.metadata.controller is not None}
        assert owners == {successor.uid}, "the deployment's next replica set took them over"


@in_virtual_time
async def test_new_deployment_adopts_orphaned_replica_sets() -> None:
    async with Cluster(nodes=2) as cluster:
        await cluster.apply(workload("Deployment", replicas=3))
        await cluster.wait_for(lambda: _is_rolled_out(cluster, 3))
        before = {pod.uid for pod in cluster.running()}
        path = "/apis/apps/v1/namespaces/default/deployments/web"
        await cluster.client.request("DELETE", path, b'{"propagationPolicy": "Orphan"}')
        await cluster.wait_for(lambda: cluster.find(Deployment, "web") is None)
        await cluster.apply(workload("Deployment", replicas=3))
        await cluster.wait_for(lambda: _is_rolled_out(cluster, 3))
        assert {pod.uid for pod in cluster.running()} == before


@in_virtual_time
async def test_ephemeral_volume_has_the_lifetime_of_its_pod() -> None:
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": "fast"}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "c", "image": "i"}], "volumes": [scratch]},
    }
    async with Cluster(nodes=1) as cluster:
        await cluster.apply(STORAGE, pod)
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        assert [claim.name for claim in cluster.objects(PersistentVolumeClaim)] == ["p-scratch"]
        await cluster.delete(pod)
        await cluster.wait_for(lambda: not cluster.objects(PersistentVolumeClaim))
        await cluster.wait_for(lambda: not cluster.objects(PersistentVolume))
