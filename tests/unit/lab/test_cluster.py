"""Cluster files: formats and errors."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.kube.api.node import Node
from moorage.lab.cluster import (
    PRICE,
    LabCluster,
    NodePool,
    build_cluster,
    check_cluster,
    read_lab_cluster,
    read_number,
    write_nodes_csv,
)
from moorage.lab.generating import preset_cluster
from moorage.testing import make_node


def priced(price: str, name: str = "priced") -> Node:
    node = make_node(name)
    return replace(node, metadata=replace(node.metadata, annotations={PRICE: price}))


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def test_written_nodes_are_read_back(tmp_path: Path) -> None:
    cluster = preset_cluster("mixed")
    write_nodes_csv(tmp_path / "mixed.csv", cluster.nodes)
    again = read_lab_cluster(tmp_path / "mixed.csv")
    assert [node.allocatable for node in again.nodes] == [node.allocatable for node in cluster.nodes]
    assert [node.annotations for node in again.nodes] == [node.annotations for node in cluster.nodes]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("pools: []\n", "no nodes"),
        ("pools: [{name: a, count: 1, cpu: x, memory: 1Gi}]\n", "not a quantity"),
        ("pools: [{name: a, count: 1, cpu: 1}]\n", "memory"),
        ("pools: [{name: a, count: -1, cpu: 1, memory: 1Gi}]\n", r"pools\[0\].count"),
        ("pools: [{name: a, count: 1, cpu: -1, memory: 1Gi}]\n", "is negative"),
        ("pools: [{name: a, count: 1, cpu: 1, memory: 1Gi, gpus: -8}]\n", "gpus"),
        ("pools: [{name: a, count: 1, cpu: 1, memory: 1Gi, prize: 2}]\n", "prize"),
    ],
)
def test_invalid_cluster_is_reported(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_lab_cluster(write(tmp_path / "c.yaml", text))


def test_cluster_is_read_from_kubernetes_objects(tmp_path: Path) -> None:
    node = "apiVersion: v1\nkind: Node\nmetadata: {name: n0, annotations: {moorage.io/price-per-hour: '2'}}\n"
    pod = (
        "---\napiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec: {nodeName: n0, containers: [{name: c, image: i}]}\n"
    )
    cluster = read_lab_cluster(write(tmp_path / "c.yaml", node + "status: {allocatable: {cpu: 4}}\n" + pod))
    assert [obj.name for obj in (*cluster.nodes, *cluster.objects)][:1] == ["n0"]
    assert any(obj.name == "p" for obj in cluster.objects)


def test_amounts_of_zero_are_valid_and_negative_ones_are_not() -> None:
    pool = NodePool("pool", 1, 4, "1Gi", resources={"example.org/x": "0"})
    (node,) = build_cluster("c", [pool], "a test").nodes
    assert node.allocatable["example.org/x"] == 0
    with pytest.raises(InputError, match=r"a test, pools\[0\]"):
        build_cluster("c", [NodePool("pool", 1, 4, "1Gi", resources={"example.org/x": "-1"})], "a test")


NODES = {
    "no nodes": ((), "the cluster has no nodes"),
    "equal names": ((make_node("a"), make_node("b"), make_node("a")), "there are two nodes named 'a'"),
    "no name": ((make_node(""),), "a node has no name"),
    "a price that is not a number": ((priced("cheap"),), "'cheap' is not a number of at least 0"),
    "a negative price": ((priced("-1"),), "'-1' is not a number of at least 0"),
    "an infinite price": ((priced("inf"),), "'inf' is not a number of at least 0"),
}


@pytest.mark.parametrize(("nodes", "message"), NODES.values(), ids=NODES)
def test_invalid_nodes_are_reported(nodes: tuple[Node, ...], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        check_cluster(LabCluster("c", nodes), "a test")


def test_nodes_with_and_without_a_price_are_valid() -> None:
    cluster = LabCluster("c", (make_node("a"), priced("0"), priced("1.25", name="b")))
    assert check_cluster(cluster, "a test") is cluster
    assert [read_number(node, PRICE) for node in cluster.nodes] == [0.0, 0.0, 1.25]
