"""Fixes for conflicts with other pods."""

import pytest
from tests.unit.insight.explain.clusters import (
    ANTI,
    NEAR,
    PORT,
    SPREAD,
    ZONE,
    Object,
    check_changes,
    node,
    pod,
)

OBSTACLES: dict[str, tuple[list[Object], list[str]]] = {
    "the pod has anti-affinity to a running pod": (
        [node("n1"), pod("a", on="n1", labels={"app": "web"}), pod("p", affinity=ANTI)],
        ["add-node", "affinity", "delete-pod", "priority"],
    ),
    "a running pod has anti-affinity to the pod": (
        [node("n1"), pod("a", on="n1", affinity=ANTI), pod("p", labels={"app": "web"})],
        ["delete-pod", "label", "priority"],
    ),
    "no pod matches the pod affinity": ([node("n1"), pod("p", affinity=NEAR)], ["affinity"]),
    "the topology spread would become uneven": (
        [
            node("n1", zone="z1"),
            node("n2", zone="z2"),
            pod("a", on="n1", labels={"app": "web"}),
            pod("p", labels={"app": "web"}, nodeSelector={ZONE: "z1"}, topologySpreadConstraints=SPREAD),
        ],
        ["spread", "spread", "selector", "delete-pod", "label", "priority"],
    ),
    "the host port is in use": (
        [node("n1"), pod("a", on="n1", containers=PORT), pod("p", containers=PORT)],
        ["add-node", "port", "delete-pod", "priority"],
    ),
}


@pytest.mark.parametrize(("objects", "kinds"), OBSTACLES.values(), ids=OBSTACLES)
def test_obstacle_has_its_changes(objects: list[Object], kinds: list[str]) -> None:
    check_changes(objects, kinds)
