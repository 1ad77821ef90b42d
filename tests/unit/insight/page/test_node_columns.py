"""Nodes as columns."""

from typing import Any

from tests.unit.insight.page.clusters import get, served

from moorage.insight.page.service import PageService


def test_nodes_are_columns_with_labels_to_group_them() -> None:
    async def talk(service: PageService) -> Any:
        return await get(service, "nodes")

    nodes = served(talk)
    assert nodes["names"] == ["n1", "n2", "n3"]
    assert nodes["labels"]["topology.kubernetes.io/zone"] == {"values": ["zone-1", "zone-2", "zone-3"], "of": [0, 1, 2]}
    assert nodes["allocatable"]["example.com/gpu"] == [0, 0, 2]
    assert nodes["taints"]["values"][nodes["taints"]["of"][2]] == "gpu:NoSchedule"
    assert nodes["cordoned"] == [1]
