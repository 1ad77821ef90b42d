from tests.support.api import ApiHarness, definition

from moorage.cluster.apiserver.discovery.descriptions import DESCRIPTIONS
from moorage.cluster.apiserver.discovery.openapi import V2_CONTENT_TYPE, V2_PROTOBUF
from moorage.kube.schema import find_schema


def test_schemas_contain_merge_keys():
    client = ApiHarness()
    assert "apis/apps/v1" in client.get("/openapi/v3")["paths"]
    schemas = client.get("/openapi/v3/api/v1")["components"]["schemas"]
    containers = schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"


def test_schemas_contain_required_fields():
    client = ApiHarness()
    schemas = client.get("/openapi/v3/api/v1")["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.PodSpec"]["required"] == ["containers"]
    assert schemas["io.k8s.api.core.v1.Container"]["required"] == ["name"]
    assert "required" not in schemas["io.k8s.api.core.v1.Pod"]


def test_version_2_is_protobuf_for_clients_that_accept_it() -> None:
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    response = ApiHarness().send("GET", "/openapi/v2", accept=accept)
    assert (response.content_type, response.body) == (V2_CONTENT_TYPE, V2_PROTOBUF)


def test_described_fields_exist() -> None:
    for name in DESCRIPTIONS:
        group, version, kind, *field = name.split(".")
        schema = find_schema(f"io.k8s.api.{group}.{version}.{kind}")
        assert schema is not None, name
        assert not field or schema.field(field[0]) is not None, name


def test_kinds_and_fields_have_descriptions() -> None:
    schemas = ApiHarness().get("/openapi/v3/api/v1")["components"]["schemas"]
    assert schemas["io.k8s.api.core.v1.Pod"]["description"].startswith("Containers")
    assert "gates" in schemas["io.k8s.api.core.v1.PodSpec"]["properties"]["schedulingGates"]["description"]
    assert schemas["io.k8s.api.core.v1.Pod"]["properties"]["kind"]["description"]


def test_version_2_describes_custom_resources_without_null_and_alternatives() -> None:
    client, keeps = ApiHarness(), {"x-kubernetes-preserve-unknown-fields": True}
    text = {"type": "string"}
    properties = {
        "kept": {"type": "object", "properties": {"a": text}, **keeps},
        "nullable": {**text, "nullable": True},
        "port": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, text]},
        "defaulted": {**text, "default": "x"},
        "names": {"type": "array", "items": {**text, "nullable": True}},
        "map": {"type": "object", "additionalProperties": text, "nullable": True},
    }
    crd = definition()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "properties": {**properties}}
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    definitions = client.get("/openapi/v2")["definitions"]
    described = definitions["org.example.v1.Quota"]["properties"]
    assert described["metadata"]["$ref"] == "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    # As kube-apiserver 1.37.1 describes the same definition.
    assert {name: described[name] for name in properties} == {
        "kept": keeps,
        "nullable": {},
        "port": {"x-kubernetes-int-or-string": True},
        "defaulted": text,
        "names": {"type": "array", "items": {}},
        "map": {"additionalProperties": text},
    }
    assert "$ref" in definitions["io.k8s.api.core.v1.Pod"]["properties"]["spec"]


def test_version_2_describes_no_fields_of_resources_that_keep_unknown_ones() -> None:
    client, crd = ApiHarness(), definition()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["x-kubernetes-preserve-unknown-fields"] = True
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    described = client.get("/openapi/v2")["definitions"]["org.example.v1.Quota"]
    kind = {"group": "example.org", "version": "v1", "kind": "Quota"}
    assert described == {"type": "object", "x-kubernetes-group-version-kind": [kind]}


def test_metadata_of_custom_resources_is_described() -> None:
    client = ApiHarness()
    client.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition())
    schemas = client.get("/openapi/v3/apis/example.org/v1")["components"]["schemas"]
    (reference,) = schemas["org.example.v1.Quota"]["properties"]["metadata"]["allOf"]
    assert reference["$ref"].rpartition("/")[2] in schemas
