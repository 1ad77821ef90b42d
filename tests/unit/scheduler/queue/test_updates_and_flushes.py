from typing import Any

import pytest
from tests.unit.scheduler.queue.queue_bench import LABELS, NODE_ADD, START, Bench, changed, put, ref

from moorage.scheduler.queue.observer import Story
from moorage.testing import make_pod

# ── update and delete (§ 4.9) ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("queue_name", ["active", "backoff", "unschedulable", "gated"])
def test_an_update_that_changes_nothing_of_interest_replaces_the_pod_where_it_is(queue_name: str) -> None:
    bench = Bench()
    old = put(bench, "p", queue_name)
    new = changed(old, priority=100, image="app:2")
    bench.update(old, new)
    assert bench.where("p") == queue_name
    entry = bench.queue.find(old)
    assert entry is not None
    assert entry.pod is new


def test_an_update_of_an_unknown_pod_adds_it() -> None:
    bench = Bench()
    pod = make_pod("p", uid="uid-p")
    bench.update(pod, changed(pod, labels={"a": "b"}))
    assert bench.where("p") == "active"


UPDATES: dict[str, tuple[tuple[str, ...], dict[str, Any], float, str]] = {
    "a change that cures, during the penalty": (("Taint",), {"tolerates": ["x"]}, 0, "backoff"),
    "a change that cures, after the penalty": (("Taint",), {"tolerates": ["x"]}, 2, "active"),
    "a change that does not": (("Taint",), {"labels": {"a": "b"}}, 2, "unschedulable"),
    "two changes, of which one cures": (("Taint",), {"labels": {"a": "b"}, "tolerates": ["x"]}, 2, "active"),
    "nothing helps against a deaf plugin": (("Deaf",), {"tolerates": ["x"]}, 2, "unschedulable"),
}


@pytest.mark.parametrize(("plugins", "fields", "wait", "want"), UPDATES.values(), ids=UPDATES)
def test_an_update_may_requeue_an_unschedulable_pod(plugins: Any, fields: Any, wait: float, want: str) -> None:
    bench = Bench()
    info = bench.rejected("p", *plugins)
    bench.clock.advance(wait)
    bench.update(info.pod, changed(info.pod, **fields))
    assert bench.where("p") == want


@pytest.mark.parametrize("opened", [True, False])
def test_an_update_may_open_a_gate(opened: bool) -> None:
    bench = Bench()
    bench.first.close("p")
    pod = bench.add("p")
    if opened:
        bench.first.open()
    bench.update(pod, changed(pod, labels={"a": "b"}))
    assert bench.where("p") == ("active" if opened else "gated")
    assert bench.counts.incoming[("active", LABELS.label)] == opened
    assert bench.counts.incoming[("unschedulable", LABELS.label)] == 0


def test_an_update_in_flight_counts_when_the_attempt_fails() -> None:
    bench = Bench()
    pod = bench.add("p")
    info = bench.pop("p")
    bench.update(pod, changed(pod, tolerates=["x"]))
    assert bench.where("p") == "in-flight"
    assert bench.fail(info, "Taint") == "backoff"


@pytest.mark.parametrize("queue_name", ["active", "backoff", "unschedulable", "gated"])
def test_a_deleted_pod_is_gone(queue_name: str) -> None:
    bench = Bench()
    pod = put(bench, "p", queue_name)
    bench.queue.delete(pod)
    bench.check()
    assert bench.where("p") is None
    assert bench.queue.pop() is None
    assert not +bench.counts.unschedulable


def test_a_pod_deleted_in_flight_stays_in_flight_until_done() -> None:
    bench = Bench()
    pod = bench.add("p")
    bench.pop("p")
    bench.queue.delete(pod)
    assert bench.where("p") == "in-flight"


# ── activate and flush (§ 4.9) ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("queue_name", ["backoff", "unschedulable"])
def test_activated_pods_skip_their_backoff(queue_name: str) -> None:
    bench = Bench()
    pod = put(bench, "p", queue_name)
    bench.calls.clear()
    bench.queue.activate([pod])
    bench.check()
    assert bench.where("p") == "active"
    assert bench.counts.incoming["active", "ForceActivate"] == 1
    assert bench.calls == ([] if queue_name == "backoff" else ["FirstDoor", "SecondDoor"])


def test_a_pod_activated_after_an_error_skips_its_backoff() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    bench.fail(info)
    bench.queue.activate([info.pod])
    bench.check()
    assert bench.where("p") == "active"


def test_activating_an_in_flight_pod_retries_only_this_pod_after_its_backoff() -> None:
    bench = Bench()
    bench.add("a", "b")
    a, b = bench.pop("a"), bench.pop("b")
    bench.queue.activate([a.pod])
    assert +bench.counts.events == {"PodPopped": 2, "ForceActivate": 1}
    assert bench.fail(a, "Deaf") == "backoff"
    assert bench.fail(b, "Deaf") == "unschedulable"


def test_activating_an_unknown_or_active_pod_does_nothing() -> None:
    bench = Bench()
    pod = bench.add("p")
    bench.queue.activate([pod, ref("unknown")])
    bench.check()
    assert bench.queue.sizes() == (1, 0, 0, 0, 0, 0, 0)
    assert bench.counts.incoming == {("active", "UnscheduledPodAdd"): 1}


def test_pods_unschedulable_for_more_than_five_minutes_are_flushed_at_the_next_half_minute() -> None:
    bench = Bench(start=START)
    bench.clock.advance(10)
    info = bench.rejected("p", "Deaf")
    assert bench.queue.next_wakeup() == START + 330
    bench.wait(START + 330 - bench.clock.now() - 0.01)
    assert bench.where("p") == "unschedulable"
    bench.wait(0.01)
    assert bench.where("p") == "active"
    assert (info.was_flushed, info.flush_timestamp, info.timestamp) == (True, START + 330, START + 10)
    assert bench.counts.incoming["active", "UnschedulableTimeout"] == 1


def test_exactly_five_minutes_are_not_more_than_five_minutes() -> None:
    bench = Bench()
    bench.rejected("p", "Deaf")
    assert bench.queue.next_wakeup() == START + 330


def test_how_long_pods_may_be_unschedulable_is_configurable() -> None:
    bench = Bench(max_unschedulable=45)
    bench.rejected("p", "Deaf")
    assert bench.queue.next_wakeup() == START + 60


def test_a_flushed_pod_that_fails_again_starts_over() -> None:
    bench = Bench()
    info = bench.rejected("p", "Deaf")
    bench.wait(330)
    bench.pop("p")
    bench.fail(info, "Deaf")
    assert (info.was_flushed, info.flush_timestamp) == (False, None)


def test_a_flush_calls_gates_again_and_a_gated_pod_waits_another_five_minutes() -> None:
    bench = Bench()
    bench.first.close("p")
    bench.add("p")
    bench.calls.clear()
    bench.wait(330)
    entry = bench.queue.find(ref("p"))
    assert entry is not None
    assert (bench.where("p"), bench.calls) == ("gated", ["FirstDoor"])
    assert (entry.was_flushed, entry.flush_timestamp) == (False, START + 330)
    assert bench.queue.next_wakeup() == START + 660
    bench.first.open()
    bench.wait(330)
    assert bench.where("p") == "active"


def test_a_flush_also_helps_pods_in_flight() -> None:
    bench = Bench()
    bench.rejected("old", "Deaf")
    bench.wait(320)
    bench.add("flying")
    info = bench.pop("flying")
    bench.wait(20)
    assert bench.fail(info, "Deaf") == "backoff"


def test_a_flush_that_moves_no_pod_is_not_recorded() -> None:
    bench = Bench()
    bench.wait(320)
    bench.add("flying")
    info = bench.pop("flying")
    bench.wait(20)
    assert bench.fail(info, "Deaf") == "unschedulable"


def test_an_empty_queue_has_no_wakeup() -> None:
    bench = Bench()
    assert bench.queue.next_wakeup() is None
    bench.add("p")
    assert bench.queue.next_wakeup() is None


# ── the story of a pod ───────────────────────────────────────────────────────────────────────────────────────────────


def test_story_returns_the_moves_of_a_pod() -> None:
    story = Story(length=5)
    bench = Bench(observer=story)
    pod = bench.add("p")
    bench.add("other")
    bench.fail(bench.pop("p"), "Fit")
    assert [(step.queue, step.event) for step in story.of(pod)] == [
        ("active", "UnscheduledPodAdd"),
        ("in-flight", "attempt 1"),
        ("unschedulable", "ScheduleAttemptFailure"),
    ]
    bench.move(NODE_ADD)
    bench.wait(5)
    assert [(step.queue, step.event) for step in story.of(pod)] == [
        ("in-flight", "attempt 1"),
        ("unschedulable", "ScheduleAttemptFailure"),
        ("backoff", "NodeAdd"),
        ("active", "BackoffComplete"),
    ]
