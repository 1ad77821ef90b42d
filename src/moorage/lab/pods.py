"""From the lines of a trace to the pods that an API server would have stored."""

import msgspec

from moorage.kube.api.codec import convert
from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodSpec
from moorage.lab.trace import TracePod

NO_ANNOTATIONS: dict[str, str] = {}


class PodMaker:
    """Builds pods; pods with equal requests share one spec, which saves memory and time."""

    def __init__(self) -> None:
        self._specs: dict[object, tuple[PodSpec, dict[str, str]]] = {}

    def make(self, line: TracePod, times: int = 0) -> Pod:
        """Build the pod of a line, or its replacement after this number of lost runs."""
        spec, annotations = self._spec(line)
        name = f"{line.name}-{times}" if times else line.name
        metadata = ObjectMeta(
            name=name,
            namespace=line.namespace,
            uid=f"{line.namespace}/{name}",
            resource_version="1",
            labels=line.labels,
            annotations=annotations,
        )
        return Pod(metadata=metadata, spec=spec)

    def _spec(self, line: TracePod) -> tuple[PodSpec, dict[str, str]]:
        more = msgspec.json.encode((line.requests, line.spec)) if line.requests or line.spec else b""
        key = (line.cpu_milli, line.memory_mib, line.gpus, line.gpu_milli, line.gpu_models, line.priority, more)
        spec = self._specs.get(key)
        if spec is None:
            spec = self._specs[key] = (spec_of(line), gpu_annotations(line))
        return spec


def spec_of(line: TracePod) -> PodSpec:
    """Return the spec of a pod: one container with its requests, and other fields of its line."""
    requests = {**line.requests}
    if line.cpu_milli:
        requests["cpu"] = f"{line.cpu_milli}m"
    if line.memory_mib:
        requests["memory"] = f"{line.memory_mib}Mi"
    if line.gpu_asked:
        requests[GPU_MILLI] = line.gpu_asked
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    base = convert(PodSpec, line.spec) if line.spec else PodSpec()
    return msgspec.structs.replace(base, containers=(container, *base.containers), priority=line.priority or None)


def gpu_annotations(line: TracePod) -> dict[str, str]:
    """Return the GPU annotations of a pod; empty without GPUs."""
    if not line.gpus:
        return NO_ANNOTATIONS
    annotations = {GPU_COUNT: str(line.gpus), GPU_MILLI: str(line.gpu_milli)}
    return annotations | ({GPU_MODEL: "|".join(line.gpu_models)} if line.gpu_models else {})
