"""Nodes for the page: columns from the rows of a scheduler's cache."""

from collections.abc import Iterable, Sequence
from typing import Final

from moorage.insight.page.api_types import Grouping, NodeLayout, NodeLoad
from moorage.kube.api.node import HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL, Node
from moorage.scheduler.framework.nodetable import NodeTable

MAX_GROUPS: Final = 200
"""Labels with more values are not used to group nodes."""
MAX_LABELS: Final = 16
FIRST_LABELS: Final = (ZONE_LABEL, REGION_LABEL)
WORDS: Final = ("rack", "pool", "group", "instance-type", "row", "block")
"""Labels with these words in their names are first."""
READY: Final = "Ready"


def compute_layout(nodes: Sequence[Node], version: int) -> NodeLayout:
    """Describe nodes in the order in which their loads are sent."""
    resources = dict.fromkeys(name for node in nodes for name in node.allocatable)
    taints = [", ".join(taint.text for taint in node.taints) for node in nodes]
    return NodeLayout(
        version=version,
        names=[node.name for node in nodes],
        labels={key: _grouping(node.labels.get(key) for node in nodes) for key in dividing_labels(nodes)},
        allocatable={name: [node.allocatable.get(name, 0) for node in nodes] for name in resources},
        taints=_grouping(text or None for text in taints),
        cordoned=[row for row, node in enumerate(nodes) if node.spec.unschedulable],
        # A node without the condition is treated as ready.
        not_ready=[
            row
            for row, node in enumerate(nodes)
            if any(item.type == READY and item.status != "True" for item in node.status.conditions)
        ],
    )


def compute_load(nodes: NodeTable) -> NodeLoad:
    """Describe the usage of each row."""
    requested = nodes.requested
    return NodeLoad(
        requested={name: requested[name].tolist() for name in requested if name != "pods"},
        pods=nodes.pod_count.tolist(),
    )


def dividing_labels(nodes: Sequence[Node]) -> list[str]:
    """Choose the labels that divide nodes into a few groups: zones first, then racks and pools, then other labels."""
    values: dict[str, set[str]] = {}
    too_many: set[str] = {HOSTNAME_LABEL}
    for node in nodes:
        for key, text in node.labels.items():
            if key not in too_many:
                label_values = values.setdefault(key, set())
                label_values.add(text)
                if len(label_values) > MAX_GROUPS:
                    too_many.add(key)
                    del values[key]
    return sorted(values, key=lambda key: (_rank(key), len(values[key]) < 2, key))[:MAX_LABELS]


def _rank(key: str) -> int:
    if key in FIRST_LABELS:
        return FIRST_LABELS.index(key)
    name = key.rpartition("/")[2]
    return next((rank for rank, word in enumerate(WORDS, start=2) if word in name), 99)


def _grouping(texts: Iterable[str | None]) -> Grouping:
    codes: dict[str, int] = {}
    of = [-1 if text is None else codes.setdefault(text, len(codes)) for text in texts]
    return Grouping(values=list(codes), of=of)
