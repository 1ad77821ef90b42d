"""Fixes for insufficient resources."""

import pytest
from tests.unit.insight.explain.clusters import (
    Object,
    check_changes,
    node,
    pod,
    session,
)

from moorage.insight.explain.pods import explain_pod

OBSTACLES: dict[str, tuple[list[Object], list[str]]] = {
    "the pod requests too much cpu": ([node("n1"), pod("p", requests={"cpu": "5"})], ["request", "node-capacity"]),
    "the only node is full": (
        [node("n1"), pod("a", on="n1", requests={"cpu": "4"}), pod("p")],
        ["add-node", "delete-pod", "node-capacity", "request", "priority"],
    ),
}


@pytest.mark.parametrize(("objects", "kinds"), OBSTACLES.values(), ids=OBSTACLES)
def test_obstacle_has_its_changes(objects: list[Object], kinds: list[str]) -> None:
    check_changes(objects, kinds)


AMOUNTS = {
    "cpu, to the millicore": ({"cpu": "5"}, "/spec/containers/0/resources/requests/cpu", "3700m"),
    "memory, to the mebibyte": ({"memory": "9Gi"}, "/spec/containers/0/resources/requests/memory", "7167Mi"),
}


@pytest.mark.parametrize(("requests", "path", "value"), AMOUNTS.values(), ids=AMOUNTS)
def test_requests_are_lowered_no_further_than_needed(requests: Object, path: str, value: str) -> None:
    used_requests = {"cpu": "300m", "memory": str(2**30 + 1)}
    with session(node("n1"), pod("a", on="n1", requests=used_requests), pod("p", requests=requests)) as opened:
        first = explain_pod(opened, "default/p").changes[0]
    (edit,) = first.edits
    assert edit["patch"] == [{"op": "replace", "path": path, "value": value}]
    assert edit["apply"] == "replace"


def test_largest_request_is_lowered_first() -> None:
    containers = [
        {"name": name, "image": "app", "resources": {"requests": {"cpu": cpu}}}
        for name, cpu in (("a", "1"), ("b", "3"), ("c", "3"))
    ]
    with session(node("n1"), pod("p", containers=containers)) as opened:
        first = explain_pod(opened, "default/p").changes[0]
    assert first.text == "Lower the cpu request of container b from 3 to 0"
