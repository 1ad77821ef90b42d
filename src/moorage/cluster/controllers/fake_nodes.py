"""Fake nodes: what they look like, and the leases that they renew."""

import re
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Create, Patch, RequeueAfter
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.kubelet import FAKE_LABEL, HOST_IP, is_silent
from moorage.cluster.controllers.node_lifecycle import LEASE_NAMESPACE
from moorage.common.clock import Clock
from moorage.common.errors import InputError, QuantityError
from moorage.kube.api.integers import to_int64
from moorage.kube.api.meta import KubeObject, format_micro_time, format_time, parse_time
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from moorage.kube.api.quantity import value
from moorage.kube.api.records import Lease
from moorage.kube.api.struct import Data

MIN_INTERVAL: Final = 10.0
BEATS_PER_SECOND: Final = 50
"""Of all nodes together: thousands of fake nodes should not keep the API server busy with saying that they live."""
LEASE_INTERVALS: Final = 4
CONDITIONS: Final = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)


@dataclass(frozen=True, slots=True)
class NodeShape:
    """What each node has, and over how many zones they are spread.

    >>> NodeShape.parse("cpu=8,memory=32Gi,zones=3").zones
    3
    """

    resources: dict[str, str] = field(default_factory=lambda: {"cpu": "8", "memory": "32Gi", "pods": "110"})
    zones: int = 3

    @classmethod
    def parse(cls, text: str) -> "NodeShape":
        """Read a shape like ``cpu=8,memory=32Gi,nvidia.com/gpu=2,zones=3``; what is left out stays as it is."""
        resources, zones = dict(cls().resources), cls().zones
        for part in filter(None, (piece.strip() for piece in text.split(","))):
            name, is_there, amount = part.partition("=")
            if not is_there or not re.fullmatch(r"[A-Za-z0-9./_-]+", name):
                hint = "write it like cpu=8,memory=32Gi,pods=110,zones=3"
                raise InputError("--shape", f"{part!r} is not a resource and an amount", hint=hint)
            if name == "zones":
                zones = _zones(amount)
            else:
                resources[name] = _amount(name, amount)
        return cls(resources, zones)


def _zones(text: str) -> int:
    zones = to_int64(text)
    if zones is None or zones < 0:
        raise InputError("--shape", f"zones={text} is not a number", hint="write zones=3, or zones=0 for none")
    return zones


def _amount(name: str, text: str) -> str:
    try:
        amount = value(text)
    except QuantityError as error:
        raise InputError("--shape", f"{name}={text}: {error}", hint="write an amount like 8, 500m or 32Gi") from error
    if amount < 0:
        raise InputError("--shape", f"{name}={text} is negative")
    return text


def fake_node(name: str, number: int, shape: NodeShape, now: float) -> Data:
    """Describe the node of a fake kubelet, as it registers itself."""
    labels = {
        HOSTNAME_LABEL: name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        FAKE_LABEL: "true",
    }
    if shape.zones:
        labels[ZONE_LABEL] = f"zone-{number % shape.zones + 1}"
    return {
        "metadata": {"name": name, "labels": labels},
        "spec": {},
        "status": {
            "capacity": shape.resources,
            "allocatable": shape.resources,
            "conditions": conditions(now),
            "addresses": [{"type": "InternalIP", "address": HOST_IP}, {"type": "Hostname", "address": name}],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": _system(name),
        },
    }


def _system(name: str) -> Data:
    """Say what a node is made of; clients that check what they read count on every one of these."""
    identity = str(uuid.uuid5(uuid.NAMESPACE_DNS, name))
    return {
        "machineID": identity.replace("-", ""),
        "systemUUID": identity,
        "bootID": identity,
        "kernelVersion": "0.0.0-fake",
        "osImage": "Moorage fake node",
        "containerRuntimeVersion": "fake://0.0.0",
        "kubeletVersion": "v1.37.1",
        "kubeProxyVersion": "",
        "operatingSystem": "linux",
        "architecture": "amd64",
    }


def conditions(now: float) -> list[Data]:
    """Return what a healthy node says of itself."""
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


class Heartbeats:
    """Renews the leases of fake nodes, and has them say that they are ready when they were given up."""

    name = "heartbeats"
    kinds = (Node, Lease)
    pause = 0.0

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Look at a fake node when it comes or changes; changes of its own lease are ignored."""
        return (obj.name,) if isinstance(obj, Node) else ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Renew the lease of a node when it is time."""
        node = cache[Node].get(key)
        if node is None or FAKE_LABEL not in node.labels or is_silent(node):
            return ()
        interval = max(MIN_INTERVAL, len(cache[Node]) / BEATS_PER_SECOND)
        return beat(node, cache[Lease].get(f"{LEASE_NAMESPACE}/{key}"), interval, self._clock.now())


def beat(node: Node, lease: Lease | None, interval: float, now: float) -> Iterator[ControllerAction]:
    """Decide how a node shows that it lives."""
    ready = next((condition for condition in node.status.conditions if condition.type == "Ready"), None)
    if ready is None or ready.status != "True":
        yield Patch(node, {"status": {"conditions": conditions(now)}}, "status", if_unchanged=True)
    seconds = round(interval * LEASE_INTERVALS)
    renewed = {"holderIdentity": node.name, "leaseDurationSeconds": seconds, "renewTime": format_micro_time(now)}
    if lease is None:
        owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": node.uid}
        metadata = {"name": node.name, "namespace": LEASE_NAMESPACE, "ownerReferences": [owner]}
        yield Create(Lease, {"metadata": metadata, "spec": renewed})
        yield RequeueAfter(interval)
        return
    due = (parse_time(lease.spec.renew_time) if lease.spec.renew_time else 0.0) + interval
    if due <= now:
        yield Patch(lease, {"spec": renewed})
        yield RequeueAfter(interval)
    else:
        yield RequeueAfter(due - now)
