"""Assembles a scheduler: policy, API connection, loop, extenders and observers."""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from moorage.common.clock import Clock
from moorage.common.observers import Observer, select
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.apply_retry import ApplyRetry
from moorage.kube.client.dispatcher import Dispatcher
from moorage.kube.client.flow_control import make_rate_limit
from moorage.kube.client.informer import InformerObserver, Informers, OnChanges
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.config.types import ClientConnection, ExtenderConfig
from moorage.scheduler.engine.effects import CLUSTER_EFFECTS, Effects
from moorage.scheduler.engine.observing import Apply, ApplyObserver
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.queue.scheduling_queue import DEFAULT_MAX_UNSCHEDULABLE
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.api_writer import ApiWriter
from moorage.scheduler.wiring.http_extender import HttpExtender, full_object_predicates
from moorage.scheduler.wiring.policy import Policy
from moorage.scheduler.wiring.scheduling_loop import Deliveries, SchedulingLoop

Keeps = Mapping[type[KubeObject], Callable[[Any], bool]]
"""Selects the objects that are cached as complete JSON for extenders, by kind."""


class ApiAccess(Protocol):
    """The connection of a scheduler to an API: writes, lists and watches."""

    @property
    def cluster(self) -> ClusterApi:
        """The API for writes."""
        ...

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps, observer: InformerObserver | None) -> None:
        """Prepare to list and watch nodes, pods and the kinds that plugins list; called once by :func:`assemble`."""
        ...

    def relist(self, kind: Kind, key: str) -> None:
        """Relist a kind, and deliver one object as new."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


C = TypeVar("C", bound=ApiAccess)


class Tuning(Struct, frozen=True):
    """Settings of flags and tests that are not part of the configuration."""

    cross_check: bool | float = False
    max_unschedulable: float = DEFAULT_MAX_UNSCHEDULABLE
    make_extender: Callable[[ExtenderConfig], HttpExtender] = HttpExtender
    ties: Ties | None = None
    """Selects between nodes with equal scores; by default as kube-scheduler does."""
    effects: Effects = CLUSTER_EFFECTS


class AssembledScheduler(Struct, Generic[C], frozen=True):
    """An assembled scheduler that is not started."""

    connection: C
    background: TaskBackground
    scheduler: Scheduler
    loop: SchedulingLoop
    deliveries: Deliveries
    extenders: list[HttpExtender]
    first: Policy
    """The initial policy. Reloads do not change this field."""
    tuning: Tuning
    changing: asyncio.Lock
    """Held while plugins are started or replaced."""

    def close(self) -> None:
        """Close all connections."""
        self.connection.close()
        for extender in self.extenders:
            extender.close()


def assemble(
    policy: Policy,
    connection: C,
    clock: Clock,
    *,
    observers: Sequence[Observer] = (),
    background: TaskBackground | None = None,
    tuning: Tuning | None = None,
) -> AssembledScheduler[C]:
    """Assemble a scheduler. Must be called on the event loop that runs it.

    Each part selects the ``observers`` of its events: informers, applied changes, cache, queue, attempts, metrics.
    """
    tuning = tuning or Tuning()
    background = background if background is not None else TaskBackground()
    extenders = [tuning.make_extender(extender) for extender in policy.config.extenders]
    scheduler = Scheduler(
        policy.config,
        policy.registry,
        cluster=connection.cluster,
        background=background,
        clock=clock,
        features=policy.features,
        cross_check=tuning.cross_check,
        observers=observers,
        extenders=extenders,
        max_unschedulable=tuning.max_unschedulable,
        ties=tuning.ties,
        effects=tuning.effects,
    )
    loop = SchedulingLoop(scheduler)
    applying, informing = select(observers, ApplyObserver), select(observers, InformerObserver)
    retry = ApplyRetry() if informing is None else ApplyRetry(informing.apply_failed)
    retry.relist = connection.relist
    apply: Apply = scheduler.handlers.apply
    deliveries = Deliveries(apply if applying is None else applying.wrap_apply(apply), loop, retry)
    connection.follow(
        scheduler.objects, deliveries.on_changes, full_object_predicates(policy.config.extenders), informing
    )
    return AssembledScheduler(
        connection, background, scheduler, loop, deliveries, extenders, policy, tuning, asyncio.Lock()
    )


def find_watched_kinds(objects: Objects) -> tuple[type[KubeObject], ...]:
    """Return the kinds to list and watch: nodes, pods, and the kinds that the plugins requested."""
    return tuple(dict.fromkeys((Node, Pod, *objects.kinds())))


class ApiConnection:
    """Write, list and watch through one client. Record events through another, so that they delay no bindings."""

    def __init__(
        self,
        client: ApiClient,
        event_client: ApiClient,
        clock: Clock,
        limits: ClientConnection,
    ) -> None:
        self.client = client
        self.hostname = socket.gethostname()
        self.recorder = EventRecorder(event_client, self.hostname, clock, resolve_kind=client.resolve_kind)
        dispatcher = Dispatcher(limit=make_rate_limit(limits.qps, limits.burst))
        self.cluster = ApiWriter(client, dispatcher, self.recorder, clock, self._find_cached)
        self.informers = Informers(client, (), lambda _kind, _changes: None)
        self._event_client = event_client
        self._objects = Objects()

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps, observer: InformerObserver | None) -> None:
        """Create the informers. The writer looks up cached objects in their stores."""
        self._objects = objects
        self.informers = Informers(self.client, find_watched_kinds(objects), on_changes, observer=observer, keeps=keeps)

    def relist(self, kind: Kind, key: str) -> None:
        """Relist a kind, and deliver one object as new."""
        self.informers.relist(kind, key)

    def _find_cached(self, obj: KubeObject) -> KubeObject | None:
        """Return the version of an object that the informers delivered last, if its kind is watched."""
        kind = type(obj)
        return self._objects[kind].find(obj.key) if kind in self._objects.kinds() else None

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        self._event_client.close()
