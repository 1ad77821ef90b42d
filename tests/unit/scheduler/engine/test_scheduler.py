"""If any method of a plugin raises, the attempt fails with an error that names the plugin, and the scheduler continues.

Every plugin here raises for pods labeled ``unlucky`` only: ordinary pods must be placed before and after them.
"""

import signal
from asyncio import CancelledError
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from tests.support.engine import config_with, registry_with

from moorage.cluster.simulation.simulated_cluster import SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.nodeinfo import NodeInfo
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
from moorage.scheduler.framework.status import Code, IntArray, Status, Verdict
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod

UNLUCKY = make_pod("b-unlucky", labels={"unlucky": "yes"}, requests={"cpu": "1"})
PODS = (make_pod("a", requests={"cpu": "1"}), UNLUCKY, make_pod("c", requests={"cpu": "1"}))
NODES = (make_node("n1"), make_node("n2"))


class Fault:
    kind: type[BaseException] = RuntimeError


def fail_on(pod: Pod) -> None:
    if "unlucky" in pod.labels:
        raise Fault.kind("out of luck")


class Signs(FilterPlugin):
    def sign(self, pod: Pod) -> bool:
        fail_on(pod)
        return True

    def filter(self, *_: Any) -> Status | None:
        return None


class SignsWithAList(FilterPlugin):
    def sign(self, pod: Pod) -> Any:
        return ["no key"] if "unlucky" in pod.labels else True

    def filter(self, *_: Any) -> Status | None:
        return None


class Filters(FilterPlugin):
    def filter(self, _cycle: Any, pod: Pod, _node: Any) -> Status | None:
        return fail_on(pod)


class AnswersNonsense(FilterPlugin):
    def filter(self, _cycle: Any, pod: Pod, _node: Any) -> Any:
        return "out of luck" if "unlucky" in pod.labels else None


class PreFilters(PreFilterPlugin):
    def pre_filter(self, _cycle: Any, pod: Pod, _nodes: Any) -> None:
        return fail_on(pod)


class PreScores(PreScorePlugin):
    def pre_score(self, _cycle: Any, pod: Pod, _nodes: Any) -> None:
        return fail_on(pod)


class Scores(ScorePlugin):
    def score(self, _cycle: Any, pod: Pod, _node: Any) -> int:
        fail_on(pod)
        return 1


class Normalizes(ScorePlugin):
    def score(self, *_: Any) -> int:
        return 1

    def normalize_scores(self, _cycle: Any, pod: Pod, _nodes: Any, scores: IntArray) -> IntArray:
        fail_on(pod)
        return scores


class NormalizesToNothing(ScorePlugin):
    def score(self, *_: Any) -> int:
        return 1

    def normalize_scores(self, _cycle: Any, pod: Pod, _nodes: Any, scores: IntArray) -> Any:
        return "out of luck" if "unlucky" in pod.labels else scores


class Reserves(ReservePlugin):
    def reserve(self, _cycle: Any, pod: Pod, _node: str) -> None:
        return fail_on(pod)

    def unreserve(self, *_: Any) -> None:
        return None


class Permits(PermitPlugin):
    def permit(self, _cycle: Any, pod: Pod, _node: str) -> None:
        return fail_on(pod)


class FliesBefore(PreBindPlugin):
    def pre_bind_pre_flight(self, _cycle: Any, pod: Pod, _node: str) -> None:
        return fail_on(pod)

    async def pre_bind(self, *_: Any) -> None:
        return None


class PreBinds(PreBindPlugin):
    def pre_bind_pre_flight(self, *_: Any) -> None:
        return None

    async def pre_bind(self, _cycle: Any, pod: Pod, _node: str) -> None:
        return fail_on(pod)


class Binds(BindPlugin):
    async def bind(self, _cycle: Any, pod: Pod, _node: str) -> Status:
        fail_on(pod)
        return Status.skip()


class UnreservesBadly(ReservePlugin, PreBindPlugin):
    """Fails twice: before the bind, and in unreserve."""

    def reserve(self, *_: Any) -> None:
        return None

    def unreserve(self, *_: Any) -> None:
        raise RuntimeError("the books are lost")

    def pre_bind_pre_flight(self, *_: Any) -> None:
        return None

    async def pre_bind(self, _cycle: Any, pod: Pod, _node: str) -> None:
        return fail_on(pod)


RAISING: dict[str, type[Plugin]] = {
    "its signature": Signs,
    "a signature that cannot be a key": SignsWithAList,
    "filter": Filters,
    "filter that returns neither None nor a Status": AnswersNonsense,
    "pre_filter": PreFilters,
    "pre_score": PreScores,
    "score": Scores,
    "normalize_scores": Normalizes,
    "normalize_scores that returns no column": NormalizesToNothing,
    "reserve": Reserves,
    "permit": Permits,
    "pre_bind_pre_flight": FliesBefore,
    "pre_bind": PreBinds,
    "bind": Binds,
    "unreserve, after a failed pre_bind": UnreservesBadly,
}


@pytest.mark.parametrize("plugin", RAISING.values(), ids=RAISING)
def test_attempt_fails_with_the_plugin_name_and_other_pods_are_placed(plugin: type[Plugin]) -> None:
    world = schedule(plugin, first=True)
    assert set(world.bindings) == {PODS[0].uid, PODS[2].uid}
    [message] = {event.note for event in world.events if event.regarding.uid == UNLUCKY.uid}
    assert plugin.name in message
    assert "out of luck" in message or "return a hashable value" in message


@pytest.fixture
def _signals_as_in_a_daemon() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("_signals_as_in_a_daemon")
class Own(BaseException):
    """Not meant to be caught."""


class Speechless(Exception):
    """Cannot even be shown."""

    def __str__(self) -> str:
        raise Own

    __repr__ = __str__


class Garbled(Exception):
    """Has words that nothing can write, and too many of them."""

    def __str__(self) -> str:
        return "\ud800" * 3_000_000


FATAL = (SystemExit, KeyboardInterrupt, GeneratorExit, CancelledError, StopIteration, Own, Speechless, Garbled)


@pytest.mark.usefixtures("_signals_as_in_a_daemon")
@pytest.mark.parametrize("kind", FATAL)
@pytest.mark.parametrize("plugin", RAISING.values(), ids=RAISING)
def test_exit_exceptions_fail_only_the_attempt(
    plugin: type[Plugin], kind: type[BaseException], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Fault, "kind", kind)
    world = schedule(plugin, first=True)
    assert set(world.bindings) == {PODS[0].uid, PODS[2].uid}
    assert all(plugin.name in event.note for event in world.events if event.regarding.uid == UNLUCKY.uid)


@pytest.mark.usefixtures("_signals_as_in_a_daemon")
def test_message_names_the_replacement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Fault, "kind", SystemExit)
    [message] = {event.note for event in schedule(Filters).events if event.regarding.uid == UNLUCKY.uid}
    assert message == (
        'running "Filters" filter plugin: Filters.filter raised SystemExit: out of luck (test_scheduler.py:56), '
        "which is ignored here: "
        "return a Status with the reason, or raise an Exception"
    )


NO_WAITS: dict[str, Any] = {
    "no number": float("nan"),
    "less than nothing": -1.0,
    "a text": "soon",
    "nothing": None,
    "a truth": True,
}


@pytest.mark.parametrize("seconds", NO_WAITS.values(), ids=NO_WAITS)
def test_a_permit_that_waits_for(seconds: Any) -> None:
    class Waits(PermitPlugin):
        def permit(self, _cycle: Any, pod: Pod, _node: str) -> Wait | None:
            return Wait(seconds) if "unlucky" in pod.labels else None

    world = schedule(Waits)
    assert set(world.bindings) == {PODS[0].uid, PODS[2].uid}
    [message] = {event.note for event in world.events if event.regarding.uid == UNLUCKY.uid}
    assert message.startswith('running Permit plugin "Waits": Waits.permit (test_scheduler.py:')
    assert message.endswith("write Wait(seconds) with a number of 0 or more")


def test_a_permit_that_waits_for_ever_waits_for_fifteen_minutes() -> None:
    class Waits(PermitPlugin):
        def permit(self, _cycle: Any, pod: Pod, _node: str) -> Wait | None:
            return Wait(float("inf")) if "unlucky" in pod.labels else None

    world = schedule(Waits, seconds=1000.0)
    notes = {event.note for event in world.events if event.regarding.uid == UNLUCKY.uid}
    assert any("rejected due to timeout after waiting 15m0s at plugin Waits" in note for note in notes)


class Rescues(PostFilterPlugin):
    async def post_filter(self, _cycle: Any, pod: Pod, _statuses: Any) -> PostFilterResult:
        fail_on(pod)
        return PostFilterResult(Status.unschedulable())


class RescuesWithNothing(PostFilterPlugin):
    async def post_filter(self, *_: Any) -> Any:
        return None


@pytest.mark.parametrize(
    ("plugin", "problem"),
    [
        (Rescues, "out of luck"),
        (RescuesWithNothing, "returned None: return PostFilterResult(None, nominated_node="),
    ],
)
def test_post_filter_error_is_reported_with_the_reasons(plugin: type[Plugin], problem: str) -> None:
    huge = make_pod("huge", labels={"unlucky": "yes"}, requests={"cpu": "1000"})
    world = schedule(plugin, pods=(huge, PODS[0]), first=True)
    assert set(world.bindings) == {PODS[0].uid}
    [message] = {event.note for event in world.events if event.regarding.uid == huge.uid}
    assert message.startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert problem in message


class Mute:
    """A result that can be neither printed nor compared."""

    def __repr__(self) -> str:
        raise Own

    def __eq__(self, other: object) -> bool:
        raise Own

    def __hash__(self) -> int:
        return 7


ANSWERS = {"mute": Mute(), "long": "x" * 3_000_000, "a number that compares oddly": np.int64(5), "a class": Status}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize(
    ("kind", "method"),
    [
        (PreFilterPlugin, "pre_filter"),
        (FilterPlugin, "filter"),
        (FilterPlugin, "filter_nodes"),
        (PermitPlugin, "permit"),
    ],
)
def test_unprintable_result_fails_only_the_attempt(kind: type[Plugin], method: str, answer: Any) -> None:
    def answers(_self: Plugin, _cycle: Any, pod: Pod, where: Any) -> Any:
        if "unlucky" in pod.labels:
            return answer
        return Verdict.accept(len(where)) if method == "filter_nodes" else None

    world = schedule(type("Odd", (kind,), {method: answers}))
    assert set(world.bindings) == {PODS[0].uid, PODS[2].uid}


RESULTS: dict[str, tuple[type[Plugin], str, Any, str]] = {
    "True from filter": (FilterPlugin, "filter", True, "returned True: return None to accept the node, or Status.un"),
    "skip from filter": (
        FilterPlugin,
        "filter",
        Status.skip(),
        "returned Status(Skip): return None to accept the node",
    ),
    "wait as a status": (PermitPlugin, "permit", Status(Code.WAIT), "returned Status(Wait): return None to allow the "),
    "Go's two results": (PermitPlugin, "permit", (None, 5), "returned (None, 5): return None to allow the pod, Wait("),
    "a list of names": (PreFilterPlugin, "pre_filter", ["a"], "returned ['a']: return None, NodeNames(frozenset({"),
}


@pytest.mark.parametrize(("kind", "method", "answer", "message"), RESULTS.values(), ids=RESULTS)
def test_wrong_result_is_reported_with_its_line_and_legal_results(
    kind: type[Plugin], method: str, answer: Any, message: str
) -> None:
    def answers(_self: Plugin, _cycle: Any, pod: Pod, where: Any) -> Any:
        return answer if "unlucky" in pod.labels else None

    world = schedule(type("Odd", (kind,), {method: answers}))
    assert set(world.bindings) == {PODS[0].uid, PODS[2].uid}
    [note] = {event.note for event in world.events if event.regarding.uid == UNLUCKY.uid}
    assert f"Odd.{method} (test_scheduler.py:" in note
    assert message in note


@pytest.mark.parametrize("answer", [Mute(), np.int64(5)], ids=["mute", "a number that compares oddly"])
def test_signatures_that_cannot_be_compared_cost_attempts_only(answer: Any) -> None:
    class Odd(FilterPlugin):
        def sign(self, pod: Pod) -> Any:
            return answer if "unlucky" in pod.labels else ()

        def filter(self, *_: Any) -> Status | None:
            return None

    world = schedule(Odd, pods=(*PODS, replace(UNLUCKY, metadata=replace(UNLUCKY.metadata, name="d", uid="d"))))
    assert {PODS[0].uid, PODS[2].uid} <= set(world.bindings)


def test_unexpected_error_is_reported_and_fails_only_the_attempt(monkeypatch: pytest.MonkeyPatch) -> None:
    assume = Cache.assume

    def fail(cache: Cache, pod: Pod) -> None:
        if "unlucky" in pod.labels:
            raise ZeroDivisionError("ours")
        assume(cache, pod)

    monkeypatch.setattr(Cache, "assume", fail)
    world = schedule(pods=PODS, is_expected=False)
    assert set(world.bindings) == {PODS[0].uid, PODS[2].uid}
    [note] = {event.note for event in world.events if event.regarding.uid == UNLUCKY.uid}
    assert note.startswith("internal error: ZeroDivisionError: ours (test_scheduler.py:")


def test_a_post_bind_that_raises_changes_nothing() -> None:
    class Notes(PostBindPlugin):
        async def post_bind(self, _cycle: Any, pod: Pod, _node: str) -> None:
            fail_on(pod)

    assert set(schedule(Notes).bindings) == {pod.uid for pod in PODS}


def test_a_pre_enqueue_that_raises_holds_the_pod_back() -> None:
    class Holds(PreEnqueuePlugin):
        def pre_enqueue(self, pod: Pod) -> None:
            return fail_on(pod)

    assert set(schedule(Holds).bindings) == {PODS[0].uid, PODS[2].uid}


@pytest.mark.parametrize("answer", ["not yet", False, 0, RuntimeError("no")])
def test_pre_enqueue_with_an_invalid_result_gates_the_pod(answer: Any) -> None:
    class Holds(PreEnqueuePlugin):
        def pre_enqueue(self, pod: Pod) -> Any:
            return answer if "unlucky" in pod.labels else None

    assert set(schedule(Holds).bindings) == {PODS[0].uid, PODS[2].uid}


def test_an_epoch_that_raises_fails_attempts() -> None:
    class Dates(FilterPlugin):
        def sign(self, pod: Pod) -> bool:
            return True

        def epoch(self) -> Any:
            raise RuntimeError("out of time")

        def filter(self, *_: Any) -> Status | None:
            return None

    world = schedule(Dates)
    assert world.bindings == {}
    [note] = {event.note for event in world.events}
    assert note.startswith('running Epoch plugin "Dates": Dates.epoch raised RuntimeError: out of time (test_scheduler')


def out_of_luck() -> None:
    raise RuntimeError("out of luck")


FICKLE: dict[str, tuple[Callable[[], Any], str]] = {
    "it raises": (out_of_luck, "Fickle.score raised RuntimeError: out of luck (test_scheduler.py:"),
    "it returns a fraction": (lambda: 0.5, "returned 0.5: return an int from 0 to 100"),
    "it returns a string": (lambda: "high", "returned 'high': return an int from 0 to 100"),
    "it returns Go's two results": (lambda: (5, None), "returned (5, None): return an int from 0 to 100"),
    "it returns a number without end": (lambda: 2**70, "returned 1180591620717411303424: return an int from 0"),
}


@pytest.mark.parametrize(("answer", "message"), FICKLE.values(), ids=FICKLE)
def test_cached_score_that_fails_on_a_changed_node(answer: Callable[[], Any], message: str) -> None:
    class Fickle(ScorePlugin):
        def sign(self, pod: Pod) -> bool:
            return True

        def score(self, _cycle: Any, _pod: Pod, node: NodeInfo) -> Any:
            return answer() if node.pods else 1

    world = schedule(Fickle)
    assert set(world.bindings) == {PODS[0].uid}
    start = 'running Score plugins: plugin "Fickle" failed with: Fickle.score'
    assert any(event.note.startswith(start) and message in event.note for event in world.events)


def test_every_reserve_plugin_unreserves_even_if_one_fails() -> None:
    class Bookkeeper(ReservePlugin):
        given_back: list[str] = []

        def reserve(self, *_: Any) -> None:
            return None

        def unreserve(self, _cycle: Any, pod: Pod, _node: str) -> None:
            self.given_back.append(pod.name)

    schedule(Bookkeeper, UnreservesBadly)
    assert set(Bookkeeper.given_back) == {UNLUCKY.name}


def schedule(
    *plugins: type[Plugin],
    pods: Iterable[Pod] = PODS,
    first: bool = False,
    seconds: float = 60.0,
    is_expected: bool = True,
) -> SimulatedCluster:
    """Run a small cluster for a while of virtual time with plugins that misbehave."""
    clock = VirtualClock()

    async def work() -> SimulatedCluster:
        world = SimulatedCluster(clock)
        config = config_with(*plugins, first=first)
        simulation = Simulation(world, Policy(config, registry_with(*plugins), FeatureGates()), cross_check=False)
        objects: list[KubeObject] = [*NODES, *pods]
        simulation.load(objects)
        await simulation.run_until_quiet(max_seconds=seconds)
        simulation.scheduler.queue.check_invariants()
        assert (simulation.scheduler.unexpected is None) == is_expected
        return world

    return run_virtual(work(), clock)
