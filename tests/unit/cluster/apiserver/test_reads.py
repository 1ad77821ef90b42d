import msgspec
import pytest
from tests.support.api import DEPLOYMENTS, MERGE, NODES, PODS, ApiHarness, definition, deployment, node, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


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


def test_expired_continue_token_returns_gone():
    client = ApiHarness()
    three(client)
    token = client.get(f"{PODS}?limit=1")["metadata"]["continue"]
    for _ in range(100):
        client.get(f"{PODS}?limit=1")
    assert client.request("GET", f"{PODS}?limit=1&continue={token}", want=410)["reason"] == "Expired"


def test_watch_begins_with_existing_objects_and_continues():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    watch = client.watch(PODS)
    assert watch.events() == [("ADDED", "a")]
    client.request("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    client.create(PODS, pod("b"))
    client.request("DELETE", f"{PODS}/a")
    assert watch.events() == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_watch_continues_from_a_version():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    version = client.get(PODS)["metadata"]["resourceVersion"]
    client.create(PODS, pod("b"))
    assert client.watch(f"{PODS}?resourceVersion={version}").events() == [("ADDED", "b")]


def test_object_that_leaves_the_selection_is_reported_as_deleted():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    watch = client.watch(f"{PODS}?fieldSelector=status.phase!=Succeeded")
    assert watch.events() == [("ADDED", "a")]
    patched = client.request("PATCH", f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE)
    (event,) = watch.next()
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]


def test_expired_version_ends_the_watch_with_410():
    client = ApiHarness(history=2)
    version = client.create(PODS, pod("p"))["metadata"]["resourceVersion"]
    for number in range(10):
        client.create(PODS, pod(f"p{number}"))
    watch = client.watch(f"{PODS}?resourceVersion={version}")
    (event,) = watch.first()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert watch.watch.is_over


def test_streaming_list_ends_with_its_bookmark():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    events = client.watch(f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan").first()
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_bookmark_has_the_current_version():
    client = ApiHarness()
    watch = client.watch(f"{PODS}?resourceVersion=1")
    version = client.create(NODES, node())["metadata"]["resourceVersion"]
    assert watch.next() == []
    assert msgspec.json.decode(watch.watch.bookmark())["object"]["metadata"]["resourceVersion"] == version


def test_tables_match_kubectl():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    table = client.request("GET", PODS, accept=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]][:5] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    assert table["rows"][0]["cells"][:5] == ["a", "0/1", "Pending", "0", "0s"]
    client.clock.advance(400)
    assert client.request("GET", f"{PODS}/a", accept=TABLE)["rows"][0]["cells"][4] == "6m40s"


EVERY_KIND = sorted(
    (item.group, item.version, item.plural) for item in ApiHarness().api.resources if "list" in item.verbs
)


@pytest.mark.parametrize(("group", "version", "plural"), EVERY_KIND)
def test_every_resource_can_be_listed_as_objects_and_as_a_table(group: str, version: str, plural: str) -> None:
    client = ApiHarness()
    path = f"/apis/{group}/{version}/{plural}" if group else f"/api/{version}/{plural}"
    assert client.get(path)["kind"].endswith("List")
    assert client.request("GET", path, accept=TABLE)["kind"] == "Table"


def test_metadata_only_representation():
    client = ApiHarness()
    client.create(PODS, pod("a"))
    metadata_list = client.request(
        "GET", PODS, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
    )
    assert metadata_list["kind"] == "PartialObjectMetadataList"
    assert metadata_list["items"][0].keys() == {"kind", "apiVersion", "metadata"}


def test_discovery_lists_every_resource_in_both_formats():
    client = ApiHarness()
    legacy = {item["name"]: item for item in client.get("/api/v1")["resources"]}
    assert legacy["pods"]["shortNames"] == ["po"]
    assert legacy["pods/eviction"]["kind"] == "Eviction"
    answer = client.send("GET", "/apis", accept=AGGREGATED)
    assert "APIGroupDiscoveryList" in answer.content_type
    groups = {item["metadata"]["name"]: item for item in msgspec.json.decode(answer.body)["items"]}
    assert {"apps", "batch", "policy", "storage.k8s.io", "resource.k8s.io"} <= groups.keys()
    assert client.get("/version")["gitVersion"] == "v1.37.1"


def test_schemas_contain_merge_keys():
    client = ApiHarness()
    assert "apis/apps/v1" in client.get("/openapi/v3")["paths"]
    schemas = client.get("/openapi/v3/api/v1")["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


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


def test_scale_is_read_and_written():
    client = ApiHarness()
    client.create(DEPLOYMENTS, deployment())
    scale = client.get(f"{DEPLOYMENTS}/shop/scale")
    assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 1}, "app=shop")
    scale["spec"]["replicas"] = 4
    client.request("PUT", f"{DEPLOYMENTS}/shop/scale", scale)
    assert client.get(f"{DEPLOYMENTS}/shop")["spec"]["replicas"] == 4


def test_token_review_authenticates_the_token():
    client = ApiHarness()
    path = "/apis/authentication.k8s.io/v1/tokenreviews"
    for token, is_good in (("good", True), ("bad", False)):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        assert client.create(path, body)["status"]["authenticated"] is is_good
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "eve"}}
    assert client.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"] == {"allowed": False}


QUOTAS = "/apis/example.org/v1/namespaces/default/quotas"


def quota(name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": "example.org/v1", "kind": "Quota", "metadata": {"name": name}, "spec": spec}


def test_custom_resource_is_served_from_its_definition_to_its_end():
    client = ApiHarness()
    client.request("GET", QUOTAS, want=404)
    created = client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    assert {item["type"]: item["status"] for item in created["status"]["conditions"]}["Established"] == "True"
    assert client.create(QUOTAS, quota("q", most=3))["spec"] == {"most": 3, "unit": "gpu"}
    error = client.request("POST", QUOTAS, quota("r", most=0), want=422)
    assert error["details"]["causes"][0]["field"] == "spec.most"
    assert (
        client.request("POST", QUOTAS, quota("r"), want=422)["details"]["causes"][0]["reason"] == "FieldValueRequired"
    )
    assert client.request("GET", QUOTAS, accept=TABLE)["rows"][0]["cells"] == ["q", 3]
    client.request("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/quotas.example.org")
    client.request("GET", QUOTAS, want=404)


def test_schemas_contain_required_fields():
    client = ApiHarness()
    schemas = client.get("/openapi/v3/api/v1")["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]
    assert schemas["io.k8s.api.core.v1.Container"]["required"] == ["name"]
    assert "required" not in schemas["io.k8s.api.core.v1.Pod"]


def test_review_has_no_table_representation():
    client = ApiHarness()
    path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert client.request("POST", path, review, want=406, accept=table)["reason"] == "NotAcceptable"
    client.request("POST", path, review, want=201, accept=f"{table},application/json")


def test_definition_preserves_foreign_conditions():
    client = ApiHarness()
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    stored = client.create(path, definition())
    conditions = [
        *stored["status"]["conditions"],
        {"type": "Loved", "status": "True", "reason": "E2E", "message": "so"},
    ]
    path = f"{path}/{stored['metadata']['name']}"
    answer = client.request("PATCH", f"{path}/status", {"status": {"conditions": conditions}}, content_type=MERGE)
    assert [item["type"] for item in answer["status"]["conditions"]] == ["NamesAccepted", "Established", "Loved"]
    answer = client.request("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert [item["type"] for item in answer["status"]["conditions"]] == ["NamesAccepted", "Established", "Loved"]
    assert answer["status"]["storedVersions"] == ["v1"]


def test_request_for_a_certificate_is_approved():
    client = ApiHarness()
    path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    client.create(
        path, {"metadata": {"name": "me"}, "spec": {"request": "eA==", "signerName": "a.org/b", "usages": []}}
    )
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    answer = client.request("PATCH", f"{path}/me/approval", approved, content_type=MERGE)
    assert answer["status"]["conditions"][0]["type"] == "Approved"


GANGS = "/apis/example.org/v1/namespaces/default/gangs"
GANG_SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer"},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "items": {"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}}},
                "pod": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "properties": {"spec": {"type": "object"}},
                },
            },
        }
    },
}
GANG_SPEC = {
    "size": 1,
    "free": {"any": {"thing": 1}},
    "labels": {"x": "y"},
    "items": [{"a": "b"}],
    "pod": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {}},
}
UNDECLARED = {
    "at the root": ({"more": 1}, "more"),
    "in the spec": ({"spec": {"siez": 1}}, "spec.siez"),
    "in a list": ({"spec": {"items": [{"a": "b"}, {"odd": "c"}]}}, "spec.items[1].odd"),
    "in the metadata": ({"metadata": {"name": "g", "nmae": "g"}}, "metadata.nmae"),
    "in the metadata of an object inside": ({"spec": {"pod": {"metadata": {"odd": "y"}}}}, "spec.pod.metadata.odd"),
}


def gangs() -> ApiHarness:
    client = ApiHarness()
    desired = definition()
    desired["metadata"]["name"] = "gangs.example.org"
    desired["spec"]["names"] = {"plural": "gangs", "kind": "Gang"}
    desired["spec"]["versions"] = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": GANG_SCHEMA}}
    ]
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", desired)
    return client


def test_declared_fields_are_stored():
    client = gangs()
    gang = {"apiVersion": "example.org/v1", "kind": "Gang", "metadata": {"name": "g"}, "spec": GANG_SPEC}
    assert client.request("POST", f"{GANGS}?fieldValidation=Strict", gang, want=201)["spec"] == GANG_SPEC


@pytest.mark.parametrize(("content", "path"), UNDECLARED.values(), ids=UNDECLARED)
def test_undeclared_fields_are_rejected_or_pruned(content: dict[str, object], path: str) -> None:
    client = gangs()
    gang = {"apiVersion": "example.org/v1", "kind": "Gang", "metadata": {"name": "g"}, **content}
    error = client.request("POST", f"{GANGS}?fieldValidation=Strict", gang, want=400)["message"]
    assert error.endswith(f'strict decoding error: unknown field "{path}"')
    applied = client.request(
        "PATCH", f"{GANGS}/g?fieldManager=me", gang, want=400, content_type="application/apply-patch+yaml"
    )
    assert f".{path}: field not declared in schema" in applied["message"]
    assert client.send("POST", f"{GANGS}?fieldValidation=Warn", gang).warnings == (f'unknown field "{path}"',)
    client.request("PATCH", f"{GANGS}/g?fieldValidation=Strict", {"spec": {"size": 2}}, content_type=MERGE)
    assert path.rpartition(".")[2] not in str(client.get(f"{GANGS}/g"))


def test_duplicate_field_is_rejected_or_reported():
    client = ApiHarness()
    body = b'{"metadata": {"name": "a"}, "data": {"x": "1", "x": "2"}, "other": 1}'
    maps = "/api/v1/namespaces/default/configmaps"
    error = client.request("POST", f"{maps}?fieldValidation=Strict", body, want=400)["message"]
    assert error.endswith('strict decoding error: unknown field "other", duplicate field "data.x"')
    assert 'duplicate field "data.x"' in client.send("POST", f"{maps}?fieldValidation=Warn", body).warnings
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata:\n  x: one\n  x: two\n"
    how = {"content_type": "application/apply-patch+yaml"}
    error = client.request("PATCH", f"{maps}/b?fieldManager=me", text, want=400, **how)["message"]
    assert 'line 6: key "x" already set in map' in error
