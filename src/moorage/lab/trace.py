"""A trace: which pods arrive when, what they ask for, how long they run, and which of them and which nodes fail."""

from typing import Any

from msgspec import Struct, field

from moorage.kube.api.quantity import Quantity
from moorage.lab.amounts import Amount, Count, GpuCount, Name, Priority


class TracePod(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of a trace: a pod that arrives; times are seconds from the beginning of the trace."""

    name: Name
    arrives: Amount = 0.0
    runs: Amount | None = None
    """How long it runs once it has a node; for ever, if that is not said."""
    cpu_milli: Count = 0
    memory_mib: Count = 0
    gpus: GpuCount = 0
    gpu_milli: Count = 0
    """How much of each of its GPUs it wants: 1000 is a whole one."""
    gpu_models: tuple[str, ...] = ()
    """Which models will do; any, if none is named."""
    kind: str = field(default="", name="class")
    """What waiting times are told apart by: a tenant, a quality of service, a kind of work."""
    priority: Priority = 0
    fails: Count = 0
    """How many of its runs fail before one succeeds: each time it comes back as a new pod."""
    namespace: str = "default"
    labels: dict[str, str] = {}
    requests: dict[str, Quantity] = {}
    """What else it asks for: extended resources."""
    spec: dict[str, Any] = {}
    """Other fields of a pod's spec: affinity, tolerations, spread constraints."""

    @property
    def gpu_asked(self) -> int:
        """How much of GPUs it asks for, in thousandths."""
        return self.gpus * self.gpu_milli


class NodeOutage(Struct, frozen=True, rename="camel", omit_defaults=True, forbid_unknown_fields=True):
    """One line of a trace: a node that is gone for a while; for good, if it does not say until when."""

    node: str
    down: Amount
    up: Amount | None = None


class Trace(Struct, frozen=True):
    """Everything that happens, in the order in which it was written down."""

    name: str
    pods: tuple[TracePod, ...]
    outages: tuple[NodeOutage, ...] = ()
