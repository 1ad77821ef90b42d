"""Scores by measured load: query a Prometheus server in the background and prefer the least loaded nodes."""

from collections.abc import Hashable

import msgspec

from moorage import (
    CycleState,
    DependsOn,
    Handle,
    NodeInfo,
    NodeTable,
    Pod,
    Polled,
    PreScorePlugin,
    ScorePlugin,
    ServiceError,
    Status,
    WebService,
)

UNMEASURED = 50


class LoadAwareArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The server, the query, and the label that names nodes in its results."""

    url: str = "http://prometheus.monitoring:9090"
    query: str = "instance:node_cpu_utilisation:rate5m"
    node_label: str = "instance"
    every_seconds: float = 15.0
    stale_seconds: float = 60.0


class LoadAware(PreScorePlugin, ScorePlugin):
    """Prefer nodes with little measured load; without a recent measurement, do not affect the decision."""

    Args = LoadAwareArgs
    depends_on = DependsOn.NODE

    def __init__(self, *, args: LoadAwareArgs, handle: Handle) -> None:
        self._args = args
        self._prometheus = WebService(args.url, where="pluginConfig of LoadAware, url")
        self._load = Polled(handle, self._fetch, name="load", every=args.every_seconds, stale_after=args.stale_seconds)

    async def start(self) -> None:
        """Query for the first time, and continue in the background."""
        await self._load.start()

    async def close(self) -> None:
        """Close the connection; the scheduler cancels the background task."""
        self._prometheus.close()

    async def _fetch(self) -> dict[str, float]:
        """Return the load of each node, from 0 (idle) to 1."""
        response = await self._prometheus.get_json("/api/v1/query", {"query": self._args.query})
        try:
            rows = [(row["metric"].get(self._args.node_label), row["value"][1]) for row in response["data"]["result"]]
            return {node: float(load) for node, load in rows if node and load != "NaN"}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ServiceError(f"the response to {self._args.query!r} is not one value per node: {error!r}") from error

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Skip this score without a recent measurement."""
        return None if self._load.value else Status.skip()

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Score the unused share of a node; a node without measurement gets a neutral score."""
        load = (self._load.value or {}).get(node.name)
        return UNMEASURED if load is None else round(100 * (1 - min(max(load, 0.0), 1.0)))

    def sign(self, pod: Pod) -> Hashable:
        """Score all pods alike: each node is scored once per measurement."""
        return ()

    def epoch(self) -> Hashable:
        """Discard cached scores when a measurement arrives or expires."""
        return self._load.epoch
