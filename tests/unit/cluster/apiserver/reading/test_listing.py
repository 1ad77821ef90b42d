import base64

from tests.support.api import PODS, ApiHarness, pod


def three(client: ApiHarness) -> None:
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        client.create(PODS, pod(name, labels={"app": app}))


def test_list_is_filtered_by_labels_fields_and_namespace():
    client = ApiHarness()
    three(client)
    client.create("/api/v1/namespaces/kube-system/pods", pod("d"))
    assert client.names("/api/v1/pods") == ["a", "b", "c", "d"]
    assert client.names(f"{PODS}?labelSelector=app=x") == ["a", "b"]
    assert client.names(f"{PODS}?fieldSelector=metadata.name!=a") == ["b", "c"]


def test_pages_of_a_list_are_one_snapshot():
    client = ApiHarness()
    three(client)
    first = client.get(f"{PODS}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    client.request("DELETE", f"{PODS}/c")
    client.create(PODS, pod("bb"))
    second = client.get(f"{PODS}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_expired_continue_token_returns_410():
    client = ApiHarness()
    three(client)
    token = client.get(f"{PODS}?limit=1")["metadata"]["continue"]
    for _ in range(100):
        client.get(f"{PODS}?limit=1")
    assert client.request("GET", f"{PODS}?limit=1&continue={token}", want=410)["reason"] == "Expired"


def test_expired_list_is_continued_with_the_current_objects():
    client = ApiHarness()
    three(client)
    first = client.get(f"{PODS}?limit=1")["metadata"]
    client.clock.advance(299)
    assert len(client.get(f"{PODS}?limit=1&continue={first['continue']}")["items"]) == 1
    client.clock.advance(2)
    client.create(PODS, pod("d"))
    status = client.request("GET", f"{PODS}?limit=2&continue={first['continue']}", want=410)
    assert "or use the continue token in this response" in status["message"]
    second = client.get(f"{PODS}?limit=2&continue={status['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["b", "c"]
    assert second["metadata"]["resourceVersion"] != first["resourceVersion"]
    client.request("DELETE", f"{PODS}/d")
    third = client.get(f"{PODS}?limit=2&continue={second['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in third["items"]] == ["d"], "consistent from then on"


def test_token_of_another_resource_is_invalid():
    client = ApiHarness()
    three(client)
    token = client.get(f"{PODS}?limit=1")["metadata"]["continue"]
    assert client.request("GET", f"/api/v1/nodes?limit=1&continue={token}", want=400)["reason"] == "BadRequest"


def test_deeply_nested_continue_token_is_invalid():
    client = ApiHarness()
    token = base64.urlsafe_b64encode(b'{"x":' + b"[" * 30_000 + b"]").decode()
    assert client.request("GET", f"{PODS}?limit=1&continue={token}", want=400)["reason"] == "BadRequest"
