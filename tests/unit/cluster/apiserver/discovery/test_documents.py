import msgspec
from tests.support.api import ApiHarness

from moorage.kube.features import FeatureGates

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


def test_an_emulated_release_changes_two_minor_versions() -> None:
    versions = {
        release: ApiHarness(features=FeatureGates(release=release)).get("/version") for release in ("1.37", "1.38")
    }
    assert {release: (data["emulationMinor"], data["minCompatibilityMinor"]) for release, data in versions.items()} == {
        "1.37": ("37", "36"),
        "1.38": ("38", "37"),
    }
    assert versions["1.37"]["gitVersion"] == versions["1.38"]["gitVersion"]
    assert versions["1.37"]["minor"] == versions["1.38"]["minor"]


def test_the_stable_version_of_groups_is_preferred_from_1_38() -> None:
    gates = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
    client = ApiHarness(features=FeatureGates(gates, release="1.38"))
    group = client.get("/apis/scheduling.k8s.io")
    assert group["preferredVersion"]["version"] == "v1"
    assert [item["version"] for item in group["versions"]] == ["v1", "v1beta1", "v1alpha3"]
    names = {item["name"] for item in client.get("/apis/scheduling.k8s.io/v1")["resources"]}
    assert {"podgroups", "podgroups/status", "workloads"} <= names
    assert "compositepodgroups" not in names


def test_the_beta_format_of_discovery_is_not_served() -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
    assert ApiHarness().send("GET", "/apis", accept=accept).content_type == "application/json"
