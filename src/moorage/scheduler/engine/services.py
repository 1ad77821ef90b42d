"""The services that all profiles of a scheduler share."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any, Protocol

from msgspec import Struct, field

from moorage.common.clock import Clock
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.engine.waiting import WaitingPods
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.framework.metering import SILENT_METER, PluginMeter
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.objects import Objects


class Background(Protocol):
    """Runs tasks in parallel with the scheduling cycles."""

    def start(self, work: Coroutine[Any, Any, object], *, name: str) -> None:
        """Run a coroutine that must finish before shutdown; exceptions are logged."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> "asyncio.Task[None] | None":
        """Run a coroutine and return its task, or ``None`` if background work is disabled."""
        ...

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run an action after a delay, between cycles."""
        ...


class Freeze:
    """Blocks changes of the cluster state while a cycle awaits an extender or a PostFilter plugin."""

    def __init__(self) -> None:
        self.thawed: asyncio.Event | None = None
        """Set when the awaiting cycle ends; ``None`` if no cycle awaits."""

    def __enter__(self) -> None:
        self.thawed = asyncio.Event()

    def __exit__(self, *_: object) -> None:
        assert self.thawed is not None
        self.thawed.set()
        self.thawed = None

    async def over(self) -> None:
        """Wait until no cycle awaits."""
        while self.thawed is not None:
            await self.thawed.wait()


def nothing_in_pre_bind(_uid: str, _reason: str) -> bool:
    """Return False, where pods are never bound."""
    return False


class Services(Struct):
    """The services that all profiles of a scheduler share."""

    cache: Cache
    objects: Objects
    clock: Clock
    features: FeatureGates
    cluster: ClusterApi
    nominator: PodNominator
    background: Background
    activate: Callable[[Mapping[str, Pod]], None]
    shared: dict[StateKey[Any], tuple[Any, tuple[type[KubeObject], ...]]] = field(default_factory=dict)
    """The shared state of plugins, with the kinds that its creator lists."""
    waiting: WaitingPods = field(default_factory=WaitingPods)
    freeze: Freeze = field(default_factory=Freeze)
    wake: Callable[[], None] = lambda: None
    """Wakes the scheduling loop."""
    cancel_pre_bind: Callable[[str, str], bool] = nothing_in_pre_bind
    meter: PluginMeter = SILENT_METER
    ties: Ties | None = None
    """Selects between nodes with equal scores; by default as upstream does."""
