from typing import Any

from tests.support.api import (
    APPLY,
    DEPLOYMENTS,
    MERGE,
    ApiHarness,
    deployment,
)


def test_manager_that_scales_owns_the_replicas():
    client = ApiHarness()
    path = f"{DEPLOYMENTS}/shop?fieldManager=me"
    desired = deployment()
    desired["spec"]["replicas"] = 1
    client.request("PATCH", path, desired, content_type=APPLY, want=201)
    client.request("PATCH", f"{DEPLOYMENTS}/shop/scale", {"spec": {"replicas": 4}}, content_type=MERGE)
    error = client.request("PATCH", path, desired, content_type=APPLY, want=409)
    assert 'conflict with "tester"' in error["message"]


def owners(obj: dict[str, Any]) -> dict[str, Any]:
    return {entry["manager"]: entry["fieldsV1"] for entry in obj["metadata"].get("managedFields", ())}


CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CONFIG_MAP: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}


def test_the_creator_owns_fields_and_defaults_but_not_the_results_of_admission() -> None:
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a", "labels": {"app": "a"}},
        "spec": {"containers": [{"name": "main", "image": "i"}]},
    }
    created = ApiHarness().request("POST", "/api/v1/namespaces/default/pods?fieldManager=me", pod, want=201)
    spec = owners(created)["me"]["f:spec"]
    assert owners(created)["me"]["f:metadata"] == {"f:labels": {".": {}, "f:app": {}}}
    assert "f:imagePullPolicy" in spec["f:containers"]['k:{"name":"main"}']
    assert "f:serviceAccountName" not in spec
    assert "f:tolerations" not in spec


def test_an_update_takes_the_changed_fields_and_releases_the_removed_ones() -> None:
    client = ApiHarness()
    client.request("POST", f"{CONFIG_MAPS}?fieldManager=me", CONFIG_MAP, want=201)
    path = f"{CONFIG_MAPS}/a?fieldManager=you"
    changed = client.request("PATCH", path, {"data": {"k": "w", "l": "x"}}, content_type=MERGE)
    assert owners(changed) == {"me": {"f:data": {}}, "you": {"f:data": {"f:k": {}, "f:l": {}}}}
    removed = client.request("PATCH", path, {"data": {"k": None}}, content_type=MERGE)
    assert owners(removed) == {"me": {"f:data": {}}, "you": {"f:data": {"f:l": {}}}}


def test_a_client_can_reset_the_owners() -> None:
    client = ApiHarness()
    client.request("POST", f"{CONFIG_MAPS}?fieldManager=me", CONFIG_MAP, want=201)
    reset = client.request("PATCH", f"{CONFIG_MAPS}/a", {"metadata": {"managedFields": [{}]}}, content_type=MERGE)
    assert owners(reset) == {}


def test_objects_of_own_components_are_tracked_from_the_first_apply() -> None:
    client = ApiHarness()
    created = client.request("POST", f"{CONFIG_MAPS}?fieldManager=moorage", CONFIG_MAP, want=201)
    assert owners(created) == {}
    applied = client.request("PATCH", f"{CONFIG_MAPS}/a?fieldManager=me", CONFIG_MAP, content_type=APPLY)
    assert sorted(owners(applied)) == ["before-first-apply", "me"]
