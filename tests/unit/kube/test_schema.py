"""Types of fields: Go's messages for other types, unknown fields and required zeros."""

from typing import Any

import pytest

from moorage.kube.schema import Schema, complete, find_kind_schema, find_schema, type_problem, unknown_fields


def find(kind: str) -> Schema:
    schema = find_kind_schema("v1", kind)
    assert schema is not None
    return schema


INTO = "into Go struct field"
TYPES: dict[str, tuple[dict[str, Any], str | None]] = {
    "a valid pod": (
        {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}], "hostNetwork": True}},
        None,
    ),
    "null is absent": ({"spec": None}, None),
    "a number for a name": (
        {"metadata": {"name": 5}},
        f"json: cannot unmarshal number {INTO} ObjectMeta.metadata.name of type string",
    ),
    "a text for a struct": (
        {"spec": "x"},
        f"json: cannot unmarshal string {INTO} Pod.spec of type v1.PodSpec",
    ),
    "an object for a list": (
        {"spec": {"containers": {}}},
        f"json: cannot unmarshal object {INTO} PodSpec.spec.containers of type []v1.Container",
    ),
    "a list for a map": (
        {"metadata": {"labels": []}},
        f"json: cannot unmarshal array {INTO} ObjectMeta.metadata.labels of type map[string]string",
    ),
    "a bool in a map of texts": (
        {"metadata": {"labels": {"a": True}}},
        f"json: cannot unmarshal bool {INTO} ObjectMeta.metadata.labels of type string",
    ),
    "a number above 32 bits": (
        {"spec": {"priority": 2**31}},
        f"json: cannot unmarshal number 2147483648 {INTO} PodSpec.spec.priority of type int32",
    ),
    "a bool for a number": (
        {"spec": {"priority": True}},
        f"json: cannot unmarshal bool {INTO} PodSpec.spec.priority of type int32",
    ),
    "an invalid quantity": (
        {"spec": {"overhead": {"cpu": "x"}}},
        "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    ),
    "an invalid time": (
        {"metadata": {"creationTimestamp": "now"}},
        'parsing time "now" as "2006-01-02T15:04:05Z07:00": invalid timestamp',
    ),
}


@pytest.mark.parametrize(("data", "want"), TYPES.values(), ids=TYPES)
def test_first_field_of_another_type(data: dict[str, Any], want: str | None) -> None:
    assert type_problem(data, find("Pod")) == want


def test_unknown_fields_are_found_in_lists_and_maps() -> None:
    data = {"apiVersion": "v1", "kind": "Pod", "x": 1, "spec": {"containers": [{"name": "a"}, {"y": 1}], "z": {}}}
    assert [*unknown_fields(data, find("Pod"))] == ["x", "spec.containers[1].y", "spec.z"]


def test_missing_required_fields_get_zeros() -> None:
    data: dict[str, Any] = {"spec": {"containers": [{}]}, "status": {"containerStatuses": [{"name": "a"}]}}
    complete(data, find("Pod"))
    assert data["spec"]["containers"] == [{"name": ""}]
    assert data["status"]["containerStatuses"] == [
        {"name": "a", "ready": False, "restartCount": 0, "image": "", "imageID": ""}
    ]


def test_custom_kinds_have_no_schema() -> None:
    assert find_kind_schema("example.com/v1", "Pod") is None
    assert find_schema("nothing") is None
