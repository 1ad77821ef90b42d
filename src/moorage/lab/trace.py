"""A trace: arrivals, requests and durations of pods, and failures of pods and nodes; also builds the pods."""

from typing import Any

import msgspec
from msgspec import Struct, field

from moorage.kube.api.codec import convert
from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI, GPU_MODEL
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodSpec
from moorage.kube.api.quantity import Quantity
from moorage.lab.formats import Amount, Count, GpuCount, Name, Priority


class TracePod(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of a trace: a pod that arrives; times are seconds from the beginning of the trace."""

    name: Name
    arrives: Amount = 0.0
    runs: Amount | None = None
    """Duration after binding; endless by default."""
    cpu_milli: Count = 0
    memory_mib: Count = 0
    gpus: GpuCount = 0
    gpu_milli: Count = 0
    """Requested part of each GPU, in thousandths."""
    gpu_models: tuple[str, ...] = ()
    """Accepted GPU models; any by default."""
    kind: str = field(default="", name="class")
    """Class for waiting times: a tenant, a quality of service, a kind of workload."""
    priority: Priority = 0
    fails: Count = 0
    """Number of failed runs before one succeeds; each failure is followed by a new pod."""
    namespace: str = "default"
    labels: dict[str, str] = {}
    requests: dict[str, Quantity] = {}
    """Additional requests: extended resources."""
    spec: dict[str, Any] = {}
    """Other fields of a pod's spec: affinity, tolerations, spread constraints."""

    @property
    def gpu_request(self) -> int:
        """GPU request in thousandths."""
        return self.gpus * self.gpu_milli


class NodeOutage(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of a trace: the failure of a node; permanent without an end."""

    node: str
    down: Amount
    up: Amount | None = None


class Trace(Struct, frozen=True):
    """The pods and outages of a trace, in the order of its lines."""

    name: str
    pods: tuple[TracePod, ...]
    outages: tuple[NodeOutage, ...] = ()


class PodMaker:
    """Builds the pods that an API server would store.

    Pods with equal requests share one spec, which saves memory and time.
    """

    def __init__(self) -> None:
        self._specs: dict[object, tuple[PodSpec, dict[str, str]]] = {}

    def make(self, line: TracePod, lost_runs: int = 0) -> Pod:
        """Build the pod of a line, or its replacement after lost runs."""
        more = msgspec.json.encode((line.requests, line.spec)) if line.requests or line.spec else b""
        key = (line.cpu_milli, line.memory_mib, line.gpus, line.gpu_milli, line.gpu_models, line.priority, more)
        shared = self._specs.get(key)
        if shared is None:
            shared = self._specs[key] = (make_spec(line), _gpu_annotations(line))
        name = f"{line.name}-{lost_runs}" if lost_runs else line.name
        metadata = ObjectMeta(
            name=name,
            namespace=line.namespace,
            uid=f"{line.namespace}/{name}",
            resource_version="1",
            labels=line.labels,
            annotations=shared[1],
        )
        return Pod(metadata=metadata, spec=shared[0])


def make_spec(line: TracePod) -> PodSpec:
    """Return the spec of a pod: one container with its requests, and other fields of its line."""
    requests = {**line.requests}
    if line.cpu_milli:
        requests["cpu"] = f"{line.cpu_milli}m"
    if line.memory_mib:
        requests["memory"] = f"{line.memory_mib}Mi"
    if line.gpu_request:
        requests[GPU_MILLI] = line.gpu_request
    container = Container(name="main", resources=ResourceRequirements(requests=requests))
    base = convert(PodSpec, line.spec) if line.spec else PodSpec()
    return msgspec.structs.replace(base, containers=(container, *base.containers), priority=line.priority or None)


def _gpu_annotations(line: TracePod) -> dict[str, str]:
    if not line.gpus:
        return {}
    annotations = {GPU_COUNT: str(line.gpus), GPU_MILLI: str(line.gpu_milli)}
    return annotations | ({GPU_MODEL: "|".join(line.gpu_models)} if line.gpu_models else {})
