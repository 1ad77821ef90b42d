"""The one way to put a scheduler together: its parts, over whatever API it is to work with."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, Generic, Protocol, TypeVar

from msgspec import Struct

from moorage.common.clock import Clock
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import OnChanges
from moorage.kube.client.mending import Mending
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
from moorage.scheduler.wiring.loop import Apply, Deliveries, SchedulingLoop
from moorage.scheduler.wiring.policy import Policy

Keeps = Mapping[type[KubeObject], Callable[[Any], bool]]
"""Which objects of a kind are kept as they came as well, for extenders."""


class ApiAccess(Protocol):
    """A way to an API: where to write, and how to follow what happens there."""

    @property
    def cluster(self) -> ClusterApi:
        """Where the scheduler writes to."""
        ...

    def follow(self, objects: Objects, on_changes: OnChanges, keeps: Keeps) -> None:
        """Prepare to list and watch nodes, pods, and the kinds that plugins asked for; called once, when built."""
        ...

    def relist(self, kind: Kind, key: str) -> None:
        """List a kind again, and deliver one object as if it were new."""
        ...

    def close(self) -> None:
        """Close all connections."""
        ...


C = TypeVar("C", bound=ApiAccess)


class Observers(Struct, frozen=True):
    """Who looks on, for metrics, simulations and tests; nobody, unless said."""

    attempts: AttemptObserver | None = None
    queue: QueueObserver | None = None
    meter: PluginMeter = SILENT_METER
    around_apply: Callable[[Apply], Apply] = lambda apply: apply
    """Wraps what applies changes, to time it."""
    apply_failed: Callable[[str], None] = lambda _resource: None
    """Counts changes that could not be applied, by resource."""


class Tuning(Struct, frozen=True):
    """What flags and tests may change about a scheduler, beside its configuration."""

    cross_check: bool | float = False
    max_unschedulable: float = DEFAULT_MAX_UNSCHEDULABLE
    make_extender: Callable[[ExtenderConfig], HttpExtender] = HttpExtender
    ties: Ties | None = None
    """What decides between nodes of equal score, instead of kube-scheduler's order."""
    effects: Effects = CLUSTER_EFFECTS


class Parts(Struct, Generic[C], frozen=True):
    """A scheduler and everything around it, put together but not started."""

    connection: C
    background: TaskBackground
    scheduler: Scheduler
    loop: SchedulingLoop
    deliveries: Deliveries
    extenders: list[HttpExtender]
    first: Policy
    """What it was put together from; others may have followed."""
    tuning: Tuning
    changing: asyncio.Lock
    """Held while plugins are started, or replaced by others."""

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
) -> Parts[C]:
    """Build a scheduler on an API; must be called on the loop that is to run it."""
    watching, tuned = observers or Observers(), tuning or Tuning()
    beside = background if background is not None else TaskBackground()
    extenders = [tuned.make_extender(extender) for extender in policy.config.extenders]
    scheduler = Scheduler(
        policy.config,
        policy.registry,
        cluster=connection.cluster,
        background=beside,
        clock=clock,
        features=policy.features,
        cross_check=tuned.cross_check,
        observer=watching.attempts,
        queue_observer=watching.queue,
        extenders=extenders,
        max_unschedulable=tuned.max_unschedulable,
        meter=watching.meter,
        ties=tuned.ties,
        effects=tuned.effects,
    )
    loop = SchedulingLoop(scheduler)
    mending = Mending(watching.apply_failed)
    mending.relist = connection.relist
    deliveries = Deliveries(watching.around_apply(scheduler.handlers.apply), loop, mending)
    connection.follow(scheduler.objects, deliveries.on_changes, kept_whole(policy.config.extenders))
    return Parts(connection, beside, scheduler, loop, deliveries, extenders, policy, tuned, asyncio.Lock())


def kinds_of(objects: Objects) -> tuple[type[KubeObject], ...]:
    """Return what has to be listed and watched: pods, nodes, and what the plugins asked for when they were built."""
    return tuple(dict.fromkeys((Node, Pod, *objects.kinds())))
