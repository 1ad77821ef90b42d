"""Cluster files: formats and errors."""

from pathlib import Path

import pytest

from moorage.common.errors import InputError
from moorage.lab.cluster import read_lab_cluster, write_nodes_csv
from moorage.lab.generating import preset_cluster


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
