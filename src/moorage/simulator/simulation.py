"""A world and a scheduler at work in it, until nothing more would change."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final, Self

from moorage.api.meta import KubeObject
from moorage.assembly.parts import Observers, Tuning, assemble
from moorage.assembly.policy import Policy
from moorage.config.types import SchedulerConfiguration
from moorage.engine.observing import AttemptObserver
from moorage.features import FeatureGates
from moorage.framework.metering import SILENT_METER, PluginMeter
from moorage.framework.registry import Registry
from moorage.queue.observing import QueueObserver
from moorage.simulator.loop import AwaitedExtender
from moorage.simulator.world import World

MAX_ERRORS: Final = 8
"""A pod whose attempts end in errors so often in a row is not waited for any longer."""

LOOK_SECONDS: Final = 0.25
"""Kubelets fall idle without an event: so often in virtual time we look whether they have."""


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
        cls, world: World, policy: Policy, *, cross_check: bool = False, observer: AttemptObserver | None = None
    ) -> Self:
        """Simulate a policy."""
        return cls(
            world, policy.config, policy.registry, features=policy.features, cross_check=cross_check, observer=observer
        )

    def load(self, objects: Iterable[KubeObject]) -> None:
        """Store objects as they are, and have the scheduler know them at once; then let time pass."""
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
            queued.is_gated or queued.rejectors or queued.consecutive_errors >= MAX_ERRORS
            for queued in self.scheduler.queue
            if self.scheduler.queue.where(queued.pod) not in ("unschedulable", "gated")
        )

    async def run_until_quiet(self, *, most_seconds: float = 86_400.0) -> None:
        """Schedule until nothing more would change, or so much virtual time has passed."""
        end = self.world.clock.now() + most_seconds
        while self.world.clock.now() < end:
            if await self.loop.step():
                self.on_step()
                await asyncio.sleep(0)
            elif self.is_quiet:
                return
            else:
                await self.loop.sleep(until=min(end, self.world.clock.now() + LOOK_SECONDS))

    def close(self) -> None:
        """Close the connections to extenders."""
        self._parts.close()
