"""What all profiles of a scheduler share, and where their work beside the cycles goes on."""

from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from moorage.api.pod import Pod
from moorage.cache.cache import Cache
from moorage.cache.objects import Objects
from moorage.clock import Clock
from moorage.engine.waiting import WaitingPods
from moorage.features import FeatureGates
from moorage.framework.handle import Cluster, Nominator


class Background(Protocol):
    """Where work goes on beside the scheduling cycles."""

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Run something; what it raises is logged."""
        ...

    def call_later(self, seconds: float, action: Callable[[], None]) -> None:
        """Run something after a while, between cycles."""
        ...


@dataclass(slots=True)
class Services:
    """What all profiles of a scheduler share."""

    cache: Cache
    objects: Objects
    clock: Clock
    features: FeatureGates
    cluster: Cluster
    nominator: Nominator
    background: Background
    activate: Callable[[Mapping[str, Pod]], None]
    waiting: WaitingPods = field(default_factory=WaitingPods)
