"""Timing single plugins in one cycle out of ten, at no cost in the other nine.

In sampled cycles every plugin has timed methods of its own, which are taken away when the next run is not sampled.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import wraps
from random import Random
from time import perf_counter
from typing import Any, Final

from moorage.app.metrics.cells import CellMetric, CellRegistry
from moorage.engine.profile import Profile
from moorage.engine.timing import Take
from moorage.framework.plugin import Plugin
from moorage.framework.status import Code, Status, Verdict

SHARE: Final = 0.1
RUN: Final = 10
"""So many cycles in a row are timed, or not: to give all plugins other methods takes longer than a cycle."""
ERROR: Final = Code.ERROR.label
SUCCESS: Final = Code.SUCCESS.label

#: The methods called within a scheduling cycle, and the extension point each belongs to.
CYCLE_METHODS: Final = {
    "pre_filter": "PreFilter",
    "filter": "Filter",
    "filter_nodes": "Filter",
    "add_pod": "PreFilterExtensionAddPod",
    "remove_pod": "PreFilterExtensionRemovePod",
    "pre_score": "PreScore",
    "score": "Score",
    "score_nodes": "Score",
    "normalize_scores": "ScoreExtensionNormalize",
    "reserve": "Reserve",
    "permit": "Permit",
}
#: Those that may wait; a pod is bound, or helped, a little after its cycle, so now and then another run decides.
WAITING_METHODS: Final = {"pre_bind": "PreBind", "bind": "Bind", "post_bind": "PostBind", "post_filter": "PostFilter"}


class ByStatus(dict[str, Take]):
    """What takes the seconds of one method, by the status it ended with."""

    def __init__(self, metric: CellMetric, plugin: str, point: str) -> None:
        super().__init__()
        self._metric = metric
        self._labels = (plugin, point)

    def __missing__(self, status: str) -> Take:
        take = self[status] = self._metric.histogram(*self._labels, status).observe
        return take


class PluginSampler:
    """Observes plugin_execution_duration_seconds."""

    def __init__(self, registry: CellRegistry, chance: Random) -> None:
        self._metric = registry["scheduler_plugin_execution_duration_seconds"]
        self._chance = chance
        self._profiles: list[Profile] = []
        self._timed: list[tuple[Plugin, str, Callable[..., Any]]] = []
        self._is_sampling = False
        self._left_of_run = 0
        self._nested = 0

    def watch(self, profiles: Iterable[Profile]) -> None:
        """Sample the plugins of these profiles from now on."""
        for profile in profiles:
            self._profiles.append(profile)
            for plugin in profile.plugins.values():
                self._timed += self._timed_methods(plugin)

    def cycle_begins(self) -> None:
        """Decide whether this cycle is one of those that are timed."""
        self._left_of_run -= 1
        if self._left_of_run > 0:
            return
        self._left_of_run = RUN
        is_sampling = self._chance.random() < SHARE
        if is_sampling and not self._is_sampling:
            for plugin, name, timed in self._timed:
                setattr(plugin, name, timed)
        elif self._is_sampling and not is_sampling:
            for plugin, name, _ in self._timed:
                delattr(plugin, name)
        if self._is_sampling != is_sampling:
            for profile in self._profiles:
                profile.asks_all = is_sampling
        self._is_sampling = is_sampling

    def _timed_methods(self, plugin: Plugin) -> Iterator[tuple[Plugin, str, Callable[..., Any]]]:
        for name, point in CYCLE_METHODS.items():
            if (method := getattr(plugin, name, None)) is not None:
                yield plugin, name, self._timing(plugin.name, point, method)
        for name, point in WAITING_METHODS.items():
            if (method := getattr(plugin, name, None)) is not None:
                yield plugin, name, self._timing_waiting(plugin.name, point, method)

    def _timing(self, plugin: str, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
        seconds = ByStatus(self._metric, plugin, point)

        @wraps(method)
        def timed(*arguments: Any, **named: Any) -> Any:
            if self._nested:
                # One form of a plugin calling the other is one execution.
                return method(*arguments, **named)
            self._nested += 1
            began, status = perf_counter(), ERROR
            try:
                answer = method(*arguments, **named)
                status = status_of(answer)
                return answer
            finally:
                self._nested -= 1
                seconds[status](perf_counter() - began)

        return timed

    def _timing_waiting(self, plugin: str, point: str, method: Callable[..., Any]) -> Callable[..., Any]:
        seconds = ByStatus(self._metric, plugin, point)

        @wraps(method)
        async def timed(*arguments: Any, **named: Any) -> Any:
            began, status = perf_counter(), ERROR
            try:
                answer = await method(*arguments, **named)
                status = status_of(answer)
                return answer
            finally:
                seconds[status](perf_counter() - began)

        return timed


def status_of(answer: object) -> str:
    """Return the code of what a plugin answered; anything that is no Status is a success."""
    if answer is None:
        return SUCCESS
    if isinstance(answer, Status):
        return answer.code.label
    if isinstance(answer, Verdict) and answer.rejections:
        return Code.UNSCHEDULABLE.label
    return SUCCESS
