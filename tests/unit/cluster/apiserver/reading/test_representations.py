from tests.support.api import MERGE, PODS, ApiHarness, pod
from tests.support.bad_group_requests import ALPHA, BETA, GATES, GROUPS, group
from tests.support.good_group_requests import CLASS, USUAL


def test_metadata_only_representation():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    metadata_list = client.request(
        "GET", PODS, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    )
    assert metadata_list["kind"] == "PartialObjectMetadataList"
    assert metadata_list["items"][0].keys() == {"kind", "apiVersion", "metadata"}


def test_event_of_one_group_is_read_in_the_other():
    client = ApiHarness()
    obj = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "web"},
        "note": "placed",
    }
    created = client.create("/apis/events.k8s.io/v1/namespaces/default/events", obj)
    assert created["note"] == "placed"
    query = "fieldSelector=involvedObject.name=web"
    (event,) = client.get(f"/api/v1/namespaces/default/events?{query}")["items"]
    assert (event["message"], event["involvedObject"]["kind"]) == ("placed", "Pod")


def server(gates: str) -> ApiHarness:
    client = ApiHarness(gates=gates)
    for ask in (CLASS, USUAL):
        client.create(ask.path, ask.body)
    return client


def test_one_object_in_two_versions() -> None:
    client = server(GATES)
    client.create(GROUPS, group().body)
    alpha_path = GROUPS.replace(BETA, ALPHA)
    assert client.get(f"{alpha_path}/bad")["apiVersion"] == ALPHA
    assert [item["metadata"]["name"] for item in client.get(alpha_path)["items"]] == ["bad"]
    patch = {"spec": {"schedulingPolicy": {"gang": {"minCount": 5}}}}
    assert client.request("PATCH", f"{alpha_path}/bad", patch, content_type=MERGE)["apiVersion"] == ALPHA
    beta_group = client.get(f"{GROUPS}/bad")
    assert (beta_group["apiVersion"], beta_group["spec"]["schedulingPolicy"]) == (BETA, {"gang": {"minCount": 5}})
