import pytest
from tests.support.reconciling import NOW, describe, make, status_in, waits_in

from moorage.cluster.controllers.actions import ControllerAction
from moorage.cluster.controllers.fake_nodes import Heartbeats, NodeShape, fake_node
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.kubelet import FAKE_LABEL
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError
from moorage.kube.api.meta import format_micro_time
from moorage.kube.api.node import Node
from moorage.kube.api.records import Lease
from moorage.kube.schema import find_schema

SHAPES = {
    "the default shape": ("", {"cpu": "8", "memory": "32Gi", "pods": "110"}, 3),
    "given resources replace the defaults": ("cpu=64,zones=0", {"cpu": "64", "memory": "32Gi", "pods": "110"}, 0),
    "devices are added": (
        "nvidia.com/gpu=4",
        {"cpu": "8", "memory": "32Gi", "pods": "110", "nvidia.com/gpu": "4"},
        3,
    ),
}


@pytest.mark.parametrize(("text", "resources", "zones"), SHAPES.values(), ids=SHAPES)
def test_shapes(text: str, resources: dict[str, str], zones: int) -> None:
    assert NodeShape.parse(text) == NodeShape(resources, zones)


BAD = {
    "cpu": "not of the form RESOURCE=AMOUNT",
    "cpu=much": "write an amount",
    "cpu=-1": "negative",
    "zones=a": "zones=3",
}


@pytest.mark.parametrize(("text", "current"), BAD.items())
def test_bad_shapes(text: str, current: str) -> None:
    with pytest.raises(InputError, match=current):
        NodeShape.parse(text)


def test_nodes_are_spread_over_zones() -> None:
    zones = [
        fake_node(f"n{n}", n, NodeShape(zones=2), NOW)["metadata"]["labels"]["topology.kubernetes.io/zone"]
        for n in (1, 2, 3)
    ]
    assert zones == ["zone-2", "zone-1", "zone-2"]


def node(ready: str = "True") -> Node:
    labels = {FAKE_LABEL: "true"}
    return make(Node, "n1", metadata={"labels": labels}, status={"conditions": [{"type": "Ready", "status": ready}]})


def lease(seconds_ago: float) -> Lease:
    spec = {"renewTime": format_micro_time(NOW - seconds_ago)}
    return make(Lease, "n1", metadata={"namespace": "kube-node-lease"}, spec=spec)


def beat(*objects: Node | Lease) -> list[ControllerAction]:
    return list(Heartbeats(VirtualClock()).reconcile("n1", InformerCache(objects)))


def test_lease_is_created_and_renewed() -> None:
    assert describe(beat(node())) == ["create Lease n1"]
    assert describe(beat(node(), lease(10))) == ["change n1"]
    early = beat(node(), lease(4))
    assert (describe(early), waits_in(early)) == ([], [6.0])


def test_unreachable_node_becomes_ready() -> None:
    status = status_in(beat(node("Unknown"), lease(1)))
    assert ("Ready", "True") in [(item["type"], item["status"]) for item in status["conditions"]]


def test_node_has_every_string_that_clients_require() -> None:
    schema = find_schema("io.k8s.api.core.v1.NodeSystemInfo")
    assert schema is not None
    info = fake_node("n1", 1, NodeShape(), NOW)["status"]["nodeInfo"]
    assert {field.name for field in schema.own_fields if field.required} == info.keys()
    assert info["machineID"] != fake_node("n2", 2, NodeShape(), NOW)["status"]["nodeInfo"]["machineID"]


def test_unknown_resource_of_a_shape_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(InputError, match=r"cpus: unknown resource\n.*did you mean 'cpu'\?"):
        NodeShape.parse("cpus=8")
    assert NodeShape.parse("example.com/cpus=8,hugepages-2Mi=1Gi").resources["example.com/cpus"] == "8"
