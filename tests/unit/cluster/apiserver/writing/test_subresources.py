from tests.support.api import DEPLOYMENTS, MERGE, PODS, ApiHarness, budget, deployment, pod


def test_scale_is_read_and_written():
    client = ApiHarness()
    client.create(DEPLOYMENTS, deployment())
    scale = client.get(f"{DEPLOYMENTS}/shop/scale")
    assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 1}, "app=shop")
    scale["spec"]["replicas"] = 4
    client.request("PUT", f"{DEPLOYMENTS}/shop/scale", scale)
    assert client.get(f"{DEPLOYMENTS}/shop")["spec"]["replicas"] == 4


def test_request_for_a_certificate_is_approved():
    client = ApiHarness()
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    client.create(
        path, {"metadata": {"name": "me"}, "spec": {"request": "eA==", "signerName": "a.org/b", "usages": []}}
    )
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    answer = client.request("PATCH", f"{path}/me/approval", approved, content_type=MERGE)
    assert answer["status"]["conditions"][0]["type"] == "Approved"


BINDING = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "web"}, "target": {"kind": "Node", "name": "n1"}}
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def running(client: ApiHarness, name: str = "web") -> None:
    client.create(PODS, pod(name, labels={"app": "web"}))
    client.request("POST", f"{PODS}/{name}/binding", BINDING, want=201)
    status = {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}
    client.request("PATCH", f"{PODS}/{name}/status", {"status": status}, content_type=MERGE)


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
    status = {"status": budget(allowed=allowed)["status"]}
    client.request("PATCH", f"{BUDGETS}/keep/status", status, content_type=MERGE)


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
