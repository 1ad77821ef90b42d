"""Every extension point × every invalid result: only this attempt fails, with an error that names the plugin.

Ordinary pods are placed before and after the unlucky pods. The plugin returns another result for each case.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from tests.unit.scheduler.engine.test_scheduler import _signals_as_in_a_daemon, schedule

from moorage.common.text import MAX_NOTE_BYTES
from moorage.scheduler.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreScorePlugin,
    ReservePlugin,
    ScorePlugin,
    Wait,
)
from moorage.scheduler.framework.status import Status, Verdict
from moorage.testing import make_pod

__all__ = ["_signals_as_in_a_daemon", "coroutines_are_closed"]

ORDINARY = tuple(make_pod(name, requests={"cpu": "100m"}, priority=1000) for name in ("a", "z"))
VICTIMS = tuple(make_pod(f"victim-{node}", node=node, requests={"cpu": "3"}) for node in ("n1", "n2"))


class Recursing:
    """A result with attributes of infinite depth."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self, name + "x")


async def _never_awaited() -> None:
    """Be returned without being awaited."""


_MADE: list[Coroutine[Any, Any, None]] = []


def _coroutine() -> Coroutine[Any, Any, None]:
    _MADE.append(_never_awaited())
    return _MADE[-1]


@pytest.fixture(autouse=True)
def coroutines_are_closed() -> Iterator[None]:
    """Close coroutines that were not awaited, to avoid warnings in later tests."""
    yield
    while _MADE:
        _MADE.pop().close()


async def _async_generator() -> AsyncIterator[None]:
    yield None


def _generator() -> Iterator[None]:
    yield None


def _recurse() -> None:
    _recurse()


def _exhaust() -> None:
    raise MemoryError


def _raising(kind: type[BaseException]) -> Callable[[], Any]:
    def fail() -> None:
        raise kind("out of luck")

    return fail


ANSWERS: dict[str, Callable[[], Any]] = {
    "nothing": lambda: None,
    "a text": lambda: "x" * 100_000,
    "bytes": lambda: b"\xff",
    "a truth": lambda: True,
    "a number": lambda: 5,
    "a fraction": lambda: 1.5,
    "no number": lambda: float("nan"),
    "without end": lambda: float("inf"),
    "of 400 digits": lambda: 10**400,
    "of 9,000 digits": lambda: 10**9000,
    "less than nothing": lambda: -(2**63) - 1,
    "a list": lambda: [None, 5],
    "a dict": lambda: {"a": object()},
    "an object": object,
    "a class": lambda: Status,
    "an error": lambda: RuntimeError("out of luck"),
    "a function": lambda: _recurse,
    "a coroutine": _coroutine,
    "a generator": _generator,
    "an asynchronous generator": _async_generator,
    "an array of another length": lambda: np.zeros(17, dtype=np.int64),
    "an array of fractions": lambda: np.full(2, np.nan),
    "an array of objects": lambda: np.array([object(), None]),
    "an array of truths": lambda: np.array([True, False]),
    "a status of wrong types": lambda: Status(5),  # type: ignore[arg-type]
    "a wait of wrong types": lambda: Wait([1]),  # type: ignore[arg-type]
    "a verdict of wrong types": lambda: Verdict(2, ((np.array([True]), "no"),)),  # type: ignore[arg-type]
    "a result of wrong types": lambda: PostFilterResult(5, nominated_node=[7], victims=9, message=3),  # type: ignore[arg-type]
    "what recurses when looked at": Recursing,
    "endless recursion": _recurse,
    "no memory": _exhaust,
    **{f"{kind.__name__}": _raising(kind) for kind in (SystemExit, KeyboardInterrupt, GeneratorExit, StopIteration)},
    **{f"{kind.__name__}": _raising(kind) for kind in (asyncio.CancelledError, StopAsyncIteration, BaseException)},
}


SILENT = ("pre_enqueue", "add_pod", "remove_pod")
"""Results of these methods cause no event, or only if no node is feasible otherwise."""


class Point(NamedTuple):
    """A method, its result for ordinary pods, and the CPU request with which other pods reach it."""

    kind: type[Plugin]
    method: str
    ordinary: Callable[..., Any] = lambda *_: None
    cpu: str = "1m"
    is_async: bool = False
    fillers: dict[str, Any] = {}
    pod_at: int = 1


async def _nothing(*_: Any) -> None:
    """Do nothing."""


async def _skip(*_: Any) -> Status:
    return Status.skip()


def _none(*_: Any) -> None:
    return None


POINTS: dict[str, Point] = {
    "pre_enqueue": Point(PreEnqueuePlugin, "pre_enqueue", pod_at=0),
    "sign": Point(FilterPlugin, "sign", lambda *_: (), fillers={"filter": _none}, pod_at=0),
    "pre_filter": Point(PreFilterPlugin, "pre_filter"),
    "filter": Point(FilterPlugin, "filter"),
    "filter_nodes": Point(FilterPlugin, "filter_nodes", lambda _c, _p, nodes: Verdict.accept(len(nodes))),
    "pre_score": Point(PreScorePlugin, "pre_score"),
    "score": Point(ScorePlugin, "score", lambda *_: 1),
    "score_nodes": Point(ScorePlugin, "score_nodes", lambda _c, _p, nodes: np.ones(len(nodes), dtype=np.int64)),
    "normalize_scores": Point(
        ScorePlugin, "normalize_scores", lambda _c, _p, _n, scores: scores, fillers={"score": lambda *_: 1}
    ),
    "remove_pod": Point(PreFilterPlugin, "remove_pod", cpu="3500m", fillers={"pre_filter": _none, "add_pod": _none}),
    "add_pod": Point(PreFilterPlugin, "add_pod", cpu="3500m", fillers={"pre_filter": _none, "remove_pod": _none}),
    "post_filter": Point(PostFilterPlugin, "post_filter", _none, "1000", is_async=True),
    "reserve": Point(ReservePlugin, "reserve", fillers={"unreserve": _none}),
    "unreserve": Point(ReservePlugin, "unreserve", fillers={"reserve": _none}),
    "permit": Point(PermitPlugin, "permit"),
    "pre_bind_pre_flight": Point(PreBindPlugin, "pre_bind_pre_flight", fillers={"pre_bind": _nothing}),
    "pre_bind": Point(PreBindPlugin, "pre_bind", is_async=True, fillers={"pre_bind_pre_flight": _none}),
    "bind": Point(BindPlugin, "bind", lambda *_: Status.skip(), is_async=True),
    "post_bind": Point(PostBindPlugin, "post_bind", is_async=True),
}


def odd_plugin(point: Point, answers: dict[str, Callable[[], Any]], *, is_async: bool) -> type[Plugin]:
    """Create a plugin that returns valid results for ordinary pods, and one invalid result for each other pod."""

    def respond(_self: Plugin, *arguments: Any) -> Any:
        odd = arguments[point.pod_at].labels.get("odd")
        return point.ordinary(*arguments) if odd is None else answers[odd]()

    async def wait(self: Plugin, *arguments: Any) -> Any:
        return respond(self, *arguments)

    return type("Odd", (point.kind,), {point.method: wait if is_async else respond, **point.fillers})


@pytest.mark.usefixtures("_signals_as_in_a_daemon")
@pytest.mark.filterwarnings("ignore:coroutine .* was never awaited")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("point", POINTS.values(), ids=POINTS)
def test_every_invalid_result_fails_only_the_attempt(point: Point) -> None:
    # A bind plugin that returns None has bound the pod.
    names = [name for name in ANSWERS if point.method != "bind" or name != "nothing"]
    check(point, odd_plugin(point, ANSWERS, is_async=point.is_async), names)


def check(point: Point, plugin: type[Plugin], names: Iterable[str]) -> None:
    unlucky = [
        make_pod(f"m-{number}", labels={"odd": name}, requests={"cpu": point.cpu}, priority=100)
        for number, name in enumerate(names)
    ]
    first, last = ORDINARY
    world = schedule(plugin, pods=(*VICTIMS, first, *unlucky, last), first=True, seconds=20.0)
    assert {pod.uid for pod in ORDINARY} <= set(world.bindings)
    for pod in unlucky:
        notes = [event.note for event in world.events if event.regarding.uid == pod.uid and event.is_warning]
        assert all(len(note.encode()) <= MAX_NOTE_BYTES for note in notes)
        assert not any("internal error" in note for note in notes), f"{pod.labels}: {notes}"
        if pod.uid not in world.bindings and point.method not in SILENT:
            assert any("Odd" in note or "0/2 nodes" in note for note in notes), f"{pod.labels}: {notes}"
