from typing import Any

import pytest
from tests.support.api import MERGE, PODS, Asked, Data, pod

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


def used(asked: Asked, name: str = "most") -> Data:
    found: Data = asked.get(f"{QUOTAS}/{name}")["status"]["used"]
    return found


def test_what_is_there_already_counts_from_the_start():
    asked = Asked()
    asked.create(PODS, pod("a"))
    asked.create(QUOTAS, quota(pods="2", configmaps="5"))
    assert asked.get(f"{QUOTAS}/most")["status"] == {
        "hard": {"pods": "2", "configmaps": "5"},
        "used": {"pods": "1", "configmaps": "0"},
    }


def test_what_comes_and_goes_is_counted_at_once():
    asked = Asked()
    asked.create(QUOTAS, quota(pods="2", configmaps="5"))
    asked.create(MAPS, {"metadata": {"name": "one"}})
    asked.create(PODS, pod("a"))
    assert used(asked) == {"pods": "1", "configmaps": "1"}
    asked.got("DELETE", f"{MAPS}/one")
    asked.got("DELETE", f"{PODS}/a")
    assert used(asked) == {"pods": "0", "configmaps": "0"}


def test_what_is_too_much_is_refused_in_the_words_of_the_api():
    asked = Asked()
    asked.create(QUOTAS, quota(pods="1", requests_cpu="1"))
    asked.create(PODS, asking("a", requests={"cpu": "700m"}))
    refused = asked.got("POST", PODS, asking("b", requests={"cpu": "0.5"}), want=403)
    assert refused["reason"] == "Forbidden"
    assert refused["message"] == (
        'pods "b" is forbidden: exceeded quota: most, requested: pods=1,requests.cpu=500m, '
        "used: pods=1,requests.cpu=700m, limited: pods=1,requests.cpu=1"
    )
    assert asked.names(PODS) == ["a"]


def test_a_pod_that_has_ended_leaves_room_for_another():
    asked = Asked()
    asked.create(QUOTAS, quota(pods="1", count__pods="5"))
    asked.create(PODS, pod("a"))
    asked.got("PATCH", f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE)
    asked.create(PODS, pod("b"))
    assert used(asked) == {"pods": "1", "count/pods": "2"}


def test_a_container_has_to_say_what_it_wants_of_what_is_limited():
    asked = Asked()
    asked.create(QUOTAS, quota(limits_memory="1Gi", cpu="1"))
    refused = asked.got("POST", PODS, asking("a", requests={"memory": "1Mi"}), want=403)
    why = "failed quota: most: must specify cpu for: web; limits.memory for: web"
    assert refused["message"] == f'pods "a" is forbidden: {why}'


def test_a_quota_that_changes_is_counted_anew_and_what_others_write_into_its_status_does_not_stay():
    asked = Asked()
    asked.create(QUOTAS, quota(pods="1"))
    asked.create(PODS, pod("a"))
    asked.got("PATCH", f"{QUOTAS}/most", {"spec": {"hard": {"configmaps": "3"}}}, content_type=MERGE)
    assert used(asked) == {"pods": "1", "configmaps": "0"}
    wrong = {"status": {"hard": {"pods": "100"}, "used": {"pods": "50"}}}
    assert asked.got("PATCH", f"{QUOTAS}/most/status", wrong, content_type=MERGE)["status"]["used"]["pods"] == "50"
    assert used(asked) == {"pods": "1", "configmaps": "0"}


def test_without_its_quota_a_namespace_has_no_limit():
    asked = Asked()
    asked.create(QUOTAS, quota(pods="0"))
    asked.got("POST", PODS, pod("a"), want=403)
    asked.got("DELETE", f"{QUOTAS}/most")
    asked.create(PODS, pod("a"))


def test_other_namespaces_do_not_count():
    asked = Asked()
    asked.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    asked.create(QUOTAS, quota(pods="0"))
    asked.create("/api/v1/namespaces/shop/pods", pod("a") | {"metadata": {"name": "a"}})
    assert used(asked) == {"pods": "0"}


def test_a_dry_run_is_refused_as_well_and_uses_nothing():
    asked = Asked()
    asked.create(QUOTAS, quota(pods="1"))
    asked.got("POST", f"{PODS}?dryRun=All", pod("a"), want=201)
    assert used(asked) == {"pods": "0"}
    asked.create(PODS, pod("a"))
    asked.got("POST", f"{PODS}?dryRun=All", pod("b"), want=403)


def claim(name: str = "disk", storage: str = "1Gi", **spec: Any) -> Data:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, **spec}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": asked}


def service(kind: str) -> Data:
    spec = {"type": kind, "ports": [{"port": 80}, {"name": "tls", "port": 443}], "selector": {"app": "web"}}
    spec["ports"] = [{"name": "web", "port": 80}, {"name": "tls", "port": 443}]
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": spec}


JOB = {"metadata": {"name": "sum"}, "spec": {"template": {"spec": pod()["spec"] | {"restartPolicy": "Never"}}}}
USAGES = {
    "pods, by number and by what they ask for": (
        PODS,
        asking(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "2", "memory": "2Gi"}),
        {"pods": "1", "cpu": "1", "requests.memory": "1Gi", "limits.cpu": "2", "limits.memory": "2Gi"},
    ),
    "devices by what is asked for": (
        PODS,
        asking(requests={"example.org/gpu": "2"}, limits={"example.org/gpu": "2"}),
        {"requests.example.org/gpu": "2"},
    ),
    "claims, by number, size and class": (
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
    "services with ports on every node": (
        SERVICES,
        service("NodePort"),
        {"services": "2", "services.nodeports": "2", "services.loadbalancers": "0"},
    ),
    "services with a load balancer": (
        SERVICES,
        service("LoadBalancer"),
        {"count/services": "2", "services.nodeports": "2", "services.loadbalancers": "1"},
    ),
    "everything else by number": (JOBS, JOB, {"count/jobs.batch": "1", "count/deployments.apps": "0"}),
}


@pytest.mark.parametrize(("place", "thing", "want"), USAGES.values(), ids=USAGES)
def test_what_counts_for_what(place: str, thing: Data, want: Data) -> None:
    asked = Asked()
    hard = {name: "10Gi" if amount.endswith("Gi") else "10" for name, amount in want.items()}
    asked.create(QUOTAS, quota() | {"spec": {"hard": hard}})
    asked.create(place, thing)
    assert used(asked) == want


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 7}
NEAR = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
    {"topologyKey": "zone", "namespaces": ["shop"], "labelSelector": {"matchLabels": {"a": "b"}}}]}}  # fmt: skip
SCOPES = {
    "pods with a deadline": (["Terminating"], [], pod(activeDeadlineSeconds=60), True),
    "not those without": (["Terminating"], [], pod(), False),
    "pods without a deadline": (["NotTerminating"], [], pod(), True),
    "not those with one": (["NotTerminating"], [], pod(activeDeadlineSeconds=60), False),
    "pods that ask for nothing": (["BestEffort"], [], pod(), True),
    "not those that ask for something": (["BestEffort"], [], asking(requests={"cpu": "1"}), False),
    "pods that ask for something": (["NotBestEffort"], [], asking(requests={"cpu": "1"}), True),
    "all scopes have to fit": (["BestEffort", "Terminating"], [], pod(), False),
    "pods of a priority": ([], [("In", ["high", "higher"])], pod(priorityClassName="high"), True),
    "not those of another": ([], [("NotIn", ["high"])], pod(priorityClassName="high"), False),
    "pods of any priority": ([], [("Exists", [])], pod(priorityClassName="high"), True),
    "pods of none": ([], [("DoesNotExist", [])], pod(), True),
    "pods that look into other namespaces": (["CrossNamespacePodAffinity"], [], pod(affinity=NEAR), True),
    "not those that do not": (["CrossNamespacePodAffinity"], [], pod(), False),
}


@pytest.mark.parametrize(("scopes", "priorities", "thing", "counts"), SCOPES.values(), ids=SCOPES)
def test_a_quota_with_scopes_is_about(
    scopes: list[str], priorities: list[tuple[str, list[str]]], thing: Data, counts: bool
) -> None:
    asked = Asked()
    asked.create("/apis/scheduling.k8s.io/v1/priorityclasses", HIGH)
    selector = [
        {"scopeName": "PriorityClass", "operator": operator, **({"values": values} if values else {})}
        for operator, values in priorities
    ]
    asked.create(QUOTAS, quota(scopes=scopes, selector=selector, pods="5"))
    asked.create(PODS, thing)
    asked.create(SERVICES, service("ClusterIP"))
    assert used(asked) == {"pods": "1" if counts else "0"}
