"""Reading a live cluster: only fields that affect scheduling."""

import asyncio
from typing import Any

import pytest
from tests.unit.insight.explain.clusters import node
from tests.unit.insight.snapshots.clusters import (
    FAST,
    SECRET,
    WORKLOADS,
    read,
    secret_pod,
    secret_template,
    secret_workload,
)

from moorage.common.errors import Forbidden, InputError
from moorage.insight.snapshots.cluster_reader import read_cluster
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient


def test_secrets_are_omitted_by_default() -> None:
    assert SECRET not in str(read(node("n1"), secret_pod()).contents)
    assert SECRET in str(read(node("n1"), secret_pod(), with_annotations=True).contents)
    full_contents = str(read(node("n1"), secret_pod(), all_fields=True).contents)
    assert full_contents.count(SECRET) == 3


@pytest.mark.parametrize("kind", WORKLOADS)
def test_templates_expose_no_more_than_pods(kind: str) -> None:
    contents = read(secret_workload(kind)).contents
    assert SECRET not in str(contents)
    template = next(item for item in contents if item["kind"] == kind)["spec"]["template"]
    assert template["metadata"]["annotations"] == {"moorage.io/gang": "ring"}
    assert template["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert SECRET in str(read(secret_workload(kind), all_fields=True).contents)


def test_cron_jobs_and_claim_templates_are_read_without_secrets() -> None:
    job_template = {"metadata": {"annotations": {"note": SECRET}}, "spec": {"template": secret_template()}}
    job_template["spec"]["template"]["spec"]["restartPolicy"] = "Never"
    cron_job = {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"name": "night"}}
    requests = [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]
    template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": "t"}}
    claim = {"metadata": {"annotations": {"note": SECRET}}, "spec": {"devices": {"requests": requests}}}
    schedule = {"schedule": "0 2 * * *", "jobTemplate": job_template}
    contents = {
        item["kind"]: item.get("spec")
        for item in read({**cron_job, "spec": schedule}, {**template, "spec": claim}).contents
    }
    assert SECRET not in str(contents)
    pod_spec = contents["CronJob"]["jobTemplate"]["spec"]["template"]["spec"]
    assert pod_spec["containers"][0]["resources"] == {"requests": {"cpu": "1"}}
    assert contents["ResourceClaimTemplate"]["spec"]["devices"]["requests"][0]["name"] == "r"


def test_parameters_of_storage_classes_are_omitted() -> None:
    contents = read({**FAST, "parameters": {"key": SECRET, "moorage.io/topology": "zone"}}).contents
    assert [item["parameters"] for item in contents if item["kind"] == "StorageClass"] == [
        {"moorage.io/topology": "zone"}
    ]


def test_all_missing_permissions_are_reported() -> None:
    class Refusing(ApiClient):
        async def request(self, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
            if "/nodes" in path or "csinodes" in path:
                raise Forbidden("no")
            return b'{"items": []}'

    async def go() -> None:
        await read_cluster(Refusing(Connection("http://localhost", "here")))

    with pytest.raises(InputError, match=r"no permission to list nodes, csinodes\.storage") as caught:
        asyncio.run(go())
    assert 'allow verb "list" on resource "nodes" of apiGroup ""' in str(caught.value)


QUOTA = {
    "apiVersion": "v1",
    "kind": "ResourceQuota",
    "metadata": {"name": "compute", "namespace": "default", "annotations": {"note": SECRET}},
    "spec": {"hard": {"pods": "2"}},
}


def test_quotas_are_read_without_annotations() -> None:
    (quota,) = (item for item in read(node("n1"), QUOTA).contents if item["kind"] == "ResourceQuota")
    assert quota["spec"] == {"hard": {"pods": "2"}}
    assert "annotations" not in quota["metadata"]


def test_quotas_need_no_permission() -> None:
    class Refusing(ApiClient):
        async def request(self, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
            if "/resourcequotas" in path:
                raise Forbidden("no")
            return b'{"items": []}'

    cluster = asyncio.run(read_cluster(Refusing(Connection("http://localhost", "here"))))
    assert cluster.skipped == ("resourcequotas",)


def test_configuration_of_the_running_scheduler_is_read() -> None:
    metadata = {"name": "moorage", "namespace": "kube-system", "labels": {"app.kubernetes.io/name": "moorage"}}
    config = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"config.yaml": "profiles: []"}}
    foreign = {**config, "metadata": {**metadata, "namespace": "default"}, "data": {"config.yaml": "extenders: []"}}
    cluster = read(node("n1"), foreign, config)
    assert (cluster.config, cluster.config_source) == ("profiles: []", "the ConfigMap kube-system/moorage")


def test_configuration_of_kube_scheduler_is_read() -> None:
    class Proxying(ApiClient):
        async def request(self, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
            if path.endswith("/pods/https:kube-scheduler-a:10259/proxy/configz"):
                return b'{"componentconfig": {"profiles": [{"schedulerName": "packing"}]}}'
            if "/kube-system/pods?labelSelector=component" in path:
                return b'{"items": [{"metadata": {"name": "kube-scheduler-a"}}]}'
            return b'{"items": []}'

    cluster = asyncio.run(read_cluster(Proxying(Connection("http://localhost", "here"))))
    assert cluster.config == '{"profiles":[{"schedulerName":"packing"}]}'
    assert cluster.config_source == "/configz of the pod kube-system/kube-scheduler-a"


@pytest.mark.parametrize("answer", [b"", b"[]", b"{}", b'"text"'])
def test_unreadable_configuration_of_kube_scheduler_is_ignored(answer: bytes) -> None:
    class Proxying(ApiClient):
        async def request(self, method: str, path: str, *arguments: Any, **options: Any) -> bytes:
            if path.endswith("/proxy/configz"):
                return answer
            is_list = "/kube-system/pods?" in path
            return b'{"items": [{"metadata": {"name": "a"}}]}' if is_list else b'{"items": []}'

    cluster = asyncio.run(read_cluster(Proxying(Connection("http://localhost", "here"))))
    assert cluster.config == ""
    assert cluster.config_source.startswith("found no scheduler configuration in ")


def test_mounts_of_a_pending_pod_are_kept() -> None:
    """Without them, a change could not remove a volume together with its mounts."""
    mounts = [{"name": "data", "mountPath": "/data", "readOnly": True}]
    containers = [{"name": "c", "image": "i", "volumeMounts": mounts}]
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "gone"}}]
    pending = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "default"}}
    contents = read(node("n1"), {**pending, "spec": {"containers": containers, "volumes": volumes}}).contents
    (pod,) = (item for item in contents if item["kind"] == "Pod")
    assert pod["spec"]["containers"][0]["volumeMounts"][0] == {"name": "data", "mountPath": "/data"}


def failed_creation(kind: str, moment: str, reason: str = "FailedCreate") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{reason.lower()}-{moment[-3:-1]}", "namespace": "default"},
        "involvedObject": {"kind": kind, "namespace": "default", "name": "w"},
        "reason": reason,
        "message": 'admission webhook "policy.example.org" denied the request',
        "lastTimestamp": moment,
    }


@pytest.mark.parametrize("later", ["", "SuccessfulCreate"])
def test_failed_creations_are_conditions(later: str) -> None:
    template = {"metadata": {"labels": {"app": "w"}}, "spec": {"containers": [{"name": "main", "image": "app:1"}]}}
    spec = {"serviceName": "w", "selector": {"matchLabels": {"app": "w"}}, "template": template}
    workload = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "w"}, "spec": spec}
    events = [failed_creation("StatefulSet", "2026-01-01T00:00:01Z")]
    events += [failed_creation("StatefulSet", "2026-01-01T00:00:02Z", later)] if later else []
    cluster = read(node("n1"), workload, *events)
    (content,) = (item for item in cluster.contents if item["kind"] == "StatefulSet")
    conditions = (content.get("status") or {}).get("conditions") or ()
    failures = [item["message"] for item in conditions if item["type"] == "ReplicaFailure"]
    assert failures == ([] if later else ['admission webhook "policy.example.org" denied the request'])


def test_durations_of_pods_are_kept() -> None:
    metadata = {"name": "p", "namespace": "default", "annotations": {"moorage.io/run-for": "2h", "team": "web"}}
    spec = {"containers": [{"name": "c", "image": "i"}], "activeDeadlineSeconds": 3600, "nodeName": "n1"}
    contents = read(node("n1"), {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}).contents
    (pod,) = (item for item in contents if item["kind"] == "Pod")
    assert pod["metadata"]["annotations"] == {"moorage.io/run-for": "2h"}
    assert pod["spec"]["activeDeadlineSeconds"] == 3600


def test_prices_of_nodes_are_kept() -> None:
    priced = node("n1")
    priced["metadata"]["annotations"] = {"moorage.io/price-per-hour": "1.5", "team": "web"}
    (content,) = (item for item in read(priced).contents if item["kind"] == "Node")
    assert content["metadata"]["annotations"] == {"moorage.io/price-per-hour": "1.5"}
