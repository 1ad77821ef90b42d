"""A scheduler on an API server, through the client that it has in production."""

import asyncio
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
import structlog

from moorage.api.kinds import Kind
from moorage.api.meta import KubeObject
from moorage.api.node import Node
from moorage.api.pod import DEFAULT_SCHEDULER_NAME, Pod
from moorage.client.cluster import ApiCluster
from moorage.client.dispatcher import Dispatcher, limit_of
from moorage.client.extender import HttpExtender
from moorage.client.informer import Informers
from moorage.client.recorder import EventRecorder
from moorage.client.rest import ApiClient
from moorage.client.watch import Change
from moorage.clock import Clock
from moorage.config import IN_TREE as IN_TREE_FACTS
from moorage.config import PluginFacts, load_config, load_config_file
from moorage.config.types import SchedulerConfiguration
from moorage.engine.background import TaskBackground
from moorage.engine.loop import SchedulingLoop
from moorage.engine.scheduler import Scheduler
from moorage.features import FeatureGates
from moorage.framework.plugin import Plugin
from moorage.framework.registry import Registry, extension_points
from moorage.plugins.catalogue import IN_TREE

Connect = Callable[[], ApiClient]

DRAIN_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Policy:
    """How to schedule: the configuration, the plugins it may name, and the feature gates."""

    config: SchedulerConfiguration
    registry: Registry
    features: FeatureGates


def policy_with(
    plugins: Iterable[type[Plugin]] = (),
    *,
    offered: Iterable[type[Plugin]] = (),
    config: str | Path = "",
    features: FeatureGates | None = None,
) -> Policy:
    """Return how to schedule: as a configuration (its text, or a file) says.

    Without one it is the default configuration, with the plugins enabled at all their extension points. Those that are
    ``offered`` run only if the configuration names them.
    """
    gates, enabled = features or FeatureGates(), tuple(plugins)
    others = tuple(dict.fromkeys((*enabled, *offered)))
    catalogue = {**IN_TREE_FACTS, **{item.name: PluginFacts(extension_points(item), item.Args) for item in others}}
    registry = Registry((*IN_TREE, *others))
    if isinstance(config, Path):
        return Policy(load_config_file(config, gates=gates, catalogue=catalogue), registry, gates)
    text = config or msgspec.json.encode(_default_with(item.name for item in enabled)).decode()
    return Policy(load_config(text, gates=gates, catalogue=catalogue), registry, gates)


def _default_with(names: Iterable[str]) -> dict[str, Any]:
    enabled = [{"name": name} for name in names]
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": DEFAULT_SCHEDULER_NAME, "plugins": {"multiPoint": {"enabled": enabled}}}],
    }


class RunningScheduler:
    """One scheduler at work; :meth:`run` it until it is cancelled."""

    def __init__(self, connect: Connect, clock: Clock, policy: Policy) -> None:
        config = policy.config
        self._clients = (connect(), connect())
        client, event_client = self._clients
        self._recorder = EventRecorder(event_client, socket.gethostname(), clock)
        self._background = TaskBackground()
        limit = limit_of(config.client_connection.qps, config.client_connection.burst)
        cluster = ApiCluster(client, Dispatcher(limit=limit), self._recorder, clock, self._known)
        self._extenders = tuple(HttpExtender(extender) for extender in config.extenders)
        self.scheduler = Scheduler(
            config,
            policy.registry,
            cluster=cluster,
            background=self._background,
            clock=clock,
            features=policy.features,
            extenders=self._extenders,
        )
        self._loop = SchedulingLoop(self.scheduler)
        kinds: tuple[type[KubeObject], ...] = (Node, Pod, *self.scheduler.objects.kinds())
        self._informers = Informers(client, dict.fromkeys(kinds), self._on_changes)
        self._is_running = False

    def _known(self, thing: KubeObject) -> KubeObject | None:
        kind, objects = type(thing), self.scheduler.objects
        return objects[kind].find(thing.key) if kind in objects.kinds() else None

    async def run(self) -> None:
        """List and watch, then schedule until cancelled; what is under way is finished."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._informers.run(), name="scheduler's informers")
                group.create_task(self._recorder.run(), name="event series")
                await self._informers.synced()
                self._is_running = True
                await self._loop.run()
        finally:
            await self._finish()
            for client in self._clients:
                client.close()
            for extender in self._extenders:
                extender.close()

    async def _finish(self) -> None:
        """Let bindings, status patches and events that are under way reach the server, unless that takes too long."""
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await self._background.drain()
                await self._recorder.flush()
        except TimeoutError:
            log.info("ending with work under way", tasks=len(self._background))

    def _on_changes(self, _kind: Kind, changes: Sequence[Change[Any]]) -> None:
        apply = partial(self._apply, changes)
        if self._is_running:
            self._loop.deliver(apply)
        else:
            apply()

    def _apply(self, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            self.scheduler.handlers.apply(change.before, change.after, is_final=change.is_final)
