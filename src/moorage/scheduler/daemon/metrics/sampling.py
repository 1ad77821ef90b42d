"""Times of single plugins in a tenth of all cycles.

In sampled cycles every plugin has a timer, which the engine uses for each call. The calls themselves do not change.
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
    (
        *("PreFilter", "Filter", "PreFilterExtensionAddPod", "PreFilterExtensionRemovePod", "PostFilter"),
        *("PreScore", "Score", "ScoreExtensionNormalize", "Reserve", "Permit", "PreBind", "Bind", "PostBind"),
    )
)
"""The extension points at which upstream samples plugins."""


class PluginSampler:
    """Observes plugin_execution_duration_seconds: the ``CallTimer`` of plugins.

    Binding and preemption run after the cycle, so these calls may belong to another run of cycles.
    """

    def __init__(self, registry: CellRegistry, chance: Random) -> None:
        self._metric = registry["scheduler_plugin_execution_duration_seconds"]
        self._chance = chance
        self._plugins: list[Plugin] = []
        self.is_sampling = False
        self._over: CallTimer | None = None
        self._left_of_run = 0

    def put_over(self, timer: CallTimer | None) -> None:
        """Let another timer take all calls of plugins until it is removed; it may forward them to this one."""
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
        """Decide whether this cycle is timed."""
        self._left_of_run -= 1
        if self._left_of_run > 0:
            return
        self._left_of_run = RUN
        is_sampling = self._chance.random() < SHARE
        if is_sampling != self.is_sampling:
            self.is_sampling = is_sampling
            self._set_timers()

    def call(self, point: Point, plugin: str, method: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        """Call a plugin and time it."""
        if point.name not in SAMPLED:
            return method(*arguments)
        began, status = perf_counter(), ERROR
        try:
            answer = method(*arguments)
            status = read_status(answer)
            return answer
        finally:
            self._metric.histogram(plugin, point.name, status).observe(perf_counter() - began)

    async def wait(
        self, point: Point, plugin: str, method: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]
    ) -> T:
        """Call a plugin that waits, and time it."""
        began, status = perf_counter(), ERROR
        try:
            answer = await method(*arguments)
            status = read_status(answer)
            return answer
        finally:
            self._metric.histogram(plugin, point.name, status).observe(perf_counter() - began)


def read_status(answer: object) -> str:
    """Return the code of a plugin's result; any result other than a Status is a success."""
    if isinstance(answer, Status):
        return answer.code.label
    if isinstance(answer, Verdict) and answer.rejections:
        return Code.UNSCHEDULABLE.label
    return SUCCESS
