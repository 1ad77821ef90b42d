import json
from typing import Any

import pytest
from tests.support.api import (
    APPLY,
    DEPLOYMENTS,
    ApiHarness,
    deployment,
)

from moorage.cluster.apiserver.writing.apply import LAST_APPLIED
from moorage.cluster.apiserver.writing.field_types import CustomType
from moorage.cluster.apiserver.writing.field_values import merge


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


def test_invalid_last_applied_annotation_is_ignored() -> None:
    client, path = ApiHarness(), "/api/v1/namespaces/default/configmaps"
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    client.create(path, {**obj, "metadata": {"name": "a", "annotations": {LAST_APPLIED: "[" * 100_000}}})
    client.request("PATCH", f"{path}/a?fieldManager=kubectl", obj, content_type=APPLY)


def test_kubectl_takes_the_fields_of_its_client_side_apply() -> None:
    client, path = ApiHarness(), "/api/v1/namespaces/default/configmaps"
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}}
    annotations = {LAST_APPLIED: json.dumps(obj)}
    by_client = {**obj, "metadata": {"name": "a", "annotations": annotations}}
    client.request("POST", f"{path}?fieldManager=kubectl-client-side-apply", by_client, want=201)
    desired = {**obj, "data": {"k": "w"}}
    client.request("PATCH", f"{path}/a?fieldManager=other", desired, content_type=APPLY, want=409)
    applied = client.request("PATCH", f"{path}/a?fieldManager=kubectl", desired, content_type=APPLY)
    assert applied["data"] == {"k": "w"}
    assert json.loads(applied["metadata"]["annotations"][LAST_APPLIED]) == desired


def test_several_conflicts_are_listed_by_manager() -> None:
    client, path = ApiHarness(), "/api/v1/namespaces/default/configmaps/a?fieldManager="
    obj: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
    client.request("PATCH", f"{path}me", {**obj, "data": {"k": "v", "l": "v"}}, content_type=APPLY, want=201)
    desired = {**obj, "data": {"k": "w", "l": "w"}}
    error = client.request("PATCH", f"{path}you", desired, content_type=APPLY, want=409)
    assert error["message"] == 'Apply failed with 2 conflicts: conflicts with "me":\n- .data.k\n- .data.l'


ORDERS: dict[str, tuple[str, str, str]] = {
    "new items follow": ("ab", "c", "abc"),
    "the applied order wins": ("abc", "ca", "bca"),
    "other items remain in front of their successors": ("xay", "ba", "xbay"),
}


@pytest.mark.parametrize("name", ORDERS)
def test_lists_with_keys_are_merged_in_order(name: str) -> None:
    live, desired, expected = ORDERS[name]
    kind = CustomType({"x-kubernetes-list-type": "set", "items": {"type": "string"}})
    assert "".join(merge(list(live), list(desired), kind)) == expected
