from typing import Any

import pytest

from moorage.common.errors import ApiError
from moorage.kube.patches import json_patch, merge_patch, strategic_merge
from moorage.kube.schema import find_kind_schema

POD = find_kind_schema("v1", "Pod")
CONTAINERS = {"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}}

MERGES = {
    "mappings merge": ({"a": {"x": 1}}, {"a": {"y": 2}}, {"a": {"x": 1, "y": 2}}),
    "null removes": ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
    "lists are replaced": ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
    "nulls of new mappings are dropped": ({}, {"a": {"b": None}}, {"a": {}}),
}


@pytest.mark.parametrize(("target", "patch", "want"), MERGES.values(), ids=MERGES)
def test_merge_patch(target: Any, patch: Any, want: Any) -> None:
    assert merge_patch(target, patch) == want


STRATEGIC = {
    "an item with the same key is merged": (
        CONTAINERS,
        {"spec": {"containers": [{"name": "b", "image": "b:2"}]}},
        {"spec": {"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}]}},
    ),
    "an item with a new key precedes what the patch does not name": (
        {"spec": {"containers": [{"name": "a"}]}},
        {"spec": {"containers": [{"name": "c"}]}},
        {"spec": {"containers": [{"name": "c"}, {"name": "a"}]}},
    ),
    "what the patch does not name remains before what it was before": (
        {"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}},
        {"spec": {"containers": [{"name": "new"}, {"name": "b"}]}},
        {"spec": {"containers": [{"name": "new"}, {"name": "a"}, {"name": "b"}, {"name": "c"}]}},
    ),
    "named items are in the order of the patch": (
        {"spec": {"containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}]}},
        {"spec": {"containers": [{"name": "c"}, {"name": "a"}]}},
        {"spec": {"containers": [{"name": "b"}, {"name": "c"}, {"name": "a"}]}},
    ),
    "an item is deleted by directive": (
        CONTAINERS,
        {"spec": {"containers": [{"name": "a", "$patch": "delete"}]}},
        {"spec": {"containers": [{"name": "b", "image": "b:1"}]}},
    ),
    "a list is replaced by directive": (
        CONTAINERS,
        {"spec": {"containers": [{"name": "x"}, {"$patch": "replace"}]}},
        {"spec": {"containers": [{"name": "x"}]}},
    ),
    "a list without a merge key is replaced": (
        {"spec": {"tolerations": [{"key": "a"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
        {"spec": {"tolerations": [{"key": "b"}]}},
    ),
    "a list of words is merged": (
        {"metadata": {"finalizers": ["a", "b"]}},
        {"metadata": {"finalizers": ["c"], "$deleteFromPrimitiveList/finalizers": ["a"]}},
        {"metadata": {"finalizers": ["c", "b"]}},
    ),
    "items are put in order": (
        CONTAINERS,
        {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}},
        {"spec": {"containers": [{"name": "b", "image": "b:1"}, {"name": "a", "image": "a:1"}]}},
    ),
    "only some keys are retained": (
        {"spec": {"volumes": [{"name": "v", "emptyDir": {}}]}},
        {"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/"}}]}},
        {"spec": {"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}},
    ),
    "null removes a field": ({"spec": {"nodeName": "n"}}, {"spec": {"nodeName": None}}, {"spec": {}}),
    "conditions are merged by type": (
        {"status": {"conditions": [{"type": "Ready", "status": "True"}]}},
        {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}]}},
        {"status": {"conditions": [{"type": "PodScheduled", "status": "False"}, {"type": "Ready", "status": "True"}]}},
    ),
}


@pytest.mark.parametrize(("target", "patch", "want"), STRATEGIC.values(), ids=STRATEGIC)
def test_strategic_merge(target: Any, patch: Any, want: Any) -> None:
    assert strategic_merge(target, patch, POD) == want


def test_item_without_its_merge_key_is_rejected() -> None:
    with pytest.raises(ApiError, match="does not contain declared merge key: name"):
        strategic_merge(CONTAINERS, {"spec": {"containers": [{"image": "x"}]}}, POD)


OPERATIONS = {
    "add to a mapping": ([{"op": "add", "path": "/a/y", "value": 2}], {"a": {"x": 1, "y": 2}, "l": [1, 2]}),
    "add to the end of a list": ([{"op": "add", "path": "/l/-", "value": 3}], {"a": {"x": 1}, "l": [1, 2, 3]}),
    "add into a list": ([{"op": "add", "path": "/l/0", "value": 0}], {"a": {"x": 1}, "l": [0, 1, 2]}),
    "remove": ([{"op": "remove", "path": "/l/0"}], {"a": {"x": 1}, "l": [2]}),
    "replace": ([{"op": "replace", "path": "/a/x", "value": 9}], {"a": {"x": 9}, "l": [1, 2]}),
    "replace an absent key": ([{"op": "replace", "path": "/a/y", "value": 9}], {"a": {"x": 1, "y": 9}, "l": [1, 2]}),
    "an index from the end": ([{"op": "remove", "path": "/l/-1"}], {"a": {"x": 1}, "l": [1]}),
    "no value": ([{"op": "add", "path": "/l"}], {"a": {"x": 1}, "l": None}),
    "move": ([{"op": "move", "from": "/a/x", "path": "/b"}], {"a": {}, "l": [1, 2], "b": 1}),
    "copy": ([{"op": "copy", "from": "/a", "path": "/b"}], {"a": {"x": 1}, "l": [1, 2], "b": {"x": 1}}),
    "test that holds": ([{"op": "test", "path": "/a/x", "value": 1}], {"a": {"x": 1}, "l": [1, 2]}),
    "a slash in a key is escaped": (
        [{"op": "add", "path": "/a/b~1c", "value": 1}],
        {"a": {"x": 1, "b/c": 1}, "l": [1, 2]},
    ),
}


@pytest.mark.parametrize(("operations", "want"), OPERATIONS.values(), ids=OPERATIONS)
def test_json_patch(operations: Any, want: Any) -> None:
    assert json_patch({"a": {"x": 1}, "l": [1, 2]}, operations) == want


REFUSED = {
    "a test that fails": ([{"op": "test", "path": "/a", "value": 2}], 422),
    "removing what is not there": ([{"op": "remove", "path": "/b"}], 422),
    "replacing an absent item": ([{"op": "replace", "path": "/l/1", "value": 1}], 422),
    "an index that is too large": ([{"op": "add", "path": "/l/7", "value": 1}], 422),
    "an unknown operation": ([{"op": "swap", "path": "/a"}], 422),
    "no list": ({"op": "add"}, 400),
    "a path without a slash": ([{"op": "add", "path": "b", "value": 1}], 422),
    "a path below a text": ([{"op": "add", "path": "/a/b", "value": 1}], 422),
}


@pytest.mark.parametrize(("operations", "status"), REFUSED.values(), ids=REFUSED)
def test_invalid_json_patch_is_rejected(operations: Any, status: int) -> None:
    with pytest.raises(ApiError) as error:
        json_patch({"a": 1, "l": [1]}, operations)
    assert error.value.status == status
