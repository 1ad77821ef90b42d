"""Marginals of the public GPU trace "openb" (2023): nodes by size, and frequencies of pod shapes.

The numbers are rounded, and adjusted until the published policies came close to the published results. They are meant
for experiments and are no evidence for that table. The trace itself is available from its publishers
(``moorage lab import openb``).
"""

from random import Random
from typing import Final

from moorage.kube.api.node import Node
from moorage.kube.api.quantity import Quantity
from moorage.lab.cluster import LabCluster
from moorage.lab.cluster_files import make_lab_node

NODES: Final = (
    *(("G2", 549, 96, 393_216, 8), ("T4", 387, 104, 524_288, 2), ("T4", 17, 96, 393_216, 4)),
    *(("P100", 22, 64, 262_144, 2), ("P100", 109, 16, 122_880, 2), ("P100", 3, 8, 61_440, 1)),
    *(("V100M16", 35, 32, 131_072, 4), ("V100M16", 5, 64, 262_144, 8), ("V100M16", 15, 8, 32_768, 1)),
    *(("G3", 39, 128, 786_432, 8), ("V100M32", 21, 96, 786_432, 8), ("V100M32", 9, 48, 376_832, 4)),
    ("A10", 2, 129, 524_288, 1),
)
"""Model, nodes, CPUs, MiB, GPUs: 1,213 nodes, 6,212 GPUs and 107,018 CPUs in all."""

WHOLE: Final = (
    *((3152, 5600, 108), (11400, 48128, 66), (9810, 41560, 68), (12000, 24576, 53), (18708, 64512, 49)),
    *((11300, 49152, 48), (16000, 32768, 26), (11908, 47104, 22), (8000, 16384, 19), (4000, 24576, 19)),
    *((15700, 58368, 12), (16400, 125_952, 10), (24200, 93184, 9), (8200, 33792, 8), (15200, 80896, 5)),
    *((11900, 43008, 2), (6000, 32768, 1)),
)
"""Pods on one whole GPU: milli-CPU, MiB, and how many of about a thousand pods."""
SHARED: Final = (
    *((3152, 5600, 810, 112), (8000, 30517, 470, 68), (11908, 47104, 470, 42), (11908, 47104, 650, 28)),
    *((4000, 30517, 320, 20), (6000, 18432, 460, 19), (4152, 10600, 550, 16), (8000, 30517, 320, 16)),
    *((3152, 5600, 590, 11), (4152, 10600, 370, 10), (4000, 15258, 220, 9), (4000, 15258, 230, 6)),
    *((1000, 2048, 320, 6), (4152, 10600, 810, 5), (8000, 30517, 650, 4), (6000, 22888, 160, 4)),
    *((4000, 15258, 160, 4), (8000, 30517, 220, 3), (4000, 15258, 110, 2), (4000, 15258, 480, 2)),
)
"""Pods on a part of one GPU: milli-CPU, MiB, thousandths, and how many."""
WITHOUT: Final = (
    *((12500, 57344, 48), (32000, 49152, 37), (8000, 30517, 19), (16500, 51200, 18), (15400, 51200, 12)),
    *((11400, 57344, 7), (16000, 31250, 2)),
)
"""Pods without GPUs: milli-CPU, MiB, and how many."""
SEVERAL: Final = (
    *((88000, 327_680, 8, 42), (64000, 262_144, 8, 12), (32200, 132_096, 4, 18), (17400, 43008, 2, 10)),
    *((30200, 160_768, 2, 10),),
)
"""Pods on several whole GPUs: milli-CPU, MiB, GPUs, and how many of about ten thousand pods."""


def openb_like_cluster(share: float = 1.0) -> LabCluster:
    """Make a cluster of such nodes, all or a share of each size; sizes come mixed, as names go by no order there."""
    sizes = [size for size in NODES for _ in range(max(1, round(size[1] * share)))]
    Random("openb").shuffle(sizes)
    return LabCluster("openb", tuple(_node(f"openb-{number:04}", *size) for number, size in enumerate(sizes)))


def _node(name: str, model: str, _count: int, cpu: int, memory: int, gpus: int) -> Node:
    allocatable: dict[str, Quantity] = {"cpu": str(cpu), "memory": f"{memory}Mi", "pods": 1000}
    return make_lab_node(name, allocatable, gpus=gpus, model=model, labels={}, numbers={})
