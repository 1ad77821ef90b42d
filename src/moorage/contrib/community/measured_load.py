"""Measured utilization of nodes from a load watcher or a Prometheus server, as columns."""

import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, Final

import numpy as np
from msgspec import Struct

from moorage.common.errors import ServiceError
from moorage.kube.api.meta import parse_time
from moorage.kube.api.pod import Pod
from moorage.kube.http.tls import ClientTls
from moorage.kube.http.web_service import WebService
from moorage.scheduler.config.contrib_args import PROMETHEUS, LoadArgs
from moorage.scheduler.framework.columns import Growing
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import PreScorePlugin
from moorage.scheduler.framework.polling import Polled
from moorage.scheduler.framework.status import Status
from moorage.scheduler.state.side_columns import SideColumns

EVERY: Final = 30.0
STALE_AFTER: Final = 300.0
"""Age in seconds after which measurements are ignored."""
WINDOW: Final = "15m"

QUERIES: Final = {
    "cpu": f"avg_over_time(instance:node_cpu:ratio[{WINDOW}])",
    "cpu_deviation": f"stddev_over_time(instance:node_cpu:ratio[{WINDOW}])",
    "memory": f"avg_over_time(instance:node_memory_utilisation:ratio[{WINDOW}])",
    "memory_deviation": f"stddev_over_time(instance:node_memory_utilisation:ratio[{WINDOW}])",
}
"""The Prometheus queries: the rules of the node exporter's mixin, as load watchers use them."""

_AVERAGE: Final = ("AVG", "Latest", "")
_DEVIATION: Final = "STD"
_KINDS: Final = {"CPU": "cpu", "Memory": "memory"}


class MeasuredLoad(Struct, frozen=True):
    """The measurements of a node in percent, or ``None`` if missing."""

    cpu: float | None = None
    cpu_deviation: float | None = None
    memory: float | None = None
    memory_deviation: float | None = None


class Measurements(Struct, frozen=True):
    """The measurements of all nodes, and their end time."""

    nodes: dict[str, MeasuredLoad]
    until: float


class LoadSource:
    """Polls measurements in the background."""

    def __init__(self, handle: Handle, args: LoadArgs, plugin: str) -> None:
        self._handle = handle
        self._is_prometheus = not args.watcher_address
        where = f"pluginConfig of {plugin}"
        if self._is_prometheus:
            provider = args.metric_provider
            assert provider.type == PROMETHEUS, "the configuration was checked"
            headers = {"Authorization": f"Bearer {provider.token}"} if provider.token else {}
            verifies = provider.insecure_skip_verify is False
            tls = ClientTls(where, verifies=verifies) if provider.address.startswith("https:") else None
            field_path = f"{where}, metricProvider.address"
            self._service = WebService(provider.address, headers=headers, tls=tls, where=field_path)
        else:
            self._service = WebService(args.watcher_address, where=f"{where}, watcherAddress")
        self.polled: Polled[Measurements] = Polled(
            handle, self._fetch, name="load", every=EVERY, stale_after=STALE_AFTER, timeout=20.0
        )

    def close(self) -> None:
        self._service.close()

    async def _fetch(self) -> Measurements:
        if self._is_prometheus:
            until = self._handle.clock.wall()
            series = {measure: await self._query(query) for measure, query in QUERIES.items()}
            return Measurements(_by_node(series), until)
        return from_watcher(await self._service.get_json("/watcher"))

    async def _query(self, query: str) -> dict[str, float]:
        answer = await self._service.get_json("/api/v1/query", {"query": query})
        try:
            return dict(_row(row) for row in answer["data"]["result"])
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            raise ServiceError(f"the response to {query!r} is not one value per node: {error!r}") from error


def _row(row: Any) -> tuple[str, float]:
    labels = row["metric"]
    # The label `instance` is an address. Its port is not part of the node's name.
    name = labels.get("node") or str(labels["instance"]).rpartition(":")[0] or labels["instance"]
    return str(name), 100.0 * float(row["value"][1])


def _by_node(series: Mapping[str, Mapping[str, float]]) -> dict[str, MeasuredLoad]:
    names = {name for values in series.values() for name in values}
    return {
        name: MeasuredLoad(
            **{measure: value for measure, values in series.items() if _is_sound(value := values.get(name))}
        )
        for name in names
    }


def from_watcher(answer: Any) -> Measurements:
    """Parse the response of a load watcher. Skip invalid numbers. Raise ServiceError if it has another format."""
    try:
        until = float(answer["window"]["end"])
        metrics_by_node = answer["data"]["NodeMetricsMap"]
        nodes = {str(name): _node_load(metrics["metrics"]) for name, metrics in metrics_by_node.items()}
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ServiceError(f"invalid response of the load watcher: {error!r}") from error
    return Measurements(nodes, until if math.isfinite(until) else 0.0)


def _node_load(metrics: Iterable[Mapping[str, Any]]) -> MeasuredLoad:
    loads: dict[str, float] = {}
    for metric in metrics or ():
        kind, operator, value = _KINDS.get(metric.get("type", "")), metric.get("operator", ""), metric.get("value", 0)
        if kind is None or isinstance(value, bool) or not _is_sound(value):
            continue
        if operator == _DEVIATION:
            loads[f"{kind}_deviation"] = float(value)
        elif operator in _AVERAGE:
            loads.setdefault(kind, float(value))
            if operator == "AVG":
                loads[kind] = float(value)
    return MeasuredLoad(**loads)


def _is_sound(value: object) -> bool:
    return isinstance(value, int | float) and math.isfinite(value) and 0 <= value < 1e9


class LoadPlugin(PreScorePlugin):
    """Base class of plugins that score measured load. They are skipped without a recent measurement."""

    def __init__(self, *, args: LoadArgs, handle: Handle) -> None:
        self._source = LoadSource(handle, args, self.name)

    async def start(self) -> None:
        await self._source.polled.start()

    async def close(self) -> None:
        self._source.close()

    def epoch(self) -> Hashable:
        return self._source.polled.epoch

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        return None if self._source.polled.value is not None else Status.skip()


class LoadColumns(SideColumns):
    """One number per row, computed from the measurements of a node and its pods.

    A subclass defines the numbers in :meth:`compute_numbers`. A node without measurements has ``NaN``.
    """

    names: tuple[str, ...] = ()

    def __init__(self, handle: Handle, polled: Polled[Measurements]) -> None:
        super().__init__(handle.nodes, {})
        self._polled = polled
        self._epoch: object = None
        self._columns = [Growing(np.float64) for _ in self.names]

    def compute_numbers(self, info: NodeInfo, measured: Measurements) -> tuple[float, ...]:
        """Return the numbers of a node, one for each name."""
        raise NotImplementedError

    def write(self, info: NodeInfo) -> None:
        for column, number in zip(self._columns, self.of(info), strict=True):
            column.put(info.row, number)

    def of(self, info: NodeInfo) -> tuple[float, ...]:
        """Return the numbers of a node, possibly a changed copy."""
        measured = self._polled.value
        return (math.nan,) * len(self.names) if measured is None else self.compute_numbers(info, measured)

    def through(self, nodes: NodeTable) -> "list[np.ndarray[Any, np.dtype[np.float64]]]":
        """Return the numbers of a window of nodes."""
        if not nodes.is_window_of(self._nodes):
            rows = [self.of(info) for info in nodes]
            return [np.array([row[at] for row in rows], dtype=np.float64) for at in range(len(self.names))]
        if self._epoch != self._polled.epoch:
            self._epoch, self._position = self._polled.epoch, -1
        self.refresh()
        return [nodes.through(column) for column in self._columns]


def scheduling_time(pod: Pod) -> float:
    """Return when a pod was scheduled, or infinity if it is not bound yet."""
    condition = pod.condition("PodScheduled")
    scheduled = None if condition is None or condition.status != "True" else condition.last_transition_time
    return math.inf if scheduled is None else parse_time(scheduled)
