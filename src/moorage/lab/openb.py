"""The public GPU trace "openb" (2023): import of its files, and its marginals for generated traces and clusters.

The files are available from the publishers of the trace. The marginals are rounded, and adjusted until the published
policies were close to the published results. They are meant for experiments, not as evidence for that table.
"""

from pathlib import Path
from random import Random
from typing import Final

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.kube.api.gpu_sharing import WHOLE_GPU
from moorage.kube.api.quantity import Quantity
from moorage.lab.cluster import LabCluster, check_cluster, make_lab_node
from moorage.lab.formats import MOST_GPUS, check_unique_names, read_csv
from moorage.lab.trace import Trace, TracePod
from moorage.lab.trace_files import split_models

NODE_COLUMNS: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
SHORT_COLUMNS: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
POD_COLUMNS: Final = (
    *SHORT_COLUMNS,
    *("gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"),
)
"""Some lists have only the first five columns: their pods arrive at intervals of one second and never finish."""
MAX_PODS: Final = 1000
"""The trace has no pod limit per node, so the limit is high."""

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
"""Pods with one whole GPU: milli-CPU, MiB, frequency per thousand pods."""
SHARED: Final = (
    *((3152, 5600, 810, 112), (8000, 30517, 470, 68), (11908, 47104, 470, 42), (11908, 47104, 650, 28)),
    *((4000, 30517, 320, 20), (6000, 18432, 460, 19), (4152, 10600, 550, 16), (8000, 30517, 320, 16)),
    *((3152, 5600, 590, 11), (4152, 10600, 370, 10), (4000, 15258, 220, 9), (4000, 15258, 230, 6)),
    *((1000, 2048, 320, 6), (4152, 10600, 810, 5), (8000, 30517, 650, 4), (6000, 22888, 160, 4)),
    *((4000, 15258, 160, 4), (8000, 30517, 220, 3), (4000, 15258, 110, 2), (4000, 15258, 480, 2)),
)
"""Pods with a part of a GPU: milli-CPU, MiB, thousandths, frequency per thousand pods."""
WITHOUT: Final = (
    *((12500, 57344, 48), (32000, 49152, 37), (8000, 30517, 19), (16500, 51200, 18), (15400, 51200, 12)),
    *((11400, 57344, 7), (16000, 31250, 2)),
)
"""Pods without GPUs: milli-CPU, MiB, frequency per thousand pods."""
SEVERAL: Final = (
    *((88000, 327_680, 8, 42), (64000, 262_144, 8, 12), (32200, 132_096, 4, 18), (17400, 43008, 2, 10)),
    *((30200, 160_768, 2, 10),),
)
"""Pods with several whole GPUs: milli-CPU, MiB, GPUs, frequency per ten thousand pods."""


def make_openb_cluster(share: float = 1.0) -> LabCluster:
    """Build a cluster with all of these nodes, or a share of each size, in random order as in the trace."""
    sizes = [size for size in NODES for _ in range(max(1, round(size[1] * share)))]
    Random("openb").shuffle(sizes)
    nodes = (
        make_lab_node(
            f"openb-{number:04}",
            {"cpu": str(cpu), "memory": f"{memory}Mi", "pods": MAX_PODS},
            gpus=gpus,
            model=model,
        )
        for number, (model, _, cpu, memory, gpus) in enumerate(sizes)
    )
    return LabCluster("openb", tuple(nodes))


def import_nodes(path: Path, *, gpu_only: bool = True) -> LabCluster:
    """Read the nodes. Nodes without GPUs are omitted by default, as in the published experiments."""
    nodes = []
    for line in check_unique_names(read_csv(path, NODE_COLUMNS, NODE_COLUMNS), "sn", "node"):
        gpus = line.integer("gpu", most=MOST_GPUS)
        if gpus or not gpu_only:
            cpu, memory = f"{line.integer('cpu_milli')}m", f"{line.integer('memory_mib')}Mi"
            allocatable: dict[str, Quantity] = {"cpu": cpu, "memory": memory, "pods": MAX_PODS}
            nodes.append(make_lab_node(line.text("sn"), allocatable, gpus=gpus, model=line.text("model")))
    if gpu_only and not nodes:
        raise InputError(str(path), "no node has GPUs", hint="to include nodes without GPUs, add --all-nodes")
    return check_cluster(LabCluster("openb", tuple(nodes)), str(path))


def import_pods(path: Path) -> Trace:
    """Read the pods of either form of the list. Times count from the first arrival."""
    pods: list[TracePod] = []
    names: set[str] = set()
    for number, line in enumerate(read_csv(path, SHORT_COLUMNS, POD_COLUMNS)):
        name = line.text("name")
        if not name:
            raise InputError(line.at("name"), "the pod has no name")
        # Lists that are samples of another list contain some pods twice.
        unique = name if name not in names else f"{name}-again-{number}"
        names.add(unique)
        gpus, milli = line.integer("num_gpu", most=MOST_GPUS), line.integer("gpu_milli", 0)
        if gpus and not 0 < milli <= WHOLE_GPU:
            raise InputError(line.at("gpu_milli"), f"{milli} thousandths of each GPU", hint="write 1 to 1000")
        if gpus > 1 and milli != WHOLE_GPU:
            problem = f"{gpus} GPUs with {milli} thousandths of each"
            raise InputError(line.at("gpu_milli"), problem, hint="only a single GPU can be shared: write 1000")
        created = line.number("creation_time", float(number))
        scheduled = line.number("scheduled_time", created)
        deleted = line.number("deletion_time") if line.text("deletion_time") else None
        pods.append(
            TracePod(
                name=unique,
                arrives=created,
                runs=None if deleted is None else max(0.0, deleted - scheduled),
                cpu_milli=line.integer("cpu_milli"),
                memory_mib=line.integer("memory_mib"),
                gpus=gpus,
                gpu_milli=milli if gpus else 0,
                gpu_models=split_models(line.text("gpu_spec")),
                kind=line.text("qos"),
            )
        )
    if not pods:
        raise InputError(str(path), "there are no pods in the list", hint="check that the file is complete")
    first = min(pod.arrives for pod in pods)
    return Trace("openb", tuple(replace(pod, arrives=pod.arrives - first) for pod in pods))
