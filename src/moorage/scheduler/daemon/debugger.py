"""SIGUSR2: write cache and queue to the log, and compare them with the API server."""

import asyncio
from collections.abc import Iterator
from typing import Final

import structlog

from moorage.common.background import start_task
from moorage.common.errors import MoorageError
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.list_watch import UNFINISHED_PODS
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.queue.observer import Story

MAX_STORY: Final = 10

log = structlog.get_logger(__name__)


class Debugger:
    """Looks into a scheduler from outside. It changes nothing."""

    def __init__(self, scheduler: Scheduler, client: ApiClient, story: Story) -> None:
        self._scheduler = scheduler
        self._client = client
        self._story = story
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Dump and compare in the background."""
        if self._task is None or self._task.done():
            self._task = start_task(self.run(), "debugger")

    async def run(self) -> None:
        """Dump and compare. If the API server does not respond, skip the comparison."""
        self.dump()
        try:
            nodes = await self._client.list(Node)
            pods = await self._client.list(Pod, query=f"fieldSelector={UNFINISHED_PODS}")
        except MoorageError as error:
            log.warning("cache comparer: cannot read from the API server", error=str(error))
            return
        self.compare(nodes, pods)

    def dump(self) -> None:
        """Write every node with its pods, and every waiting pod with its story."""
        log.info("Dump of cached NodeInfo", nodes="\n".join(self._node_lines()))
        log.info("Dump of scheduling queue", pods="\n".join(self._queue_lines()))

    def compare(self, nodes: list[Node], pods: list[Pod]) -> None:
        """Log the differences between the API and the cache."""
        scheduler, table = self._scheduler, self._scheduler.cache.nodes
        infos = [table[row] for row in range(len(table))]
        self._report("nodes", {node.name for node in nodes}, {info.name for info in infos})
        in_api = {pod.key for pod in pods if pod.node_name or pod.scheduler_name in scheduler.runners}
        in_flight = {*scheduler.queue.in_flight()}
        in_cache = {
            *(pod.key for info in infos for pod in info.pods.values() if pod.uid not in scheduler.services.holds),
            *(queued.key for queued in scheduler.queue),
            *(pod.key for pod in scheduler.objects[Pod].list() if pod.uid in in_flight),
        }
        self._report("pods", in_api, in_cache)

    @staticmethod
    def _report(resource: str, in_api: set[str], in_cache: set[str]) -> None:
        missed, redundant = sorted(in_api - in_cache), sorted(in_cache - in_api)
        if missed or redundant:
            log.warning(f"cache mismatch in {resource}", missed=", ".join(missed), redundant=", ".join(redundant))
        else:
            log.info(f"cache comparer: {resource} agree with the API", count=len(in_api))

    def _node_lines(self) -> Iterator[str]:
        cache = self._scheduler.cache
        for row in range(len(cache.nodes)):
            info = cache.nodes[row]
            pods = " ".join(f"{pod.key}{' (assumed)' if cache.is_assumed(pod) else ''}" for pod in info.pods.values())
            nominated = " ".join(pod.key for pod in self._scheduler.queue.nominator.nominated_pods(info.name))
            yield f"{info.name}: requested {dict(info.requested)}, pods [{pods}], nominated [{nominated}]"

    def _queue_lines(self) -> Iterator[str]:
        queue = self._scheduler.queue
        for queued in queue:
            steps = self._story.of(queued.pod)[-MAX_STORY:]
            moves = " > ".join(f"{step.queue} ({step.event})" for step in steps)
            location, rejectors = queue.where(queued.pod), ",".join(sorted(queued.rejectors))
            yield f"{queued.key}: {location}, attempts {queued.attempts}, rejected by [{rejectors}]: {moves}"
