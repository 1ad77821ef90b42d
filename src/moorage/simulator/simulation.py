"""A world and a scheduler at work in it, until nothing more would change."""

import asyncio
from collections.abc import Callable, Iterable
from typing import Final

from moorage.api.meta import KubeObject
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.config.types import SchedulerConfiguration
from moorage.engine.loop import SchedulingLoop
from moorage.engine.observing import AttemptObserver
from moorage.engine.scheduler import Scheduler
from moorage.features import FeatureGates
from moorage.framework.metering import SILENT_METER, Meter
from moorage.framework.registry import Registry
from moorage.queue.observing import QueueObserver
from moorage.simulator.world import World

MOST_ERRORS: Final = 8
"""A pod whose attempts end in errors so often in a row is not waited for any longer."""


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
        meter: Meter = SILENT_METER,
    ) -> None:
        self.world = world
        self.scheduler = Scheduler(
            config,
            registry,
            cluster=world,
            background=world.background,
            clock=world.clock,
            features=features,
            cross_check=cross_check,
            observer=observer,
            queue_observer=queue_observer,
            meter=meter,
        )
        self.loop = SchedulingLoop(self.scheduler)
        self.on_step: Callable[[], None] = lambda: None
        """Called after every attempt, for progress bars."""
        world.attach(self.scheduler)

    def load(self, objects: Iterable[KubeObject]) -> None:
        """Create objects and tell the scheduler of them at once: nodes first, then placed pods, then waiting ones."""
        for thing in objects:
            stored = self.world.store.create(thing)
            if not isinstance(stored, Node | Pod):
                self.world.tell(None, stored)
        for node in self.world.store.list(Node):
            self.world.tell(None, node)
        pods = list(self.world.store.list(Pod))
        for pod in (*(p for p in pods if p.node_name), *(p for p in pods if not p.node_name)):
            self.world.tell(None, pod)
        self.world.start_watching(self.loop)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing more would change: nobody is about to be tried, and nothing is under way."""
        sizes = self.scheduler.queue.sizes()
        if sizes.active or sizes.in_flight or self.loop.has_news or self.world.is_busy:
            return False
        return sizes.backoff == 0 or all(
            queued.is_gated or queued.rejectors or queued.consecutive_errors >= MOST_ERRORS
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
                await self.loop.sleep(until=end)
