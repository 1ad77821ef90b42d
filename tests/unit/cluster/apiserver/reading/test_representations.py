import pytest
from tests.support.api import MERGE, PODS, ApiHarness, pod
from tests.support.bad_group_requests import ALPHA, BETA, GATES, GROUPS, group
from tests.support.good_group_requests import CLASS, USUAL

from moorage.kube.features import FeatureGates


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


DROP = "application/json;drop=metadata.managedFields"
OPT_OUT = FeatureGates({"ManagedFieldsOptOut": True}, release="1.38")
WITHOUT_EFFECT = {
    "the gate is off": (FeatureGates(release="1.38"), DROP),
    "another field, and the gate is off": (FeatureGates(), "application/json;drop=spec"),
    "no field": (OPT_OUT, "application/json;drop="),
    "the preferred type keeps them": (OPT_OUT, f"application/json,{DROP}"),
}
DROPPED = {
    "for one type": DROP,
    "spaces": "application/json; drop = metadata.managedFields",
    "an alternative to a type that does not match": f"application/json;drop=spec,{DROP}",
    "metadata only": f"{DROP};as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
}


def shows_managed_fields(features: FeatureGates, accept: str) -> set[bool]:
    """Read an object, lists, and watches with and without a selector."""
    client = ApiHarness(features=features)
    client.create(PODS, pod("a", labels={"app": "web"}))
    shown = [client.request("GET", f"{PODS}/a", accept=accept), *client.request("GET", PODS, accept=accept)["items"]]
    watches = [client.watch(f"{PODS}?{query}", accept=accept) for query in ("", "labelSelector=app=web")]
    shown += [event["object"] for watch in watches for event in watch.first()]
    client.request("PATCH", f"{PODS}/a", {"metadata": {"labels": {"app": "web", "n": "1"}}}, content_type=MERGE)
    client.request("DELETE", f"{PODS}/a")
    shown += [event["object"] for watch in watches for event in watch.next()]
    assert len(shown) == 2 + 2 + 4
    return {"managedFields" in obj["metadata"] for obj in shown}


@pytest.mark.parametrize(("features", "accept"), WITHOUT_EFFECT.values(), ids=WITHOUT_EFFECT)
def test_parameter_drop_has_no_effect(features: FeatureGates, accept: str) -> None:
    assert shows_managed_fields(features, accept) == {True}


@pytest.mark.parametrize("accept", DROPPED.values(), ids=DROPPED)
def test_clients_can_omit_managed_fields_from_1_38(accept: str) -> None:
    assert shows_managed_fields(OPT_OUT, accept) == {False}


def test_only_managed_fields_can_be_omitted() -> None:
    client = ApiHarness(features=OPT_OUT)
    client.create(PODS, pod("a"))
    refused = client.request("GET", f"{PODS}/a", accept="application/json;drop=spec", want=406)
    assert refused["reason"] == "NotAcceptable"
    table = "application/json;as=Table;v=v1;g=meta.k8s.io;drop=metadata.managedFields"
    (row,) = client.request("GET", f"{PODS}?includeObject=Metadata", accept=table)["rows"]
    assert "managedFields" not in row["object"]["metadata"]
    assert "managedFields" in client.get(f"{PODS}/a")["metadata"]
