"""What all profiles of a scheduler share, and where their work beside the cycles goes on."""

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
    """Where work goes on beside the scheduling cycles."""

    def start(self, work: Coroutine[Any, Any, object], *, name: str) -> None:
        """Run something, and wait for it in the end; what it raises is logged."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None], *, name: str) -> "asyncio.Task[None] | None":
        """Run something that nobody waits for, and return its task to cancel; ``None`` where nothing is run."""
        ...

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run something after a while, between cycles."""
        ...


class Freeze:
    """The frozen world: while a cycle waits (for an extender, or in a post-filter), nothing else may change it."""

    def __init__(self) -> None:
        self.thawed: asyncio.Event | None = None
        """Set when the cycle that waits is over; ``None`` while none does."""

    def __enter__(self) -> None:
        self.thawed = asyncio.Event()

    def __exit__(self, *_: object) -> None:
        assert self.thawed is not None
        self.thawed.set()
        self.thawed = None

    async def over(self) -> None:
        """Wait until no cycle is under way."""
        while self.thawed is not None:
            await self.thawed.wait()


def nothing_in_pre_bind(_uid: str, _reason: str) -> bool:
    """Find nothing to cancel, where pods are never on their way to a node."""
    return False


class Services(Struct):
    """What all profiles of a scheduler share."""

    cache: Cache
    objects: Objects
    clock: Clock
    features: FeatureGates
    cluster: ClusterApi
    nominator: PodNominator
    background: Background
    activate: Callable[[Mapping[str, Pod]], None]
    shared: dict[StateKey[Any], tuple[Any, tuple[type[KubeObject], ...]]] = field(default_factory=dict)
    """What plugins of all profiles share, with the kinds that whoever made it lists."""
    waiting: WaitingPods = field(default_factory=WaitingPods)
    freeze: Freeze = field(default_factory=Freeze)
    wake: Callable[[], None] = lambda: None
    """Called when there may be something to do again."""
    cancel_pre_bind: Callable[[str, str], bool] = nothing_in_pre_bind
    meter: PluginMeter = SILENT_METER
    ties: Ties | None = None
    """Chooses between nodes of equal score; as upstream does, if it is not given."""
