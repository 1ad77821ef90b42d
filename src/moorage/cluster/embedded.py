"""The embedded cluster: nodes, controllers, fake kubelets and a scheduler on an API server."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import structlog

from moorage.cluster.absent_objects import find_absent_owners, order_by_ownership
from moorage.cluster.applying import Applier
from moorage.cluster.controllers.actions import Create, build_request
from moorage.cluster.controllers.builtin_controllers import cluster_controllers, kubelet_controllers
from moorage.cluster.controllers.fake_nodes import NodeShape, fake_node
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.kubelet import FAIL, FAKE_LABEL, KubeletPace
from moorage.cluster.controllers.manager import Controller, ControllerManager
from moorage.common.clock import Clock
from moorage.common.errors import AlreadyExists, MoorageError
from moorage.common.observers import Observer
from moorage.kube.api.node import HOSTNAME_LABEL, Node
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.client.rest import ApiClient
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import Document
from moorage.scheduler.wiring.assembly import ApiConnection, Tuning, assemble
from moorage.scheduler.wiring.policy import Policy, keep_fixed_fields
from moorage.scheduler.wiring.reload import reload

Connect = Callable[[], ApiClient]

DRAIN_SECONDS: Final = 5.0
EVENT_SECONDS: Final = 1.0
SEEN_INTERVAL: Final = 0.02

log = structlog.get_logger(__name__)


class RunningScheduler:
    """One scheduler. :meth:`run` runs until it is cancelled."""

    def __init__(
        self,
        connect: Connect,
        clock: Clock,
        policy: Policy,
        *,
        cross_check: bool = False,
        observers: Sequence[Observer] = (),
    ) -> None:
        self._api = ApiConnection(connect(), connect(), clock, policy.config.client_connection)
        tuning = Tuning(cross_check=cross_check)
        self._parts = assemble(policy, self._api, clock, observers=observers, tuning=tuning)
        self.scheduler = self._parts.scheduler

    async def reload(self, policy: Policy) -> list[str]:
        """Switch to another policy. Return the configuration fields that cannot change at run time."""
        usable, differing = keep_fixed_fields(policy, self.scheduler.profiles.config)
        await reload(self._parts, usable)
        return differing

    def failure(self) -> Exception | None:
        """Return the first internal error of an attempt: an unexpected exception or a wrong cached result."""
        if self.scheduler.unexpected is not None:
            return self.scheduler.unexpected
        checks = (runner.filtering.cross_check for runner in self.scheduler.runners.values())
        return next((check.first for check in checks if check is not None and check.first is not None), None)

    async def run(self) -> None:
        """List and watch, then schedule until cancelled. Pending work is finished."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._api.informers.run(), name="scheduler's informers")
                group.create_task(self._api.recorder.run(), name="event series")
                await self._api.informers.synced()
                async with self._parts.changing:
                    await self.scheduler.lifecycle.start()
                    self._parts.deliveries.start_through_loop()
                await self._parts.loop.run()
        except BaseExceptionGroup as group:
            # Report a single message. The failed task is not relevant to users.
            # The first MoorageError has the message for the user.
            error: BaseException | None = group.subgroup(MoorageError)
            while isinstance(error, BaseExceptionGroup):
                error = error.exceptions[0]
            raise (error or group) from group
        finally:
            await self._finish()
            self._parts.close()

    async def _finish(self) -> None:
        """Finish pending bindings, status patches and events, with a timeout."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._parts.background.drain()
        except TimeoutError:
            log.info("shutdown timed out with pending work", tasks=len(self._parts.background))
        await self.scheduler.lifecycle.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(EVENT_SECONDS):
                await self._api.recorder.flush()


AT_ONCE: Final = 32


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of a cluster; without a ``policy`` it has no scheduler.

    ``definitions`` are custom resource definitions that are created before the scheduler starts. With ``cross_check``
    all cached results of plugins are compared with newly computed ones. The cluster fails if they differ.
    ``features`` are the gates of all components except the scheduler. Its gates are in its policy.
    """

    nodes: int = 10
    shape: NodeShape = field(default_factory=NodeShape)
    pace: KubeletPace = field(default_factory=KubeletPace)
    policy: Policy | None = None
    definitions: Sequence[Document] = ()
    cross_check: bool = False
    features: FeatureGates = field(default_factory=FeatureGates)


class EmbeddedCluster:
    """A cluster on an API server, as an async context manager.

    ``additional`` controllers run with those of the cluster. ``observers`` follow the scheduler.
    """

    def __init__(
        self,
        connect: Connect,
        clock: Clock,
        options: ClusterOptions,
        additional: Sequence[Controller] = (),
        observers: Sequence[Observer] = (),
    ) -> None:
        self._clock = clock
        self._options = options
        self._ending = AsyncExitStack()
        self.client = connect()
        self.applier = Applier(self.client)
        self._absent_owners: set[str] = set()
        cluster = cluster_controllers(clock, options.features, self._absent_owners)
        controllers = (*cluster, *kubelet_controllers(clock, options.pace), *additional)
        self._manager_client = connect()
        recorder = EventRecorder(self._manager_client, "", clock)
        self.manager = ControllerManager(self._manager_client, controllers, recorder=recorder)
        self.scheduling: RunningScheduler | None = None
        if options.policy is not None:
            self.scheduling = RunningScheduler(
                connect, clock, options.policy, cross_check=options.cross_check, observers=observers
            )
        self.tasks: list[asyncio.Task[None]] = []

    @property
    def cache(self) -> InformerCache:
        """The informer cache of the controllers."""
        return self.manager.cache

    async def __aenter__(self) -> Self:
        self._ending.callback(self.client.close)
        self._ending.callback(self._manager_client.close)
        try:
            await self.applier.apply(self._options.definitions)
            await self.add_nodes(self._options.nodes)
            self._start(self.manager.run(), "controllers")
            if self.scheduling is not None:
                self._start(self.scheduling.run(), "scheduler")
            # A component that ends before the controllers are synced has failed: raise its error.
            task = asyncio.ensure_future(self.manager.synced())
            finished, _ = await asyncio.wait((task, *self.tasks), return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            for part in finished - {task}:
                part.result()
        except BaseException:
            await self._end()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._end()

    def _start(self, work: Coroutine[Any, Any, None], name: str) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work, name=name))

    async def _end(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*self.tasks, return_exceptions=True)
        await self._ending.aclose()

    def failure(self) -> BaseException | None:
        """Return the error that stopped a component of the cluster, if any."""
        failed_tasks = (task for task in self.tasks if task.done() and not task.cancelled())
        return next((error for task in failed_tasks if (error := task.exception()) is not None), None)

    def keep_dependents(self, manifests: Iterable[Document]) -> None:
        """Keep objects with owners that the manifests lack, instead of deleting them as garbage."""
        self._absent_owners |= find_absent_owners(manifests)

    async def apply(self, manifests: Iterable[Document]) -> None:
        """Apply manifests. Fake kubelets run the nodes among them, and owners adopt their dependents."""
        for phase in order_by_ownership(manifests):
            stored = await self.applier.apply(_with_kubelet(item) if item.kind == "Node" else item for item in phase)
            # An owner that does not know its dependents would create others.
            while not all(map(self.manager.has_seen, stored)) and self.failure() is None:
                await asyncio.sleep(SEEN_INTERVAL)

    async def add_nodes(
        self, count: int, shape: NodeShape | None = None, name: Callable[[int], str] | None = None
    ) -> None:
        """Register fake nodes. Existing nodes are not changed."""
        width = len(str(max(count, 1)))
        naming = name or (lambda number: f"node-{number:0{width}d}")
        gate = asyncio.Semaphore(AT_ONCE)

        async def register(number: int) -> None:
            data = fake_node(naming(number), number, shape or self._options.shape, self._clock.now())
            request = build_request(Create(Node, data))
            async with gate:
                try:
                    await self.client.request(request.method, request.path, request.body)
                except AlreadyExists:
                    return

        async with asyncio.TaskGroup() as group:
            for number in range(1, count + 1):
                group.create_task(register(number))

    async def fail_node(self, name: str, *, failed: bool = True) -> None:
        """Make a node fail or recover."""
        node = await self.client.get(Node, name)
        await self.client.patch(node, {"metadata": {"annotations": {FAIL: "true" if failed else None}}})


def _with_kubelet(node: Document) -> Document:
    metadata = node.content["metadata"]
    labels = {HOSTNAME_LABEL: metadata["name"], **(metadata.get("labels") or {}), FAKE_LABEL: "true"}
    return replace(node, content={**node.content, "metadata": {**metadata, "labels": labels}})
