"""The services that all profiles of a scheduler share."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import structlog
from msgspec import Struct, field

from moorage.common.clock import Clock
from moorage.common.errors import ApiError
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.engine.ties import Ties
from moorage.scheduler.engine.waiting import WaitingPods
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.handle import ClusterApi
from moorage.scheduler.framework.metering import SILENT_METER, PluginMeter
from moorage.scheduler.queue.nominator import PodNominator
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.holds import Holds
from moorage.scheduler.state.objects import Objects

log = structlog.get_logger(__name__)


class Freeze:
    """Blocks changes of the cluster state while a cycle awaits an extender or a PostFilter plugin."""

    def __init__(self) -> None:
        self.thawed: asyncio.Event | None = None
        """Set when the awaiting cycle ends, or ``None`` if no cycle awaits."""

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


class Services(Struct):
    """The services that all profiles of a scheduler share."""

    cache: Cache
    objects: Objects
    clock: Clock
    features: FeatureGates
    cluster: ClusterApi
    nominator: PodNominator
    background: TaskBackground
    activate: Callable[[Mapping[str, Pod]], None]
    holds: Holds
    wake_rejected: Callable[[str, str], None] = lambda _profile, _plugin: None
    resort_queue: Callable[[], None] = lambda: None
    shared: dict[StateKey[Any], tuple[Any, tuple[type[KubeObject], ...]]] = field(default_factory=dict)
    """The shared state of plugins, with the kinds that its creator lists."""
    waiting: WaitingPods = field(default_factory=WaitingPods)
    freeze: Freeze = field(default_factory=Freeze)
    wake: Callable[[], None] = lambda: None
    """Wakes the scheduling loop."""
    cancel_pre_bind: Callable[[str, str], bool] = lambda _uid, _reason: False
    meter: PluginMeter = SILENT_METER
    ties: Ties | None = None
    """Selects between nodes with equal scores; by default as upstream does."""

    def write_status(self, obj: KubeObject, patch: Mapping[str, Any]) -> None:
        """Patch the status of an object in the background. Errors are logged, because the next attempt repeats it."""

        async def write() -> None:
            try:
                await self.cluster.patch_status(obj, patch)
            except ApiError as error:
                log.warning("status was not written", kind=type(obj).__name__, object=obj.key, error=str(error))

        self.background.start(write(), name=f"status of {obj.key}")
