"""Records a live cluster as a trace, from watches of pods and nodes. The cluster is only read."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from moorage.common.clock import Clock
from moorage.contrib import readable_demand
from moorage.kube.api.codec import encode
from moorage.kube.api.gpu_sharing import GPU_COUNT, GPU_MILLI
from moorage.kube.api.kinds import Kind
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodSpec
from moorage.kube.client.informer import Informers
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import ApiClient
from moorage.lab.formats import report_unwritable
from moorage.lab.trace import NodeOutage, Trace, TracePod

PLACEMENT_FIELDS: Final = (
    "node_selector",
    "affinity",
    "tolerations",
    "topology_spread_constraints",
    "preemption_policy",
)
"""The fields of a spec that affect placement, in addition to requests."""
MIB: Final = 1 << 20


class RecordedPod:
    """The recorded times of a pod: creation, binding, end."""

    __slots__ = ("arrived", "bound", "ended", "pod")

    def __init__(self, pod: Pod, arrived: float) -> None:
        self.pod, self.arrived = pod, arrived
        self.bound: float | None = None
        self.ended: float | None = None


class TraceRecorder:
    """Builds a trace from changes; pods that exist at the start arrive at time 0."""

    def __init__(self, clock: Clock, class_label: str = "") -> None:
        self._clock = clock
        self._start = clock.now()
        self._class_label = class_label
        self._pods: dict[str, RecordedPod] = {}
        self._down: dict[str, float] = {}
        self._outages: list[NodeOutage] = []
        self.nodes: dict[str, Node] = {}
        """All observed nodes in their last state."""

    def on_changes(self, _kind: Kind, changes: Sequence[Change[Any]]) -> None:
        """Record changes from an informer."""
        now = self._clock.now() - self._start
        for change in changes:
            if isinstance(change.after or change.before, Node):
                node = change.after or change.before
                assert node is not None
                self.nodes[node.name] = node
                is_up = change.after is not None and _is_ready(change.after)
                if not is_up and node.name not in self._down:
                    self._down[node.name] = now
                elif is_up and node.name in self._down:
                    self._outages.append(NodeOutage(node.name, round(self._down.pop(node.name), 3), round(now, 3)))
            else:
                self._pod(change.before, change.after, now)

    def begin(self) -> None:
        """Set time 0, after the existing objects have been listed."""
        self._start = self._clock.now()
        for record in self._pods.values():
            record.arrived = 0.0
            record.bound = 0.0 if record.pod.node_name else None

    def _pod(self, before: Pod | None, after: Pod | None, now: float) -> None:
        pod = after or before
        assert pod is not None
        record = self._pods.get(pod.uid)
        if record is None:
            if pod.is_finished or after is None:
                return
            record = self._pods[pod.uid] = RecordedPod(pod, now)
        record.pod = pod
        if pod.node_name and record.bound is None:
            record.bound = now
        if (after is None or pod.is_finished) and record.ended is None:
            record.ended = now

    def trace(self, name: str) -> Trace:
        """Return the recorded trace; pods that still run have no end."""
        names: set[str] = set()
        lines: list[TracePod] = []
        for record in sorted(self._pods.values(), key=lambda record: (record.arrived, record.pod.key)):
            if record.bound is None and record.ended is not None:
                continue  # deleted before it got a node, so its duration is unknown
            line = make_line(record.pod, self._class_label)
            unique = line.name if line.name not in names else f"{line.name}-{len(lines)}"
            names.add(unique)
            runs = None if record.ended is None or record.bound is None else round(record.ended - record.bound, 3)
            lines.append(replace(line, name=unique, arrives=round(record.arrived, 3), runs=runs))
        open_outages = [NodeOutage(node, round(start, 3)) for node, start in self._down.items()]
        return Trace(name, tuple(lines), (*self._outages, *open_outages))


def _is_ready(node: Node) -> bool:
    ready = next((item for item in node.status.conditions if item.type == "Ready"), None)
    return ready is None or ready.status == "True"


def make_line(pod: Pod, class_label: str = "") -> TracePod:
    """Return the trace line of a pod, without times."""
    demand, requests = readable_demand(pod), dict(pod.requests)
    fields = {field: getattr(pod.spec, field) for field in PLACEMENT_FIELDS}
    for name in (GPU_COUNT, GPU_MILLI) if demand is not None else ():
        requests.pop(name, None)
    return TracePod(
        name=pod.name,
        namespace=pod.namespace,
        cpu_milli=requests.pop("cpu", 0),
        memory_mib=-(-requests.pop("memory", 0) // MIB),
        gpus=demand.count if demand is not None else 0,
        gpu_milli=demand.milli if demand is not None else 0,
        gpu_models=demand.models if demand is not None else (),
        kind=pod.labels.get(class_label, "") if class_label else pod.namespace,
        priority=max(0, pod.priority),
        labels=dict(pod.labels),
        requests={**requests},
        spec=msgspec.json.decode(msgspec.json.encode(PodSpec(**fields))),
    )


async def record(client: ApiClient, recorder: TraceRecorder, stop: asyncio.Event, seconds: float | None) -> None:
    """Record nodes and pods until the stop event, or for this number of seconds after the first list."""
    informers = Informers(client, (Node, Pod), recorder.on_changes)
    watch_task = asyncio.create_task(informers.run(), name="recording")
    sync_task = asyncio.create_task(informers.synced())
    stop_task = asyncio.create_task(stop.wait())
    try:
        await asyncio.wait((watch_task, sync_task, stop_task), return_when=asyncio.FIRST_COMPLETED)
        recorder.begin()
        if not watch_task.done():
            await asyncio.wait((watch_task, stop_task), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if watch_task.done():
            watch_task.result()
    finally:
        for task in (watch_task, sync_task, stop_task):
            task.cancel()
        await asyncio.gather(watch_task, sync_task, stop_task, return_exceptions=True)


def write_nodes(path: Path, nodes: Sequence[Node]) -> None:
    """Write nodes as a list of Kubernetes objects, without conditions and images: a cluster file of the lab."""
    items = [encode(replace(node, status=replace(node.status, conditions=(), images=()))) for node in nodes]
    content = {"apiVersion": "v1", "kind": "List", "items": items}
    with report_unwritable(path):
        path.write_bytes(msgspec.json.format(msgspec.json.encode(content), indent=1) + b"\n")
