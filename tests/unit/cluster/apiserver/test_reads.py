import msgspec
import pytest
from tests.support.api import DEPLOYMENTS, MERGE, NODES, PODS, Asked, definition, deployment, node, pod

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


def three(asked: Asked) -> None:
    for name, app in (("a", "x"), ("b", "x"), ("c", "y")):
        asked.create(PODS, pod(name, labels={"app": app}))


def test_lists_are_narrowed_by_labels_fields_and_namespace():
    asked = Asked()
    three(asked)
    asked.create("/api/v1/namespaces/kube-system/pods", pod("d"))
    assert asked.names("/api/v1/pods") == ["a", "b", "c", "d"]
    assert asked.names(f"{PODS}?labelSelector=app=x") == ["a", "b"]
    assert asked.names(f"{PODS}?fieldSelector=metadata.name!=a") == ["b", "c"]


def test_the_pages_of_a_list_show_one_moment():
    asked = Asked()
    three(asked)
    first = asked.get(f"{PODS}?limit=2")
    assert [item["metadata"]["name"] for item in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    asked.got("DELETE", f"{PODS}/c")
    asked.create(PODS, pod("bb"))
    second = asked.get(f"{PODS}?limit=2&continue={first['metadata']['continue']}")
    assert [item["metadata"]["name"] for item in second["items"]] == ["c"]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_a_page_that_is_long_forgotten_is_gone():
    asked = Asked()
    three(asked)
    token = asked.get(f"{PODS}?limit=1")["metadata"]["continue"]
    for _ in range(100):
        asked.get(f"{PODS}?limit=1")
    assert asked.got("GET", f"{PODS}?limit=1&continue={token}", want=410)["reason"] == "Expired"


def test_a_watch_begins_with_what_there_is_and_goes_on():
    asked = Asked()
    asked.create(PODS, pod("a"))
    watch = asked.watch(PODS)
    assert watch.told() == [("ADDED", "a")]
    asked.got("PATCH", f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}, content_type=MERGE)
    asked.create(PODS, pod("b"))
    asked.got("DELETE", f"{PODS}/a")
    assert watch.told() == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


def test_a_watch_goes_on_from_a_version():
    asked = Asked()
    asked.create(PODS, pod("a"))
    version = asked.get(PODS)["metadata"]["resourceVersion"]
    asked.create(PODS, pod("b"))
    assert asked.watch(f"{PODS}?resourceVersion={version}").told() == [("ADDED", "b")]


def test_what_leaves_a_selection_is_told_as_deleted():
    asked = Asked()
    asked.create(PODS, pod("a"))
    watch = asked.watch(f"{PODS}?fieldSelector=status.phase!=Succeeded")
    assert watch.told() == [("ADDED", "a")]
    done = asked.got("PATCH", f"{PODS}/a/status", {"status": {"phase": "Succeeded"}}, content_type=MERGE)
    (event,) = watch.next()
    assert event["type"] == "DELETED"
    assert event["object"]["metadata"]["resourceVersion"] == done["metadata"]["resourceVersion"]


def test_a_version_that_is_forgotten_ends_the_watch_with_410():
    asked = Asked(history=2)
    version = asked.create(PODS, pod("p"))["metadata"]["resourceVersion"]
    for number in range(10):
        asked.create(PODS, pod(f"p{number}"))
    watch = asked.watch(f"{PODS}?resourceVersion={version}")
    (event,) = watch.first()
    assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 410, "Expired")
    assert watch.watch.is_over


def test_a_streaming_list_ends_with_its_bookmark():
    asked = Asked()
    asked.create(PODS, pod("a"))
    events = asked.watch(f"{PODS}?sendInitialEvents=true&resourceVersionMatch=NotOlderThan").first()
    assert [event["type"] for event in events] == ["ADDED", "BOOKMARK"]
    assert events[1]["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}


def test_a_bookmark_names_the_version_that_was_reached():
    asked = Asked()
    watch = asked.watch(f"{PODS}?resourceVersion=1")
    version = asked.create(NODES, node())["metadata"]["resourceVersion"]
    assert watch.next() == []
    assert msgspec.json.decode(watch.watch.bookmark())["object"]["metadata"]["resourceVersion"] == version


def test_tables_are_what_kubectl_prints():
    asked = Asked()
    asked.create(PODS, pod("a"))
    shown = asked.got("GET", PODS, accept=TABLE)
    assert [column["name"] for column in shown["columnDefinitions"]][:5] == [
        "Name",
        "Ready",
        "Status",
        "Restarts",
        "Age",
    ]
    assert shown["rows"][0]["cells"][:5] == ["a", "0/1", "Pending", "0", "0s"]
    asked.clock.advance(400)
    assert asked.got("GET", f"{PODS}/a", accept=TABLE)["rows"][0]["cells"][4] == "6m40s"


EVERY_KIND = sorted((item.group, item.version, item.plural) for item in Asked().api.resources if "list" in item.verbs)


@pytest.mark.parametrize(("group", "version", "plural"), EVERY_KIND)
def test_every_resource_can_be_listed_as_objects_and_as_a_table(group: str, version: str, plural: str) -> None:
    asked = Asked()
    path = f"/apis/{group}/{version}/{plural}" if group else f"/api/{version}/{plural}"
    assert asked.get(path)["kind"].endswith("List")
    assert asked.got("GET", path, accept=TABLE)["kind"] == "Table"


def test_metadata_alone_can_be_asked_for():
    asked = Asked()
    asked.create(PODS, pod("a"))
    shown = asked.got("GET", PODS, accept="application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    assert shown["kind"] == "PartialObjectMetadataList"
    assert shown["items"][0].keys() == {"kind", "apiVersion", "metadata"}


def test_discovery_names_every_resource_in_both_ways():
    asked = Asked()
    legacy = {item["name"]: item for item in asked.get("/api/v1")["resources"]}
    assert legacy["pods"]["shortNames"] == ["po"]
    assert legacy["pods/eviction"]["kind"] == "Eviction"
    answer = asked.ask("GET", "/apis", accept=AGGREGATED)
    assert "APIGroupDiscoveryList" in answer.content_type
    groups = {item["metadata"]["name"]: item for item in msgspec.json.decode(answer.body)["items"]}
    assert {"apps", "batch", "policy", "storage.k8s.io", "resource.k8s.io"} <= groups.keys()
    assert asked.get("/version")["gitVersion"] == "v1.37.1"


def test_schemas_say_how_lists_merge():
    asked = Asked()
    assert "apis/apps/v1" in asked.get("/openapi/v3")["paths"]
    schemas = asked.get("/openapi/v3/api/v1")["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_an_event_of_one_group_is_read_in_the_other():
    asked = Asked()
    thing = {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "metadata": {"name": "e"},
        "regarding": {"kind": "Pod", "name": "web"},
        "note": "placed",
    }
    made = asked.create("/apis/events.k8s.io/v1/namespaces/default/events", thing)
    assert made["note"] == "placed"
    query = "fieldSelector=involvedObject.name=web"
    (event,) = asked.get(f"/api/v1/namespaces/default/events?{query}")["items"]
    assert (event["message"], event["involvedObject"]["kind"]) == ("placed", "Pod")


def test_a_scale_is_read_and_written():
    asked = Asked()
    asked.create(DEPLOYMENTS, deployment())
    scale = asked.get(f"{DEPLOYMENTS}/shop/scale")
    assert (scale["spec"], scale["status"]["selector"]) == ({"replicas": 1}, "app=shop")
    scale["spec"]["replicas"] = 4
    asked.got("PUT", f"{DEPLOYMENTS}/shop/scale", scale)
    assert asked.get(f"{DEPLOYMENTS}/shop")["spec"]["replicas"] == 4


def test_reviews_know_the_token():
    asked = Asked()
    place = "/apis/authentication.k8s.io/v1/tokenreviews"
    for token, is_good in (("good", True), ("bad", False)):
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        assert asked.create(place, body)["status"]["authenticated"] is is_good
    body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": {"user": "eve"}}
    assert asked.create("/apis/authorization.k8s.io/v1/subjectaccessreviews", body)["status"] == {"allowed": False}


QUOTAS = "/apis/example.org/v1/namespaces/default/quotas"


def quota(name: str, **spec: object) -> dict[str, object]:
    return {"apiVersion": "example.org/v1", "kind": "Quota", "metadata": {"name": name}, "spec": spec}


def test_a_custom_resource_is_served_from_its_definition_to_its_end():
    asked = Asked()
    asked.got("GET", QUOTAS, want=404)
    made = asked.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    assert {item["type"]: item["status"] for item in made["status"]["conditions"]}["Established"] == "True"
    assert asked.create(QUOTAS, quota("q", most=3))["spec"] == {"most": 3, "unit": "gpu"}
    refused = asked.got("POST", QUOTAS, quota("r", most=0), want=422)
    assert refused["details"]["causes"][0]["field"] == "spec.most"
    assert asked.got("POST", QUOTAS, quota("r"), want=422)["details"]["causes"][0]["reason"] == "FieldValueRequired"
    assert asked.got("GET", QUOTAS, accept=TABLE)["rows"][0]["cells"] == ["q", 3]
    asked.got("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/quotas.example.org")
    asked.got("GET", QUOTAS, want=404)


def test_schemas_say_which_fields_are_required():
    asked = Asked()
    schemas = asked.get("/openapi/v3/api/v1")["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]
    assert schemas["io.k8s.api.core.v1.Container"]["required"] == ["name"]
    assert "required" not in schemas["io.k8s.api.core.v1.Pod"]


def test_a_review_is_no_table():
    asked = Asked()
    place = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    review = {"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}
    table = "application/json;as=Table;v=v1;g=meta.k8s.io"
    assert asked.got("POST", place, review, want=406, accept=table)["reason"] == "NotAcceptable"
    asked.got("POST", place, review, want=201, accept=f"{table},application/json")


def test_a_definition_keeps_what_others_say_in_its_status():
    asked = Asked()
    place = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    stored = asked.create(place, definition())
    told = [*stored["status"]["conditions"], {"type": "Loved", "status": "True", "reason": "E2E", "message": "so"}]
    path = f"{place}/{stored['metadata']['name']}"
    answer = asked.got("PATCH", f"{path}/status", {"status": {"conditions": told}}, content_type=MERGE)
    assert [item["type"] for item in answer["status"]["conditions"]] == ["NamesAccepted", "Established", "Loved"]
    answer = asked.got("PATCH", path, {"metadata": {"labels": {"a": "b"}}}, content_type=MERGE)
    assert [item["type"] for item in answer["status"]["conditions"]] == ["NamesAccepted", "Established", "Loved"]
    assert answer["status"]["storedVersions"] == ["v1"]


def test_a_request_for_a_certificate_is_approved():
    asked = Asked()
    place = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
    asked.create(
        place, {"metadata": {"name": "me"}, "spec": {"request": "eA==", "signerName": "a.org/b", "usages": []}}
    )
    approved = {"status": {"conditions": [{"type": "Approved", "status": "True"}]}}
    answer = asked.got("PATCH", f"{place}/me/approval", approved, content_type=MERGE)
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


def gangs() -> Asked:
    asked = Asked()
    wanted = definition()
    wanted["metadata"]["name"] = "gangs.example.org"
    wanted["spec"]["names"] = {"plural": "gangs", "kind": "Gang"}
    wanted["spec"]["versions"] = [
        {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": GANG_SCHEMA}}
    ]
    asked.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", wanted)
    return asked


def test_what_a_schema_declares_is_kept():
    asked = gangs()
    gang = {"apiVersion": "example.org/v1", "kind": "Gang", "metadata": {"name": "g"}, "spec": GANG_SPEC}
    assert asked.got("POST", f"{GANGS}?fieldValidation=Strict", gang, want=201)["spec"] == GANG_SPEC


@pytest.mark.parametrize(("content", "path"), UNDECLARED.values(), ids=UNDECLARED)
def test_what_it_does_not_declare_is_refused_or_dropped(content: dict[str, object], path: str) -> None:
    asked = gangs()
    gang = {"apiVersion": "example.org/v1", "kind": "Gang", "metadata": {"name": "g"}, **content}
    refused = asked.got("POST", f"{GANGS}?fieldValidation=Strict", gang, want=400)["message"]
    assert refused.endswith(f'strict decoding error: unknown field "{path}"')
    applied = asked.got(
        "PATCH", f"{GANGS}/g?fieldManager=me", gang, want=400, content_type="application/apply-patch+yaml"
    )
    assert f".{path}: field not declared in schema" in applied["message"]
    assert asked.ask("POST", f"{GANGS}?fieldValidation=Warn", gang).warnings == (f'unknown field "{path}"',)
    asked.got("PATCH", f"{GANGS}/g?fieldValidation=Strict", {"spec": {"size": 2}}, content_type=MERGE)
    assert path.rpartition(".")[2] not in str(asked.get(f"{GANGS}/g"))


def test_a_field_that_is_given_twice_is_refused_or_warned_of():
    asked = Asked()
    body = b'{"metadata": {"name": "a"}, "data": {"x": "1", "x": "2"}, "other": 1}'
    maps = "/api/v1/namespaces/default/configmaps"
    refused = asked.got("POST", f"{maps}?fieldValidation=Strict", body, want=400)["message"]
    assert refused.endswith('strict decoding error: unknown field "other", duplicate field "data.x"')
    assert 'duplicate field "data.x"' in asked.ask("POST", f"{maps}?fieldValidation=Warn", body).warnings
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\ndata:\n  x: one\n  x: two\n"
    how = {"content_type": "application/apply-patch+yaml"}
    refused = asked.got("PATCH", f"{maps}/b?fieldManager=me", text, want=400, **how)["message"]
    assert 'line 6: key "x" already set in map' in refused
