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
    outcome,
    pod,
    session,
)
from tests.unit.insight.explain.parts import claim, controlled, mounting, running, volume

from moorage.insight.explain.pods import explain_pod

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


def csi_volume(name: str, of: str) -> Object:
    made = volume(name, claimed_by=of)
    spec = {key: item for key, item in made["spec"].items() if key != "hostPath"}
    return {**made, "spec": {**spec, "csi": {"driver": "disk.example.org", "volumeHandle": name}}}


def test_new_node_has_csi_drivers_if_volumes_are_limited() -> None:
    """Like kube-scheduler, the scheduler retries a pod after a volume limit when a CSINode is added."""
    drivers = [{"name": "disk.example.org", "nodeID": "n1", "allocatable": {"count": 1}}]
    head = {"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": "n1"}}
    objects: list[Object] = [
        *(node("n1"), {**head, "spec": {"drivers": drivers}}),
        *(csi_volume("pv1", "d1"), claim("d1", volume="pv1"), csi_volume("pv", "data"), claim("data", volume="pv")),
        *(controlled(running(mounting("d1"), "a")), mounting("data")),
    ]
    with session(*objects) as opened:
        first = explain_pod(opened, "default/p").as_data()["changes"][0]
    assert [(edit["create"]["kind"], edit["create"]["metadata"]["name"]) for edit in first["edits"]] == [
        ("Node", "n1-new-1"),
        ("CSINode", "n1-new-1"),
    ]
    assert outcome(objects, first["edits"]) == ("n1-new-1", ())
