"""Time single plugins in one cycle out of ten: the sampled cycles call the same plugins as the other nine.

In sampled cycles every plugin has a timer, which the engine's one boundary for calls of plugins looks for.
"""

from collections.abc import Awaitable, Callable, Iterable
from random import Random
from time import perf_counter
from typing import Any, Final, TypeVar

from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.engine.extension_points import CallTimer, Point
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.status import Code, Status, Verdict

T = TypeVar("T")

SHARE: Final = 0.1
RUN: Final = 10
"""The number of consecutive cycles with or without timing: adding timers to all plugins takes longer than a cycle."""
ERROR: Final = Code.ERROR.label
SUCCESS: Final = Code.SUCCESS.label
SAMPLED: Final = frozenset(
    {
        "PreFilter",
        "Filter",
        "PreFilterExtensionAddPod",
        "PreFilterExtensionRemovePod",
        "PostFilter",
        "PreScore",
        "Score",
        "ScoreExtensionNormalize",
        "Reserve",
        "Permit",
        "PreBind",
        "Bind",
        "PostBind",
    }
)
"""The extension points of which upstream samples plugins."""


class PluginSampler:
    """Observes plugin_execution_duration_seconds: the ``CallTimer`` of plugins.

    A pod is bound, or helped, a little after its cycle, so sometimes another run decides about those calls.
    """

    def __init__(self, registry: CellRegistry, chance: Random) -> None:
        self._metric = registry["scheduler_plugin_execution_duration_seconds"]
        self._chance = chance
        self._plugins: list[Plugin] = []
        self._cells: dict[tuple[str, str, str], Callable[[float], None]] = {}
        self.is_sampling = False
        self._over: CallTimer | None = None
        self._left_of_run = 0

    def put_over(self, timer: CallTimer | None) -> None:
        """Have another timer take all calls of plugins, until it is taken away; it may pass them on to this one."""
        self._over = timer
        self._set_timers()

    def _set_timers(self) -> None:
        timer = self._over or (self if self.is_sampling else None)
        for plugin in self._plugins:
            plugin._timer = timer

    def watch(self, profiles: Iterable[Profile]) -> None:
        """Sample the plugins of these profiles from now on, and no others."""
        for plugin in self._plugins:
            plugin._timer = None
        self._plugins = [plugin for profile in profiles for plugin in profile.plugins.values()]
        self.is_sampling, self._left_of_run = False, 0
        self._set_timers()

    def cycle_begins(self) -> None:
        """Decide whether this cycle is one of those that are timed."""
        self._left_of_run -= 1
        if self._left_of_run > 0:
            return
        self._left_of_run = RUN
        is_sampling = self._chance.random() < SHARE
        if is_sampling != self.is_sampling:
            self.is_sampling = is_sampling
            self._set_timers()

    def call(self, point: Point, plugin: str, method: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        """Make a call and take its time."""
        if point.name not in SAMPLED:
            return method(*arguments)
        began, status = perf_counter(), ERROR
        try:
            answer = method(*arguments)
            status = status_of(answer)
            return answer
        finally:
            self._observe((plugin, point.name, status), perf_counter() - began)

    async def wait(
        self, point: Point, plugin: str, method: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]
    ) -> T:
        """Make a call that waits, and take its time."""
        began, status = perf_counter(), ERROR
        try:
            answer = await method(*arguments)
            status = status_of(answer)
            return answer
        finally:
            self._observe((plugin, point.name, status), perf_counter() - began)

    def _observe(self, labels: tuple[str, str, str], seconds: float) -> None:
        observe = self._cells.get(labels)
        if observe is None:
            observe = self._cells[labels] = self._metric.histogram(*labels).observe
        observe(seconds)


def status_of(answer: object) -> str:
    """Return the code of a plugin's result; any result other than a Status is a success."""
    if answer is None:
        return SUCCESS
    if isinstance(answer, Status):
        return answer.code.label
    if isinstance(answer, Verdict) and answer.rejections:
        return Code.UNSCHEDULABLE.label
    return SUCCESS
