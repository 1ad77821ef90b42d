import msgspec
from tests.support.api import ApiHarness

AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"


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
