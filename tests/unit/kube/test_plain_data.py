"""Paths through plain data, and changes of a struct applied to it."""

from typing import Any

import pytest

from moorage.kube.plain_data import apply_difference, find

DIFFERENCES: dict[str, tuple[Any, Any, Any, Any]] = {
    "a changed field": ({"a": 1, "x": 2}, {"a": 1}, {"a": 3}, {"a": 3, "x": 2}),
    "a removed field": ({"a": 1, "x": 2}, {"a": 1}, {}, {"x": 2}),
    "items keep unknown fields": ({"l": [{"x": 1}]}, {"l": [{}]}, {"l": [{"a": 1}]}, {"l": [{"x": 1, "a": 1}]}),
    "a longer list is replaced": ({"l": [{"x": 1}]}, {"l": [{}]}, {"l": ({}, {"a": 1})}, {"l": [{}, {"a": 1}]}),
    "a new mapping": ({}, {}, {"m": {"a": 1}}, {"m": {"a": 1}}),
}


@pytest.mark.parametrize(("data", "before", "after", "want"), DIFFERENCES.values(), ids=DIFFERENCES)
def test_difference(data: Any, before: Any, after: Any, want: Any) -> None:
    assert apply_difference(data, before, after) == want


def test_path() -> None:
    data = {"a": {"b": 1, "c": None}, "d": []}
    assert (find(data, "a.b"), find(data, "a.c", 2), find(data, "d.e"), find(data, "x", None)) == (1, 2, "", None)
