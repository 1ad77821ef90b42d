"""Assembles a scheduler: policy, API connection, loop, extenders and observers."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from moorage.common.clock import Clock
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.apply_retry import ApplyRetry
from moorage.kube.client.informer import OnChanges
from moorage.scheduler.config.types import ExtenderConfig
from moorage.scheduler.engine.binding.task_pool import TaskBackground
from moorage.scheduler.engine.effects import CLUSTER_EFFECTS, Effects
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.framework.metering import SILENT_METER, PluginMeter
from moorage.scheduler.queue.observer import QueueObserver
from moorage.scheduler.queue.scheduling_queue import DEFAULT_MAX_UNSCHEDULABLE
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.http_extender import HttpExtender, kept_whole
from moorage.scheduler.wiring.policy import Policy
from moorage.scheduler.wiring.scheduling_loop import Apply, Deliveries, SchedulingLoop

Keeps = Mapping[type[KubeObject], Callable[[Any], bool]]
"""Selects the objects whose complete JSON is cached for extenders, by kind."""


class ApiAccess(Protocol):
    """The connection of a scheduler to an API: writes, lists and watches."""

    @property
    def cluster(self) -> ClusterApi:
        """The API for writes."""
        ...

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps) -> None:
        """Prepare to list and watch nodes, pods and the kinds that plugins list; called once by :func:`assemble`."""
        ...

    def relist(self, kind: Kind, key: str) -> None:
        """List a kind again, and deliver one object as new."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


C = TypeVar("C", bound=ApiAccess)


class Observers(Struct, frozen=True):
    """The observers of a scheduler, for metrics, simulations and tests."""

    attempts: AttemptObserver | None = None
    queue: QueueObserver | None = None
    meter: PluginMeter = SILENT_METER
    around_apply: Callable[[Apply], Apply] = lambda apply: apply
    """Wraps the function that applies changes, to time it."""
    apply_failed: Callable[[str], None] = lambda _resource: None
    """Counts changes that could not be applied, by resource."""


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
    """The initial policy; reloads do not change this field."""
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
    observers: Observers | None = None,
    background: TaskBackground | None = None,
    tuning: Tuning | None = None,
) -> AssembledScheduler[C]:
    """Assemble a scheduler; must be called on the event loop that runs it."""
    observers, tuning = observers or Observers(), tuning or Tuning()
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
        observer=observers.attempts,
        queue_observer=observers.queue,
        extenders=extenders,
        max_unschedulable=tuning.max_unschedulable,
        meter=observers.meter,
        ties=tuning.ties,
        effects=tuning.effects,
    )
    loop = SchedulingLoop(scheduler)
    retry = ApplyRetry(observers.apply_failed)
    retry.relist = connection.relist
    deliveries = Deliveries(observers.around_apply(scheduler.handlers.apply), loop, retry)
    connection.follow(scheduler.objects, deliveries.on_changes, kept_whole(policy.config.extenders))
    return AssembledScheduler(
        connection, background, scheduler, loop, deliveries, extenders, policy, tuning, asyncio.Lock()
    )


def find_watched_kinds(objects: Objects) -> tuple[type[KubeObject], ...]:
    """Return the kinds to list and watch: nodes, pods, and those that the plugins requested."""
    return tuple(dict.fromkeys((Node, Pod, *objects.kinds())))
