"""Times of the phases of attempts, and of single plugins in a tenth of all cycles.

In sampled cycles every plugin has a timer, which the engine uses for each call. The calls themselves do not change.
"""

from collections.abc import Awaitable, Callable, Iterable
from random import Random
from time import perf_counter
from typing import Any, Final, TypeVar

from moorage.common.errors import MoorageError
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.engine.extension_points import CallTimer, Point
from moorage.scheduler.engine.phases import PERMIT_WAIT_PHASE, F, Phase
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.framework.status import Code, Status, Verdict


def time_phase(run: F, phase: Phase, profile: str, registry: CellRegistry) -> F:
    """Return the function with its duration recorded. The wait on permit has a separate metric."""
    read_code, is_wait, success = phase.read_code, phase is PERMIT_WAIT_PHASE, Code.SUCCESS
    durations = registry["scheduler_framework_extension_point_duration_seconds"]
    permit_waits = registry["scheduler_permit_wait_duration_seconds"]

    def find_cell(code: Code) -> Callable[[float], None]:
        if is_wait:
            return permit_waits.histogram(code.label).observe
        return durations.histogram(phase.point.name, code.label, profile).observe

    def record_wait(seconds: float) -> None:
        find_cell(Code.SUCCESS)(seconds)

    # A dozen phases run for every pod: success, the usual case, makes no calls but those of the clock. A histogram of
    # waits appears with the first wait.
    record_success = record_wait if is_wait else find_cell(Code.SUCCESS)

    def run_timed(*arguments: Any, **keywords: Any) -> Any:
        began = perf_counter()
        try:
            result = run(*arguments, **keywords)
        except MoorageError:
            find_cell(Code.ERROR)(perf_counter() - began)
            raise
        if result is None or read_code is None:
            record_success(perf_counter() - began)
        else:
            code = read_code(result)
            (record_success if code is success else find_cell(code))(perf_counter() - began)
        return result

    async def await_timed(*arguments: Any, **keywords: Any) -> Any:
        began = perf_counter()
        try:
            result = await run(*arguments, **keywords)
        except MoorageError:
            find_cell(Code.ERROR)(perf_counter() - began)
            raise
        if result is None or read_code is None:
            record_success(perf_counter() - began)
        else:
            code = read_code(result)
            (record_success if code is success else find_cell(code))(perf_counter() - began)
        return result

    timed: Any = await_timed if phase.is_async else run_timed
    return timed  # type: ignore[no-any-return]  # it has the signature of ``run``


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

    def override_timer(self, timer: CallTimer | None) -> None:
        """Let another timer take all calls of plugins until it is removed. It may forward them to this one."""
        self._over = timer
        self._set_timers()

    def _set_timers(self) -> None:
        timer = self._over or (self if self.is_sampling else None)
        for plugin in self._plugins:
            plugin._timer = timer

    def watch(self, profiles: Iterable[Profile]) -> None:
        """Sample the plugins of these profiles only, from now on."""
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
