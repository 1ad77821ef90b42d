"""Fake nodes: their objects, and the leases that they renew."""

import re
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Create, Patch, RequeueAfter
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.kubelet import FAKE_LABEL, HOST_IP, is_silent
from moorage.cluster.controllers.node_lifecycle import LEASE_NAMESPACE
from moorage.common.errors import InputError, QuantityError, did_you_mean
from moorage.common.version import KUBERNETES
from moorage.kube.api.integers import to_int64
from moorage.kube.api.meta import KubeObject, format_micro_time, format_time, parse_time
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from moorage.kube.api.quantity import unit_value
from moorage.kube.api.records import Lease
from moorage.kube.api.struct import Data

_RESOURCES: Final = ("cpu", "memory", "pods", "ephemeral-storage")
MIN_INTERVAL: Final = 10.0
BEATS_PER_SECOND: Final = 50
"""Lease renewals of all nodes together: thousands of fake nodes must not overload the API server."""
LEASE_INTERVALS: Final = 4
CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """The resources of each node, and the number of zones.

    >>> NodeShape.parse("cpu=8,memory=32Gi,zones=3").zones
    3
    """

    resources: dict[str, str] = field(default_factory=lambda: {"cpu": "8", "memory": "32Gi", "pods": "110"})
    zones: int = 3

    @classmethod
    def parse(cls, text: str, *, where: str = "--shape") -> "NodeShape":
        """Parse a shape like ``cpu=8,memory=32Gi,nvidia.com/gpu=2,zones=3``. The rest keeps its defaults."""
        resources, zones = dict(cls().resources), cls().zones
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, is_there, amount = part.partition("=")
            if not is_there or not re.fullmatch(r"[A-Za-z0-9./_-]+", name):
                hint = "use a form such as cpu=8,memory=32Gi,pods=110,zones=3"
                raise InputError(where, f"{part!r} is not of the form RESOURCE=AMOUNT", hint=hint)
            if name == "zones":
                zones = -1 if (number := to_int64(amount)) is None else number
                if zones < 0:
                    hint = "write zones=3, or zones=0 to set no zones"
                    raise InputError(where, f"zones={amount} is not a number", hint=hint)
                continue
            if "/" not in name and name not in _RESOURCES and not name.startswith("hugepages-"):
                hint = did_you_mean(name, [*_RESOURCES, "zones"]) or "other resources have a domain: nvidia.com/gpu=2"
                raise InputError(where, f"{name}: unknown resource", hint=hint)
            try:
                if unit_value(amount) < 0:
                    raise InputError(where, f"{name}={amount} is negative")
            except QuantityError as error:
                hint = "write an amount such as 8, 500m or 32Gi"
                raise InputError(where, f"{name}={amount}: {amount!r} is not a quantity", hint=hint) from error
            resources[name] = amount
        return cls(resources, zones)


def fake_node(name: str, number: int, shape: NodeShape, now: float) -> Data:
    """Return the node object with which a fake kubelet registers."""
    labels = {HOSTNAME_LABEL: name, "kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", FAKE_LABEL: "true"}
    if shape.zones:
        labels[ZONE_LABEL] = f"zone-{number % shape.zones + 1}"
    identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": shape.resources,
            "allocatable": shape.resources,
            "conditions": conditions(now),
            "addresses": [{"type": "InternalIP", "address": HOST_IP}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            # Strict clients require all of these fields.
            "nodeInfo": {
                "machineID": identity.replace("-", ""),
                "systemUUID": identity,
                "bootID": identity,
                "kernelVersion": "0.0.0-fake",
                "osImage": "Moorage fake node",
                "containerRuntimeVersion": "fake://0.0.0",
                "kubeletVersion": KUBERNETES,
                "kubeProxyVersion": "",
                "operatingSystem": "linux",
                "architecture": "amd64",
            },
        },
    }


def conditions(now: float) -> list[Data]:
    """Return the conditions of a healthy node."""
    moment = format_time(now)
    return [
        {
            "type": kind,
            "status": status,
            "reason": reason,
            "message": message,
            "lastHeartbeatTime": moment,
            "lastTransitionTime": moment,
        }
        for kind, status, reason, message in CONDITIONS
    ]


class Heartbeats(BaseController):
    """Renews the leases of fake nodes, and resets them to ready after they were marked unreachable."""

    name = "heartbeats"
    kinds = (Node, Lease)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        return (obj.name,) if isinstance(obj, Node) else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Renew the lease of a node when it is due, and its conditions if it is not ready."""
        node, lease, now = cache[Node].get(key), cache[Lease].get(f"{LEASE_NAMESPACE}/{key}"), self._clock.now()
        if node is None or FAKE_LABEL not in node.labels or is_silent(node):
            return
        interval = max(MIN_INTERVAL, len(cache[Node]) / BEATS_PER_SECOND)
        if not any(item.type == "Ready" and item.status == "True" for item in node.status.conditions):
            yield Patch(node, {"status": {"conditions": conditions(now)}}, "status", if_unchanged=True)
        seconds = round(interval * LEASE_INTERVALS)
        renewed = {"holderIdentity": key, "leaseDurationSeconds": seconds, "renewTime": format_micro_time(now)}
        renewal = parse_time(lease.spec.renew_time) if lease is not None and lease.spec.renew_time else 0.0
        if renewal + interval > now:
            yield RequeueAfter(renewal + interval - now)
            return
        if lease is None:
            owner = {"apiVersion": "v1", "kind": "Node", "name": key, "uid": node.uid}
            metadata = {"name": key, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
            yield Create(Lease, {"metadata": metadata, "spec": renewed})
        else:
            yield Patch(lease, {"spec": renewed})
        yield RequeueAfter(interval)
