"""A world and a scheduler at work in it, until nothing more would change."""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, Self

from moorage.cluster.simulation.world import World
from moorage.cluster.virtual_time import AwaitedExtender
from moorage.kube.api.meta import KubeObject
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.types import SchedulerConfiguration
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.framework.metering import SILENT_METER, PluginMeter
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.queue.entries import QueuedPodInfo
from moorage.scheduler.queue.observing import GATED, INCOMPLETE, UNSCHEDULABLE, QueueObserver
from moorage.scheduler.wiring.parts import Observers, Tuning, assemble
from moorage.scheduler.wiring.policy import Policy

MAX_ERRORS: Final = 8
"""A pod whose attempts end in errors so often in a row is not waited for any longer."""

MAX_SECONDS: Final = 86_400.0
"""So much virtual time passes at most, unless another limit is given: a CronJob always has something left to do."""

LOOK_SECONDS: Final = 0.25
"""Kubelets fall idle without an event: after so much virtual time we look whether they have, and ever later."""
MAX_LOOK_SECONDS: Final = 3600.0


class Simulation:
    """A world and a scheduler at work in it."""

    def __init__(  # noqa: PLR0913 - keywords only, as the scheduler it builds
        self,
        world: World,
        config: SchedulerConfiguration,
        registry: Registry,
        *,
        features: FeatureGates,
        cross_check: bool = False,
        observer: AttemptObserver | None = None,
        queue_observer: QueueObserver | None = None,
        meter: PluginMeter = SILENT_METER,
    ) -> None:
        self.world = world
        self._parts = assemble(
            Policy(config, registry, features),
            world,
            world.clock,
            observers=Observers(observer, queue_observer, meter),
            background=world.background,
            tuning=Tuning(cross_check=cross_check, make_extender=AwaitedExtender),
        )
        self.scheduler = self._parts.scheduler
        self.loop = self._parts.loop
        self.on_step: Callable[[], None] = lambda: None
        """Called after every attempt, for progress bars."""

    @classmethod
    def of(
        cls,
        world: World,
        policy: Policy,
        *,
        cross_check: bool = False,
        observer: AttemptObserver | None = None,
        queue_observer: QueueObserver | None = None,
    ) -> Self:
        """Simulate a policy."""
        return cls(
            world,
            policy.config,
            policy.registry,
            features=policy.features,
            cross_check=cross_check,
            observer=observer,
            queue_observer=queue_observer,
        )

    def load(self, objects: Iterable[KubeObject], data: Iterable[Mapping[str, Any]] = ()) -> None:
        """Store objects as they are, some as plain data, and have the scheduler know them at once; let time pass."""
        for content in data:
            self.world.put_data(content)
        for thing in objects:
            self.world.store.put(thing)
        self.world.announce()
        self._parts.deliveries.start_through_loop()
        self.world.start_watching(self.loop)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing more would change: nobody is about to be tried, and nothing is under way."""
        sizes = self.scheduler.queue.sizes()
        if sizes.active or sizes.in_flight or self.loop.has_news or self.world.is_busy:
            return False
        return sizes.backoff == 0 or all(
            queued.rejectors or queued.consecutive_errors >= MAX_ERRORS for queued in self._to_be_tried()
        )

    @property
    def is_stuck(self) -> bool:
        """Whether all who are being tried have failed so often in a row that they will do so for ever."""
        failures, sizes = self.world.failures, self.scheduler.queue.sizes()
        if not failures or max(failures.values()) < MAX_ERRORS or self.world.is_changing_by_itself or sizes.active:
            return False
        held = [wait.pod.uid for wait in self.scheduler.services.waiting.all()]
        if sizes.in_flight > len(held) or len(self.world.background) > len(held):
            return False
        tried = [queued.uid for queued in self._to_be_tried() if not queued.rejectors]
        return all(failures[uid] >= MAX_ERRORS for uid in (*held, *tried))

    def _to_be_tried(self) -> Iterator[QueuedPodInfo]:
        """Go through the pods that will be tried again by themselves, without an event that helps them."""
        queue = self.scheduler.queue
        return (queued for queued in queue if queue.where(queued.pod) not in (UNSCHEDULABLE, GATED, INCOMPLETE))

    async def run_until_quiet(self, *, most_seconds: float = MAX_SECONDS) -> bool:
        """Schedule until nothing more would change, or so much virtual time has passed; return whether it is quiet."""
        end, look = self.world.clock.now() + most_seconds, LOOK_SECONDS
        while self.world.clock.now() < end:
            if await self.loop.step():
                self.on_step()
                await asyncio.sleep(0)
            elif self.is_quiet or self.is_stuck:
                return True
            else:
                await self.loop.sleep(until=min(end, self.world.clock.now() + look))
                look = LOOK_SECONDS if self.loop.has_news else min(2 * look, MAX_LOOK_SECONDS)
        return False

    def close(self) -> None:
        """Close the connections to extenders."""
        self._parts.close()
