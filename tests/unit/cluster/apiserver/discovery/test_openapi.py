from tests.support.api import ApiHarness, definition

from moorage.cluster.apiserver.discovery.descriptions import DESCRIPTIONS
from moorage.cluster.apiserver.discovery.openapi import (
    OPTIONAL_FROM_1_38,
    REQUIRED_FROM_1_38,
    V2_CONTENT_TYPE,
    V2_PROTOBUF,
)
from moorage.kube.features import FeatureGates
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


def required_fields(release: str) -> dict[tuple[str, str], set[str]]:
    """Return the required fields of each type, in all documents."""
    client = ApiHarness(features=FeatureGates(release=release))
    documents = {path: client.get(f"/openapi/v3/{path}") for path in client.get("/openapi/v3")["paths"]}
    schemas = {path: document["components"]["schemas"] for path, document in documents.items()}
    schemas["v2"] = client.get("/openapi/v2")["definitions"]
    return {
        (path, name): set(schema.get("required", ()))
        for path, types in schemas.items()
        for name, schema in types.items()
    }


def test_fewer_fields_are_required_from_1_38() -> None:
    before, now = required_fields("1.37"), required_fields("1.38")
    assert before.keys() <= now.keys()
    changed = {key: before[key] - now[key] for key in before if before[key] - now[key]}
    assert {name: sorted(fields) for (_, name), fields in changed.items()} == {
        name: sorted(fields) for name, fields in OPTIONAL_FROM_1_38.items() if any(name == key[1] for key in before)
    }
    assert changed[("apis/batch/v1", "io.k8s.api.batch.v1.JobCondition")] == {"type", "status"}
    assert now[("api/v1", "io.k8s.api.core.v1.ISCSIVolumeSource")] == {"targetPortal", "iqn"}


def test_three_fields_are_required_from_1_38() -> None:
    before, now = required_fields("1.37"), required_fields("1.38")
    added = {name: sorted(now[path, name] - before[path, name]) for path, name in before if path != "v2"}
    assert {name: fields for name, fields in added.items() if fields} == {
        name: [*fields] for name, fields in REQUIRED_FROM_1_38.items()
    }
    assert now["v2", "io.k8s.api.batch.v1.Job"] == {"spec"}


def test_version_2_is_protobuf_for_clients_that_accept_it() -> None:
    accept = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
    response = ApiHarness().send("GET", "/openapi/v2", accept=accept)
    assert (response.content_type, response.body) == (V2_CONTENT_TYPE, V2_PROTOBUF)


def test_described_fields_exist() -> None:
    for name in DESCRIPTIONS:
        group, version, kind, *field = name.split(".")
        package = "io.k8s.apimachinery.pkg.apis" if group == "meta" else "io.k8s.api"
        schema = find_schema(f"{package}.{group}.{version}.{kind}")
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
