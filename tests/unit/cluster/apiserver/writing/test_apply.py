from typing import Any

import pytest
from tests.support.api import (
    APPLY,
    DEPLOYMENTS,
    ApiHarness,
    deployment,
)


def test_server_side_apply_creates_updates_and_releases_fields():
    client = ApiHarness()
    path = f"{DEPLOYMENTS}/shop?fieldManager=me"
    desired = deployment()
    desired["metadata"]["labels"] = {"team": "a"}
    created = client.request("PATCH", path, desired, content_type=APPLY, want=201)
    assert created["metadata"]["managedFields"][0]["manager"] == "me"
    changed = client.request("PATCH", path, deployment(image="shop:2"), content_type=APPLY)
    assert changed["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:2"
    assert "team" not in changed["metadata"].get("labels", {})


def test_server_side_apply_conflicts_with_another_manager_unless_forced():
    client = ApiHarness()
    client.request("PATCH", f"{DEPLOYMENTS}/shop?fieldManager=me", deployment(), content_type=APPLY, want=201)
    apply_path = f"{DEPLOYMENTS}/shop?fieldManager=you"
    error = client.request("PATCH", apply_path, deployment(image="shop:2"), content_type=APPLY, want=409)
    assert [cause["field"] for cause in error["details"]["causes"]] == [
        '.spec.template.spec.containers[name="main"].image'
    ]
    applied = client.request("PATCH", f"{apply_path}&force=true", deployment(image="shop:2"), content_type=APPLY)
    assert applied["spec"]["template"]["spec"]["containers"][0]["image"] == "shop:2"
    client.request("PATCH", f"{DEPLOYMENTS}/shop?fieldManager=me", deployment(), content_type=APPLY, want=409)


def test_server_side_apply_needs_a_manager():
    client = ApiHarness()
    assert (
        client.request("PATCH", f"{DEPLOYMENTS}/shop", deployment(), content_type=APPLY, want=422)["reason"]
        == "Invalid"
    )


REMOVED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "a probe with its defaults": ({"livenessProbe": {"httpGet": {"port": 80}}}, {}),
    "the last limit": ({"resources": {"limits": {"cpu": "1"}}}, {}),
    "the last variable": ({"env": [{"name": "A", "value": "b"}]}, {}),
    "the source of a variable": (
        {"env": [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]},
        {"env": [{"name": "A", "value": "b"}]},
    ),
}


@pytest.mark.parametrize("name", REMOVED)
def test_a_field_that_is_not_re_applied_is_removed_with_its_defaults(name: str) -> None:
    client, (before, after) = ApiHarness(), REMOVED[name]

    def apply(target: str, container: dict[str, Any]) -> dict[str, Any]:
        obj = deployment(target)
        obj["spec"]["template"]["spec"]["containers"][0] |= container
        path = f"{DEPLOYMENTS}/{target}?fieldManager=me"
        answer = client.send("PATCH", path, obj, content_type=APPLY)
        assert answer.status < 300, answer.body
        spec: dict[str, Any] = client.get(f"{DEPLOYMENTS}/{target}")["spec"]
        return spec

    apply("changed", before)
    changed = apply("changed", after)
    assert changed["template"]["spec"]["containers"] == apply("fresh", after)["template"]["spec"]["containers"]


def test_the_last_key_of_a_map_is_removed() -> None:
    client, path = ApiHarness(), "/api/v1/namespaces/default/configmaps/a?fieldManager=me"
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    client.request("PATCH", path, {**obj, "data": {"k": "v"}}, content_type=APPLY, want=201)
    assert "data" not in client.request("PATCH", path, obj, content_type=APPLY)
