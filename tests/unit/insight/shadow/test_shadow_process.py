"""The state of a shadow process: its buffer, its requests and its health, without a process."""

from collections import Counter
from pathlib import Path
from time import monotonic

import pytest

from moorage.cluster.offline import DiscardingApi
from moorage.common.clock import VirtualClock
from moorage.insight.shadow import shadow_process
from moorage.insight.shadow.feed import ShadowFeed
from moorage.insight.shadow.messages import AGREES, ERROR, Comparison, ShadowBroken, ShadowSynced
from moorage.insight.shadow.shadow_process import (
    BUSY,
    LOST,
    RESPONSE_SECONDS,
    START_SECONDS,
    STARTING,
    ShadowEvents,
    ShadowPlan,
    ShadowRun,
    ShadowUnusable,
)
from moorage.scheduler.wiring.assembly import assemble
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

PLAN = ShadowPlan(Path("shadow.yaml"), max_memory=100 << 20)


class Recorded(ShadowEvents):
    """Records the events of a shadow."""

    def __init__(self) -> None:
        self.lost: Counter[str] = Counter()
        self.compared_pods: list[str] = []
        self.ups: list[bool] = []

    def compared(self, comparison: Comparison) -> None:
        self.compared_pods.append(comparison.pod)

    def dropped(self, reason: str, count: int) -> None:
        self.lost[reason] += count

    def is_up(self, *, up: bool) -> None:
        self.ups.append(up)


class Scene:
    """A shadow with a process that was never started."""

    def __init__(self, *, is_synced: bool = True) -> None:
        self.feed, self.events = ShadowFeed(VirtualClock(), 100.0), Recorded()
        parts = assemble(load_policy(collect_plugins()), DiscardingApi(), VirtualClock())
        self.run = ShadowRun(PLAN, self.feed, parts.scheduler, self.events)
        if is_synced:
            self.run.take(ShadowSynced())


def comparison(number: int, result: str) -> Comparison:
    return Comparison(number, "now", f"default/p{number}", "default-scheduler", result, message="a plugin raised")


def test_shadow_is_ready_with_the_complete_cluster() -> None:
    scene = Scene(is_synced=False)
    assert scene.events.ups == []
    scene.run.take(ShadowSynced())
    assert scene.events.ups == [True]


def test_request_before_the_shadow_has_the_cluster_is_dropped() -> None:
    scene = Scene(is_synced=False)
    assert not scene.run.accepts_requests()
    assert scene.events.lost == {STARTING: 1}


def test_request_beyond_the_limit_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_process, "MAX_REQUESTS", 2)
    scene = Scene()
    scene.feed.pending_requests = {1: 0.0}
    assert scene.run.accepts_requests()
    scene.feed.pending_requests = {1: 0.0, 2: 0.0}
    assert not scene.run.accepts_requests()
    assert scene.events.lost == {BUSY: 1}


def test_full_buffer_ends_the_shadow_and_rejects_messages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_process, "MAX_BUFFER", 1 << 10)
    scene = Scene()
    scene.run.put(b"x" * 1024)
    assert scene.run.find_problem(monotonic(), 0) == ""
    scene.run.put(b"x")
    assert scene.run.find_problem(monotonic(), 0) == "it is too slow: 1 KiB of changes are pending"
    scene.run.put(b"x" * 500)
    assert scene.run.pending_bytes == 1025
    assert not scene.run.accepts_requests()
    assert scene.events.lost == {LOST: 1}


def test_buffer_may_grow_while_the_shadow_receives_the_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_process, "MAX_BUFFER", 1 << 10)
    scene = Scene(is_synced=False)
    scene.run.put(b"x" * 5000)
    assert scene.run.find_problem(monotonic(), 0) == ""


PROBLEMS = {
    "a pending request is not late at the limit": (True, 0.0, RESPONSE_SECONDS, 0, ""),
    "a pending request is late": (True, 0.0, RESPONSE_SECONDS + 1, 0, "no response for 30 s"),
    "a shadow may take its time to start": (False, None, START_SECONDS - 1, 0, ""),
    "a shadow that never starts is ended": (False, None, START_SECONDS + 1, 0, "not ready within 120 s"),
    "a ready shadow has no start timeout": (True, None, START_SECONDS + 1, 0, ""),
    "memory at the limit is allowed": (True, None, 0.0, 100 << 20, ""),
    "memory above the limit is not": (True, None, 0.0, 101 << 20, "it uses 101 MiB of memory; the limit is 100 MiB"),
}


@pytest.mark.parametrize(("is_synced", "sent_at", "seconds", "memory", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_problem_of_a_process(
    is_synced: bool,
    sent_at: float | None,
    seconds: float,
    memory: int,
    problem: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(shadow_process, "monotonic", lambda: 1000.0)
    scene = Scene(is_synced=is_synced)
    if sent_at is not None:
        scene.feed.pending_requests = {1: 1000.0 + sent_at, 2: 1000.0 + sent_at + seconds}
    assert scene.run.find_problem(1000.0 + seconds, memory) == problem


def test_comparison_ends_its_request_and_is_reported() -> None:
    scene = Scene()
    scene.feed.pending_requests = {7: 0.0, 8: 0.0}
    scene.run.take(comparison(7, AGREES))
    assert (scene.feed.pending_requests, scene.events.compared_pods) == ({8: 0.0}, ["default/p7"])


def test_only_consecutive_errors_disable_the_shadow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shadow_process, "MAX_ERRORS", 2)
    scene = Scene()
    for result in (ERROR, AGREES, ERROR):
        scene.run.take(comparison(1, result))
    with pytest.raises(ShadowUnusable, match="2 errors in a row, the last: a plugin raised"):
        scene.run.take(comparison(2, ERROR))


def test_broken_configuration_is_not_restarted() -> None:
    with pytest.raises(ShadowUnusable, match="unknown plugin"):
        Scene().run.take(ShadowBroken("unknown plugin"))
