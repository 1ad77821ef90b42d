import pytest
from tests.support.api import MERGE, PODS, ApiHarness, budget, node, pod

BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def running(client: ApiHarness, name: str = "web") -> None:
    client.create(PODS, pod(name, labels={"app": "web"}))
    client.request("POST", f"{PODS}/{name}/binding", BINDING, want=201)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.request("PATCH", f"{PODS}/{name}/status", {"status": status}, content_type=MERGE)


def test_pod_without_a_node_is_deleted_immediately():
    client = ApiHarness()
    client.create(PODS, pod())
    client.request("DELETE", f"{PODS}/web")
    assert client.names(PODS) == []


def test_running_pod_is_deleted_by_its_kubelet_after_the_grace_period():
    client = ApiHarness()
    running(client)
    marked = client.request("DELETE", f"{PODS}/web")["metadata"]
    assert marked["deletionGracePeriodSeconds"] == 30
    assert client.names(PODS) == ["web"]
    shortened = client.request("DELETE", f"{PODS}/web?gracePeriodSeconds=5")["metadata"]
    assert shortened["deletionTimestamp"] < marked["deletionTimestamp"]
    client.request("DELETE", f"{PODS}/web", {"gracePeriodSeconds": 0})
    assert client.names(PODS) == []


def test_object_waits_for_its_finalizers():
    client = ApiHarness()
    obj = node()
    obj["metadata"]["finalizers"] = ["example.org/wait"]
    client.create("/api/v1/nodes", obj)
    client.request("DELETE", "/api/v1/nodes/n1")
    assert client.get("/api/v1/nodes/n1")["metadata"]["deletionTimestamp"]
    client.request("PATCH", "/api/v1/nodes/n1", {"metadata": {"finalizers": None}}, content_type=MERGE)
    client.request("GET", "/api/v1/nodes/n1", want=404)


def test_propagation_policy_becomes_a_finalizer():
    client = ApiHarness()
    client.create("/api/v1/nodes", node())
    remaining = client.request("DELETE", "/api/v1/nodes/n1?propagationPolicy=Foreground")
    assert remaining["metadata"]["finalizers"] == ["foregroundDeletion"]


@pytest.mark.parametrize("policy", ["Foreground", "Orphan"])
def test_object_without_dependents_is_deleted_immediately(policy: str):
    client = ApiHarness()
    client.create("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": "fast"}, "provisioner": "p"})
    client.request("DELETE", "/apis/storage.k8s.io/v1/storageclasses/fast", {"propagationPolicy": policy})
    assert client.names("/apis/storage.k8s.io/v1/storageclasses") == []


def test_deletion_with_wrong_precondition_is_rejected():
    client = ApiHarness()
    client.create(PODS, pod())
    client.request("DELETE", f"{PODS}/web", {"preconditions": {"uid": "other"}}, want=409)
    assert client.names(PODS) == ["web"]


def test_many_are_deleted_by_selector():
    client = ApiHarness()
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        client.create(PODS, pod(name, labels={"app": app}))
    client.request("DELETE", f"{PODS}?labelSelector=app%3Dx".replace("%3D", "="))
    assert client.names(PODS) == ["c"]


def test_terminating_namespace_rejects_new_objects_until_it_is_finalized():
    client = ApiHarness()
    client.create("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    ending = client.request("DELETE", "/api/v1/namespaces/shop")
    assert ending["status"]["phase"] == "Terminating"
    client.request("POST", "/api/v1/namespaces/shop/pods", pod(), want=403)
    ending["spec"] = {"finalizers": []}
    client.request("PUT", "/api/v1/namespaces/shop/finalize", ending)
    client.request("GET", "/api/v1/namespaces/shop", want=404)


def test_pod_is_bound_once():
    client = ApiHarness()
    running(client)
    bound = client.get(f"{PODS}/web")
    assert bound["spec"]["nodeName"] == "n1"
    assert {"PodScheduled", "Ready"} >= {item["type"] for item in bound["status"]["conditions"]}
    error = client.request("POST", f"{PODS}/web/binding", BINDING, want=409)
    assert 'already assigned to node "n1"' in error["message"]


def test_binding_with_another_uid_is_rejected():
    client = ApiHarness()
    client.create(PODS, pod())
    client.request("POST", f"{PODS}/web/binding", {**BINDING, "metadata": {"name": "web", "uid": "old"}}, want=409)
    client.request("POST", f"{PODS}/gone/binding", BINDING, want=404)


def evict(client: ApiHarness, name: str, want: int) -> dict[str, object]:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
    return client.request("POST", f"{PODS}/{name}/eviction", body, want=want)


def with_budget(client: ApiHarness, allowed: int) -> None:
    client.create(BUDGETS, budget())
    client.request("PUT", f"{BUDGETS}/keep/status", budget(allowed=allowed))


def test_evictions_are_counted_against_the_budget():
    client = ApiHarness()
    running(client, "a")
    running(client, "b")
    with_budget(client, allowed=1)
    evict(client, "a", 201)
    error = evict(client, "b", 429)
    assert error["details"]["causes"][0]["reason"] == "DisruptionBudget"  # type: ignore[index]
    assert client.get(f"{BUDGETS}/keep")["status"]["disruptedPods"].keys() == {"a"}


def test_pending_pod_is_evicted_independent_of_the_budget():
    client = ApiHarness()
    client.create(PODS, pod(labels={"app": "web"}))
    with_budget(client, allowed=0)
    evict(client, "web", 201)
    assert client.names(PODS) == []


def test_without_a_budget_everything_may_be_evicted():
    client = ApiHarness()
    running(client)
    evict(client, "web", 201)
    assert "deletionTimestamp" in client.get(f"{PODS}/web")["metadata"]
