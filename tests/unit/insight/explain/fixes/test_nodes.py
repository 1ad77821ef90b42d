"""Fixes for taints, cordons and missing nodes."""

import pytest
from tests.unit.insight.explain.clusters import (
    ON_SSD,
    SPREAD,
    TAINT,
    TO_ONE,
    Object,
    check_changes,
    node,
    pod,
)

OBSTACLES: dict[str, tuple[list[Object], list[str]]] = {
    "the node has a taint": ([node("n1", taints=[TAINT]), pod("p")], ["toleration", "node-taint"]),
    "the node is cordoned": ([node("n1", unschedulable=True), pod("p")], ["cordon", "add-node", "toleration"]),
    "the cluster has no nodes": ([pod("p")], ["add-node"]),
    "without nodes, the pod requires labels": ([pod("p", affinity=ON_SSD, nodeSelector={"arch": "arm"})], ["add-node"]),
    "without nodes, the pod requires a node name": ([pod("p", affinity=TO_ONE)], ["add-node"]),
    "without nodes, the pod spreads over zones": (
        [pod("p", labels={"app": "web"}, topologySpreadConstraints=SPREAD)],
        ["add-node"],
    ),
}


@pytest.mark.parametrize(("objects", "kinds"), OBSTACLES.values(), ids=OBSTACLES)
def test_obstacle_has_its_changes(objects: list[Object], kinds: list[str]) -> None:
    check_changes(objects, kinds)
