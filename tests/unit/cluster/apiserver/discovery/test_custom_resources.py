import pytest
from tests.support.api import (
    MERGE,
    ApiHarness,
    definition,
)

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
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
    "in the metadata of an embedded object": ({"spec": {"pod": {"metadata": {"odd": "y"}}}}, "spec.pod.metadata.odd"),
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


def test_custom_resources_are_served_after_a_restart():
    client = ApiHarness()
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    again = ApiHarness(store=client.api.store)
    assert again.names("/apis/example.org/v1/quotas") == []


def test_nulls_patterns_sizes_and_status_follow_the_schema():
    described = definition()
    [version] = described["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]
    properties["status"] = {"type": "object", "properties": {"phase": {"type": "string"}}, "default": {"phase": "new"}}
    properties["spec"]["properties"] |= {
        "note": {"type": "string", "nullable": True},
        "code": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 3},
        "parts": {"type": "array", "items": {"type": "string"}, "maxItems": 1},
    }
    client = ApiHarness()
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", described)
    path = "/apis/example.org/v1/namespaces/default/quotas"
    stored = client.create(path, quota("a", most=3, note=None, unit=None, code="abc") | {"status": {"phase": 7}})
    assert stored["spec"] == {"most": 3, "note": None, "unit": "gpu", "code": "abc"}
    assert stored["status"] == {"phase": "new"}
    assert stored["metadata"]["generation"] == 1
    bad = quota("b", most=3, code="A1", parts=["x", "y"])
    message = client.request("POST", path, bad, want=422)["message"]
    assert "spec.code in body should match '^[a-z]+$'" in message
    assert "spec.parts: Too many: 2: must have at most 1 item" in message
    long = client.request("POST", path, quota("c", most=3, code="abcd"), want=422)["message"]
    assert "spec.code: Too long: may not be more than 3 bytes" in long


def test_definition_of_a_protected_group_needs_approval():
    described = definition()
    described["spec"]["group"] = "quota.k8s.io"
    described["metadata"]["name"] = "quotas.quota.k8s.io"
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    client = ApiHarness()
    assert (
        "protected groups must have approval annotation" in client.request("POST", path, described, want=422)["message"]
    )
    described["metadata"]["annotations"] = {"api-approved.kubernetes.io": "https://example.org"}
    client.create(path, described)
    described["spec"]["group"], described["metadata"] = "quota.x-k8s.io", {"name": "quotas.quota.x-k8s.io"}
    client.create(path, described)


DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def test_definition_of_a_built_in_kind_is_rejected():
    client = ApiHarness()
    described = definition()
    described["spec"] |= {"group": "storage.k8s.io"}
    described["spec"]["names"] |= {"plural": "storageclasses", "kind": "StorageClass"}
    described["metadata"] = {
        "name": "storageclasses.storage.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "x"},
    }
    assert "resource of Kubernetes itself" in client.request("POST", DEFINITIONS, described, want=422)["message"]


def test_large_defaults_and_enumerations_have_limits():
    described = definition()
    [version] = described["spec"]["versions"]
    properties = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
    item = {"type": "object", "properties": {"text": {"type": "string", "default": "x" * 500_000}}}
    properties["parts"] = {"type": "array", "items": item}
    properties["codes"] = {"type": "array", "items": {"type": "string", "enum": ["y" * 500_000]}}
    client = ApiHarness()
    client.create(DEFINITIONS, described)
    path = "/apis/example.org/v1/namespaces/default/quotas"
    client.create(path, quota("few", most=3, parts=[{}, {}]))
    message = client.request("POST", path, quota("many", most=3, parts=[{}] * 1000), want=400)["message"]
    assert message == "the defaults of the schema add more than 3 MiB"
    rejected = client.request("POST", path, quota("codes", most=3, codes=["z"] * 1000), want=422)
    assert len(str(rejected)) < 8 << 20


def test_defaults_added_later_are_shown_in_older_objects():
    client, crd = ApiHarness(), definition()
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    unit = spec["properties"].pop("unit")
    client.create(definitions, crd)
    client.create(QUOTAS, quota("q", most=3))
    spec["properties"]["unit"] = unit
    client.request("PATCH", f"{definitions}/quotas.example.org", {"spec": crd["spec"]}, content_type=MERGE)
    expected = {"most": 3, "unit": "gpu"}
    assert client.get(f"{QUOTAS}/q")["spec"] == expected
    assert [item["spec"] for item in client.get(QUOTAS)["items"]] == [expected]
    (event,) = client.watch(f"{QUOTAS}?watch=1").first()
    assert event["object"]["spec"] == expected
    del spec["properties"]["unit"]
    stored = client.get(f"{definitions}/quotas.example.org")
    client.request("PUT", f"{definitions}/quotas.example.org", {**stored, "spec": crd["spec"]})
    assert client.get(f"{QUOTAS}/q")["spec"] == {"most": 3}


def test_definition_without_a_spec_is_rejected() -> None:
    """Patches for kustomize are often applied by mistake."""
    head = {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "a.b"}}
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    answer = ApiHarness().request("POST", path, head, want=422)
    assert "spec.group" in [cause["field"] for cause in answer["details"]["causes"]]
