from typing import Any

import pytest
from tests.support.api import MERGE, PODS, ApiHarness, Data, pod

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
MAPS = "/api/v1/namespaces/default/configmaps"
CLAIMS = "/api/v1/namespaces/default/persistentvolumeclaims"
SERVICES = "/api/v1/namespaces/default/services"
JOBS = "/apis/batch/v1/namespaces/default/jobs"


def quota(
    name: str = "most", *, scopes: list[str] | None = None, selector: list[Data] | None = None, **hard: str
) -> Data:
    spec: Data = {"hard": {key.replace("__", "/").replace("_", "."): amount for key, amount in hard.items()}}
    if scopes:
        spec["scopes"] = scopes
    if selector:
        spec["scopeSelector"] = {"matchExpressions": selector}
    return {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": name}, "spec": spec}


def asking(name: str = "web", *, requests: Any = None, limits: Any = None, **spec: Any) -> Data:
    resources = {"requests": requests or {}, "limits": limits or {}}
    return pod(name, containers=[{"name": "web", "image": "web:1", "resources": resources}], **spec)


def used(client: ApiHarness, name: str = "most") -> Data:
    usage: Data = client.get(f"{QUOTAS}/{name}")["status"]["used"]
    return usage


def test_existing_objects_count_from_the_start():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    client.create(QUOTAS, quota(pods="2", configmaps="5"))
    assert client.get(f"{QUOTAS}/most")["status"] == {
        "hard": {"pods": "2", "configmaps": "5"},
        "used": {"pods": "1", "configmaps": "0"},
    }


def test_usage_is_updated_immediately():
    client = ApiHarness()
    client.create(QUOTAS, quota(pods="2", configmaps="5"))
    client.create(MAPS, {"metadata": {"name": "one"}})
    client.create(PODS, pod("a"))
    assert used(client) == {"pods": "1", "configmaps": "1"}
    client.request("DELETE", f"{MAPS}/one")
    client.request("DELETE", f"{PODS}/a")
    assert used(client) == {"pods": "0", "configmaps": "0"}


def test_excess_is_rejected_with_the_text_of_the_api():
    client = ApiHarness()
    client.create(QUOTAS, quota(pods="1", requests_cpu="1"))
    client.create(PODS, asking("a", requests={"cpu": "700m"}))
    error = client.request("POST", PODS, asking("b", requests={"cpu": "0.5"}), want=403)
    assert error["reason"] == "Forbidden"
    assert error["message"] == (
        'pods "b" is forbidden: exceeded quota: most, requested: pods=1,requests.cpu=500m, '
        "used: pods=1,requests.cpu=700m, limited: pods=1,requests.cpu=1"
    )
    assert client.names(PODS) == ["a"]


def test_finished_pod_releases_its_quota():
    client = ApiHarness()
    client.create(QUOTAS, quota(pods="1", count__pods="5"))
    client.create(PODS, pod("a"))
    client.request("PATCH", f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE)
    client.create(PODS, pod("b"))
    assert used(client) == {"pods": "1", "count/pods": "2"}


def test_container_must_specify_limited_resources():
    client = ApiHarness()
    client.create(QUOTAS, quota(limits_memory="1Gi", cpu="1"))
    error = client.request("POST", PODS, asking("a", requests={"memory": "1Mi"}), want=403)
    why = "failed quota: most: must specify cpu for: web; limits.memory for: web"
    assert error["message"] == f'pods "a" is forbidden: {why}'


def test_changed_quota_is_recounted_and_foreign_status_is_overwritten():
    client = ApiHarness()
    client.create(QUOTAS, quota(pods="1"))
    client.create(PODS, pod("a"))
    client.request("PATCH", f"{QUOTAS}/most", {"spec": {"hard": {"configmaps": "3"}}}, content_type=MERGE)
    assert used(client) == {"pods": "1", "configmaps": "0"}
    wrong = {"status": {"hard": {"pods": "100"}, "used": {"pods": "50"}}}
    assert client.request("PATCH", f"{QUOTAS}/most/status", wrong, content_type=MERGE)["status"]["used"]["pods"] == "50"
    assert used(client) == {"pods": "1", "configmaps": "0"}


def test_without_its_quota_a_namespace_has_no_limit():
    client = ApiHarness()
    client.create(QUOTAS, quota(pods="0"))
    client.request("POST", PODS, pod("a"), want=403)
    client.request("DELETE", f"{QUOTAS}/most")
    client.create(PODS, pod("a"))


def test_other_namespaces_do_not_count():
    client = ApiHarness()
    client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    client.create(QUOTAS, quota(pods="0"))
    client.create("/api/v1/namespaces/shop/pods", pod("a") | {"metadata": {"name": "a"}})
    assert used(client) == {"pods": "0"}


def test_dry_run_is_rejected_too_and_uses_no_quota():
    client = ApiHarness()
    client.create(QUOTAS, quota(pods="1"))
    client.request("POST", f"{PODS}?dryRun=All", pod("a"), want=201)
    assert used(client) == {"pods": "0"}
    client.create(PODS, pod("a"))
    client.request("POST", f"{PODS}?dryRun=All", pod("b"), want=403)


def claim(name: str = "disk", storage: str = "1Gi", **spec: Any) -> Data:
    client = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": client}


def service(kind: str) -> Data:
    spec = {"type": kind, "ports": [{"port": 80}, {"name": "tls", "port": 443}], "selector": {"app": "web"}}
    spec["ports"] = [{"name": "web", "port": 80}, {"name": "tls", "port": 443}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


JOB = {"metadata": {"name": "sum"}, "spec": {"template": {"spec": pod()["spec"] | {"restartPolicy": "Never"}}}}
USAGES = {
    "pods by number and requests": (
        PODS,
        asking(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "2", "memory": "2Gi"}),
        {"pods": "1", "cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi"},
    ),
    "devices by requests": (
        PODS,
        asking(requests={"example.org/gpu": "2"}, limits={"example.org/gpu": "2"}),
        {"requests.example.org/gpu": "2"},
    ),
    "claims by number, size and class": (
        CLAIMS,
        claim(storageClassName="fast"),
        {
            "persistentvolumeclaims": "1",
            "requests.storage": "1Gi",
            "fast.storageclass.storage.k8s.io/requests.storage": "1Gi",
            "fast.storageclass.storage.k8s.io/persistentvolumeclaims": "1",
            "slow.storageclass.storage.k8s.io/persistentvolumeclaims": "0",
        },
    ),
    "services with node ports": (
        SERVICES,
        service("NodePort"),
        {"services": "2", "services.nodeports": "2", "services.loadbalancers": "0"},
    ),
    "services with a load balancer": (
        SERVICES,
        service("LoadBalancer"),
        {"count/services": "2", "services.nodeports": "2", "services.loadbalancers": "1"},
    ),
    "other objects by number": (JOBS, JOB, {"count/jobs.batch": "1", "count/deployments.apps": "0"}),
}


@pytest.mark.parametrize(("path", "obj", "want"), USAGES.values(), ids=USAGES)
def test_usage_by_object(path: str, obj: Data, want: Data) -> None:
    client = ApiHarness()
    hard = {name: "10Gi" if amount.endswith("Gi") else "10" for name, amount in want.items()}
    client.create(QUOTAS, quota() | {"spec": {"hard": hard}})
    client.create(path, obj)
    assert used(client) == want


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
NEAR = {
    "podAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "zone", "namespaces": ["shop"], "labelSelector": {"matchLabels": {"a": "b"}}}
        ]
    }
}
SCOPES = {
    "pods with a deadline": (["Terminating"], [], pod(activeDeadlineSeconds=60), True),
    "pods without a deadline are out of the scope Terminating": (["Terminating"], [], pod(), False),
    "pods without a deadline": (["NotTerminating"], [], pod(), True),
    "pods with a deadline are out of the scope NotTerminating": (
        ["NotTerminating"],
        [],
        pod(activeDeadlineSeconds=60),
        False,
    ),
    "pods without requests": (["BestEffort"], [], pod(), True),
    "pods with requests are out of the scope BestEffort": (["BestEffort"], [], asking(requests={"cpu": "1"}), False),
    "pods with requests": (["NotBestEffort"], [], asking(requests={"cpu": "1"}), True),
    "all scopes must match": (["BestEffort", "Terminating"], [], pod(), False),
    "pods of a priority class": ([], [("In", ["high", "higher"])], pod(priorityClassName="high"), True),
    "NotIn excludes pods of the class": ([], [("NotIn", ["high"])], pod(priorityClassName="high"), False),
    "pods of any priority class": ([], [("Exists", [])], pod(priorityClassName="high"), True),
    "pods without a priority class": ([], [("DoesNotExist", [])], pod(), True),
    "pods with affinity to other namespaces": (["CrossNamespacePodAffinity"], [], pod(affinity=NEAR), True),
    "pods without affinity": (["CrossNamespacePodAffinity"], [], pod(), False),
}


@pytest.mark.parametrize(("scopes", "priorities", "obj", "counts"), SCOPES.values(), ids=SCOPES)
def test_scopes_select_pods(
    scopes: list[str], priorities: list[tuple[str, list[str]]], obj: Data, counts: bool
) -> None:
    client = ApiHarness()
    client.create("/apis/scheduling.k8s.io/v1/priorityclasses", HIGH)
    selector = [
        {"scopeName": "PriorityClass", "operator": operator, **({"values": values} if values else {})}
        for operator, values in priorities
    ]
    client.create(QUOTAS, quota(scopes=scopes, selector=selector, pods="5"))
    client.create(PODS, obj)
    client.create(SERVICES, service("ClusterIP"))
    assert used(client) == {"pods": "1" if counts else "0"}
