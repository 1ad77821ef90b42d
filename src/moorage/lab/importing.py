"""The public GPU trace "openb" (2023) as a trace and a cluster of ours; its files are its publishers' to give away."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from moorage.common.errors import InputError
from moorage.kube.api.node import Node
from moorage.kube.api.quantity import Quantity
from moorage.lab.amounts import MOST_GPUS
from moorage.lab.cluster import LabCluster
from moorage.lab.cluster_files import checked, make_lab_node
from moorage.lab.lines import CsvLine, read_csv, with_own_names
from moorage.lab.trace import Trace, TracePod
from moorage.lab.trace_files import models_of

NODES: Final = ("sn", "cpu_milli", "memory_mib", "gpu", "model")
SHORT: Final = ("name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
PODS: Final = (
    *SHORT,
    *("gpu_spec", "qos", "pod_phase", "creation_time", "deletion_time", "scheduled_time"),
)
"""Some lists of pods have only the first five columns: their pods come a second apart and stay."""
MAX_PODS: Final = 1000
"""The trace has no pod limit per node, so the limit is high."""


def import_nodes(path: Path, *, gpu_only: bool = True) -> LabCluster:
    """Read the nodes; those without GPUs are left out, as the published experiments do."""
    lines = with_own_names(read_csv(path, NODES, NODES), "sn", "node")
    nodes = tuple(_node(line) for line in lines if not gpu_only or line.integer("gpu", most=MOST_GPUS))
    if gpu_only and not nodes:
        raise InputError(str(path), "no node has GPUs", hint="to keep nodes without, write --all-nodes")
    return checked(LabCluster("openb", nodes), str(path))


def _node(line: CsvLine) -> Node:
    allocatable: dict[str, Quantity] = {
        "cpu": f"{line.integer('cpu_milli')}m",
        "memory": f"{line.integer('memory_mib')}Mi",
        "pods": MAX_PODS,
    }
    gpus = line.integer("gpu", most=MOST_GPUS)
    return make_lab_node(line.text("sn"), allocatable, gpus=gpus, model=line.text("model"), labels={}, numbers={})


def import_pods(path: Path) -> Trace:
    """Read the pods of either form of the list; times count from the first arrival."""
    pods = list(_with_own_names(_pods(path)))
    if not pods:
        raise InputError(str(path), "there are no pods in the list", hint="is this the whole file?")
    first = min(pod.arrives for pod in pods)
    return Trace("openb", tuple(replace(pod, arrives=pod.arrives - first) for pod in pods))


def _with_own_names(pods: Iterable[TracePod]) -> Iterator[TracePod]:
    """Number pods whose name was there before: lists that were drawn from another may have a pod more than once."""
    names: set[str] = set()
    for number, pod in enumerate(pods):
        name = pod.name if pod.name not in names else f"{pod.name}-again-{number}"
        names.add(name)
        yield pod if name == pod.name else replace(pod, name=name)


def _pods(path: Path) -> Iterator[TracePod]:
    for number, line in enumerate(read_csv(path, SHORT, PODS)):
        if not line.text("name"):
            raise InputError(line.at("name"), "the pod has no name")
        gpus, milli = line.integer("num_gpu", most=MOST_GPUS), line.integer("gpu_milli", 0)
        if gpus and not 0 < milli <= 1000:
            raise InputError(line.at("gpu_milli"), f"{milli} thousandths of each GPU", hint="write 1 to 1000")
        if gpus > 1 and milli != 1000:
            problem = f"{gpus} GPUs, and {milli} thousandths of each"
            raise InputError(line.at("gpu_milli"), problem, hint="only one GPU can be shared: write 1000")
        created = line.number("creation_time", float(number))
        began = line.number("scheduled_time", created)
        deletion_time = line.number("deletion_time") if line.text("deletion_time") else None
        yield TracePod(
            name=line.text("name"),
            arrives=created,
            runs=None if deletion_time is None else max(0.0, deletion_time - began),
            cpu_milli=line.integer("cpu_milli"),
            memory_mib=line.integer("memory_mib"),
            gpus=gpus,
            gpu_milli=milli if gpus else 0,
            gpu_models=models_of(line.text("gpu_spec")),
            kind=line.text("qos"),
        )
