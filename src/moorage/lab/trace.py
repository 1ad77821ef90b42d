"""A trace: arrivals, requests and durations of pods, and failures of pods and nodes."""

from typing import Any

from msgspec import Struct, field

from moorage.kube.api.quantity import Quantity
from moorage.lab.amounts import Amount, Count, GpuCount, Name, Priority


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
    """How much of each of its GPUs it wants: 1000 is a whole one."""
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
    def gpu_asked(self) -> int:
        """GPU request in thousandths."""
        return self.gpus * self.gpu_milli


class NodeOutage(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of a trace: the failure of a node; permanent without an end."""

    node: str
    down: Amount
    up: Amount | None = None


class Trace(Struct, frozen=True):
    """Everything that happens, in the order in which it was written down."""

    name: str
    pods: tuple[TracePod, ...]
    outages: tuple[NodeOutage, ...] = ()
