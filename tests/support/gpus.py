"""Builders for pods and nodes with GPUs."""

from collections.abc import Mapping

from msgspec.structs import replace

from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_DEVICES, GPU_MILLI, GPU_MODEL
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.testing import make_node, make_pod


def gpu_pod(
    name: str = "pod",
    *,
    gpus: int = 1,
    milli: int = 1000,
    models: str = "",
    cpu: int = 0,
    node: str = "",
    devices: str = "",
    more: Mapping[str, str] | None = None,
) -> Pod:
    """Build a pod that requests a share of GPUs; ``devices`` are already assigned, ``cpu`` is in thousandths."""
    pod = make_pod(name, uid=name, node=node, requests={"cpu": f"{cpu}m"} if cpu else {})
    annotations = {GPU_COUNT: str(gpus), GPU_MILLI: str(milli)} if gpus else {}
    annotations |= {GPU_MODEL: models} if models else {}
    annotations |= {GPU_DEVICES: devices} if devices else {}
    return replace(pod, metadata=replace(pod.metadata, annotations={**annotations, **(more or {})}))


def gpu_node(name: str = "node", *, gpus: int = 1, model: str = "", cpu: int = 96) -> Node:
    """Build a node with GPUs and CPUs."""
    has = {"cpu": cpu, GPU_COUNT: gpus, GPU_MILLI: 1000 * gpus}
    return make_node(name, labels={GPU_MODEL: model} if model else {}, allocatable=has)
