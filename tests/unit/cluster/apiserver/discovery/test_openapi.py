from tests.support.api import ApiHarness

from moorage.cluster.apiserver.discovery.openapi import V2_CONTENT_TYPE, V2_PROTOBUF


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
