from typing import Any

import pytest
from tests.unit.scheduler.queue.queue_bench import (
    CLAIM_ADD,
    NODE_ADD,
    NODE_TAINT,
    POD_ADD,
    POD_DELETE,
    START,
    Bench,
    changed,
    put,
    ref,
)

from moorage.scheduler.framework.events import ClusterEvent, QueueingHint
from moorage.scheduler.framework.status import Status
from moorage.testing import make_pod

SKIP = QueueingHint.SKIP


# ── add and pop ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_pod_is_active_then_in_flight_then_gone() -> None:
    bench = Bench()
    pod = bench.add("p")
    assert bench.where("p") == "active"
    info = bench.pop("p")
    assert (bench.where("p"), info.attempts, info.timestamp) == ("in-flight", 1, START)
    assert info.initial_attempt_timestamp == START
    bench.queue.done(pod.uid)
    assert bench.where("p") is None
    assert bench.queue.pop() is None
    assert bench.counts.incoming == {("active", "UnscheduledPodAdd"): 1}
    assert bench.counts.events == {"PodPopped": 0}


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
def test_a_pod_created_anew_under_the_same_name_replaces_its_namesake(place: str) -> None:
    bench = Bench()
    put(bench, "p", place)
    again = make_pod("p", uid="second")
    bench.first.open()
    bench.queue.add(again)
    bench.check()
    assert bench.pop("p").pod is again
    assert bench.queue.pop() is None
    assert not +bench.counts.unschedulable


def test_a_pod_that_is_in_flight_and_queued_again_is_popped_once() -> None:
    bench = Bench()
    pod = bench.add("p")
    bench.pop("p")
    bench.queue.add(pod)
    bench.queue.add(make_pod("q"))
    assert bench.pop().pod.name == "q"
    assert bench.queue.pop() is None


def test_sizes_count_every_place() -> None:
    bench = Bench()
    for place in ("unschedulable", "gated", "backoff"):
        put(bench, place, place)
    bench.add("flying", priority=9)
    bench.pop("flying")
    bench.add("active")
    assert bench.queue.sizes() == (1, 1, 1, 1, 1, 0, 0)
    assert len(bench.queue) == 4
    assert sorted(info.pod.name for info in bench.queue) == ["active", "backoff", "gated", "unschedulable"]


# ── after a failed attempt (§ 4.5) ───────────────────────────────────────────────────────────────────────────────────

# (who turned it down, who of them is pending, what happened during the attempt, where it goes)
AFTER_ATTEMPT: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[ClusterEvent], str]] = {
    "an error: after the penalty": ((), (), [], "backoff"),
    "an error, whatever happened meanwhile": ((), (), [NODE_ADD], "backoff"),
    "turned down and nothing happened: wait for an event": (("Fit",), (), [], "unschedulable"),
    "something happened that does not help": (("Fit",), (), [NODE_TAINT], "unschedulable"),
    "something that helps happened: after the penalty": (("Fit",), (), [NODE_TAINT, NODE_ADD], "backoff"),
    "what it was pending for happened: at once": ((), ("Claims",), [CLAIM_ADD], "active"),
    "at once wins over after the penalty": (("Fit",), ("Claims",), [NODE_ADD, CLAIM_ADD], "active"),
    "one of two rejectors was helped": (("Fit", "Taint"), (), [NODE_TAINT], "backoff"),
    "no event can help against this plugin": (("Deaf",), (), [NODE_ADD, NODE_TAINT, POD_DELETE], "unschedulable"),
}


@pytest.mark.parametrize(("plugins", "pending", "events", "want"), AFTER_ATTEMPT.values(), ids=AFTER_ATTEMPT)
def test_after_a_failed_attempt(plugins: Any, pending: Any, events: list[ClusterEvent], want: str) -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    bench.clock.advance(3)
    for event in events:
        bench.move(event)
    assert bench.fail(info, *plugins, pending=pending) == want
    assert info.timestamp == START + 3
    assert bench.counts.incoming[want, "ScheduleAttemptFailure"] == 1
    assert +bench.counts.unschedulable == dict.fromkeys((*plugins, *pending), 1)
    assert not +bench.counts.events


def test_events_before_the_attempt_do_not_count() -> None:
    bench = Bench()
    bench.add("first", "second")
    first = bench.pop("first")
    bench.move(NODE_ADD)
    second = bench.pop("second")
    assert bench.fail(second, "Fit") == "unschedulable"
    assert bench.fail(first, "Fit") == "backoff"


def test_events_are_kept_as_long_as_somebody_popped_before_them_is_in_flight() -> None:
    bench = Bench()
    bench.add("first", "second", "third")
    first, second = bench.pop("first"), bench.pop("second")
    bench.move(NODE_ADD)
    third = bench.pop("third")
    bench.move(NODE_TAINT)
    bench.queue.done(first.uid)
    bench.check()
    assert +bench.counts.events == {"PodPopped": 2, "NodeAdd": 1, "NodeUpdateNodeTaint": 1}
    bench.queue.done(second.uid)
    bench.check()
    assert +bench.counts.events == {"PodPopped": 1, "NodeUpdateNodeTaint": 1}
    assert bench.fail(third, "Taint") == "backoff"
    assert not +bench.counts.events


def test_an_event_nobody_registered_for_is_not_even_remembered() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop("p")
    bench.move(POD_ADD)
    assert +bench.counts.events == {"PodPopped": 1}


def test_a_pod_whose_attempt_was_done_before_it_failed_is_retried_after_its_penalty() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    bench.queue.done(info.uid)
    assert bench.fail(info, "Fit") == "backoff"


def test_a_pod_comes_back_in_its_latest_version() -> None:
    bench = Bench()
    pod = bench.add("p")
    info = bench.pop("p")
    latest = changed(pod, labels={"a": "b"})
    info.rejected_by({"Fit"})
    bench.queue.add_unschedulable(info, latest)
    found = bench.queue.find(pod)
    assert found is not None
    assert found.pod is latest


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
def test_a_pod_does_not_come_back_when_its_name_is_taken(place: str) -> None:
    bench = Bench()
    bench.queue.add(make_pod("p", uid="old"))
    old = bench.pop("p")
    put(bench, "p", place)
    old.rejected_by({"Fit"})
    assert not bench.queue.add_unschedulable(old, old.pod)
    bench.check()
    assert bench.where("p") == place
    assert bench.queue.sizes().in_flight == 0
    found = bench.queue.find(ref("p"))
    assert found is not None
    assert found.uid == "uid-p"


# ── events (§ 4.6 – 4.8) ─────────────────────────────────────────────────────────────────────────────────────────────

# (who turned it down, pending, seconds since the attempt, event, hint's answer, where it goes)
EVENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], float, ClusterEvent, QueueingHint, str]] = {
    "helped during its penalty: to the backoff": (("Fit",), (), 0.5, NODE_ADD, QueueingHint.QUEUE, "backoff"),
    "in the second in which it ends, too": (("Fit",), (), 1.9, NODE_ADD, QueueingHint.QUEUE, "backoff"),
    "helped after its penalty: active": (("Fit",), (), 2, NODE_ADD, QueueingHint.QUEUE, "active"),
    "not helped": (("Fit",), (), 2, NODE_ADD, SKIP, "unschedulable"),
    "an event the plugin did not register for": (("Fit",), (), 2, NODE_TAINT, QueueingHint.QUEUE, "unschedulable"),
    "pending plugins skip the penalty": ((), ("Claims",), 0, CLAIM_ADD, QueueingHint.QUEUE, "active"),
    "other plugins' pods do not when none is pending": (("Claims",), (), 0, CLAIM_ADD, SKIP, "backoff"),
}


@pytest.mark.parametrize(("plugins", "pending", "wait", "event", "answer", "want"), EVENTS.values(), ids=EVENTS)
def test_events_wake_unschedulable_pods(
    plugins: Any, pending: Any, wait: float, event: ClusterEvent, answer: QueueingHint, want: str
) -> None:
    bench = Bench()
    bench.rejected("p", *plugins, pending=pending)
    bench.answers["Fit"] = answer
    bench.clock.advance(wait)
    bench.move(event)
    assert bench.where("p") == want
    if want != "unschedulable":
        assert bench.counts.incoming[want, event.label] == 1
    assert bench.counts.unschedulable[(*plugins, *pending)[0]] == 1


def test_the_timestamp_survives_moves() -> None:
    bench = Bench()
    info = bench.rejected("p", "Fit")
    bench.clock.advance(5)
    bench.move(NODE_ADD)
    assert (info.timestamp, info.initial_attempt_timestamp) == (START, START)


def test_pre_check_narrows_down_who_is_woken() -> None:
    bench = Bench()
    bench.rejected("low", "Fit", priority=1)
    bench.rejected("high", "Fit", priority=9)
    bench.move(POD_DELETE, pre_check=lambda pod: pod.priority <= 5)
    assert (bench.where("low"), bench.where("high")) == ("backoff", "unschedulable")


def test_popping_takes_the_rejectors_out_of_the_gauge_but_leaves_them_with_the_pod() -> None:
    bench = Bench()
    bench.rejected("p", "Fit", "Taint")
    bench.move(NODE_ADD)
    assert +bench.counts.unschedulable == {"Fit": 1, "Taint": 1}
    assert bench.pop("p").rejectors == {"Fit", "Taint"}
    assert not +bench.counts.unschedulable


# ── gates (§ 4.7) ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_gated_pod_gets_no_attempt() -> None:
    bench = Bench()
    bench.first.close("p")
    bench.add("p")
    assert bench.where("p") == "gated"
    assert bench.queue.pop() is None
    found = bench.queue.find(ref("p"))
    assert found is not None
    assert (found.gating_plugin, found.rejectors, found.attempts) == ("FirstDoor", {"FirstDoor"}, 0)
    assert found.initial_attempt_timestamp is None
    assert bench.counts.incoming == {("unschedulable", "UnscheduledPodAdd"): 1}
    assert +bench.counts.unschedulable == {"FirstDoor": 1}
    assert bench.asked == ["FirstDoor"]


def test_the_plugin_that_held_a_pod_back_is_asked_first() -> None:
    bench = Bench()
    bench.second.close("p")
    bench.add("p")
    assert bench.asked == ["FirstDoor", "SecondDoor"]
    bench.asked.clear()
    bench.queue.activate([ref("p")])
    bench.check()
    assert bench.asked == ["SecondDoor"]
    bench.asked.clear()
    bench.second.open()
    bench.first.close("p")
    bench.queue.activate([ref("p")])
    bench.check()
    assert bench.asked == ["SecondDoor", "FirstDoor"]
    found = bench.queue.find(ref("p"))
    assert found is not None
    assert (found.gating_plugin, found.rejectors) == ("FirstDoor", {"FirstDoor", "SecondDoor"})
    assert +bench.counts.unschedulable == {"FirstDoor": 1, "SecondDoor": 1}


def test_an_admitted_pod_forgets_its_gate_but_not_its_rejectors() -> None:
    bench = Bench()
    bench.first.close("p")
    bench.add("p")
    bench.first.open()
    bench.queue.activate([ref("p")])
    info = bench.pop("p")
    assert (info.gating_plugin, info.rejectors) == ("", {"FirstDoor"})
    assert not +bench.counts.unschedulable


# (which door, event, doors open meanwhile?, where it goes)
GATED_EVENTS = {
    "an event of another plugin is not even looked at": ("first", POD_DELETE, True, "gated"),
    "an event whose hint says no": ("second", POD_DELETE, True, "gated"),
}


@pytest.mark.parametrize(("door", "event", "opened", "want"), GATED_EVENTS.values(), ids=GATED_EVENTS)
def test_events_and_gated_pods(door: str, event: ClusterEvent, opened: bool, want: str) -> None:
    bench = Bench()
    gate = getattr(bench, door)
    gate.close("p")
    bench.add("p")
    if opened:
        gate.open()
    bench.move(event)
    assert bench.where("p") == want


@pytest.mark.parametrize("is_open", [True, False])
def test_a_gated_pod_is_asked_again_when_a_filters_hint_and_the_gates_event_agree(is_open: bool) -> None:
    # As with preemption: turned down by Fit, then held back until the victims are gone.
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    bench.second.close("p")
    bench.queue.activate([info.pod])
    assert bench.fail(info, "Fit") == "gated"
    bench.clock.advance(5)
    if is_open:
        bench.second.open()
    bench.move(NODE_ADD)
    assert bench.where("p") == "gated", "NodeAdd is no event of SecondDoor"
    bench.move(POD_DELETE)
    assert bench.where("p") == ("active" if is_open else "gated")


def test_only_those_are_asked_about_that_the_gate_may_let_in_by_now() -> None:
    bench = Bench()
    for name in ("p", "q"):
        bench.add(name)
        info = bench.pop(name)
        bench.second.close(name)
        bench.queue.activate([info.pod])
        assert bench.fail(info, "Fit") == "gated"
    bench.clock.advance(60)
    bench.second.open()
    bench.asked.clear()
    bench.second.news = []
    bench.move(POD_DELETE)
    assert bench.asked == []
    bench.second.news = ["default/p", "default/unknown"]
    bench.move(POD_DELETE)
    assert (bench.where("p"), bench.where("q")) == ("active", "gated")


def test_a_pod_is_asked_about_until_it_gets_in() -> None:
    bench = Bench()
    bench.second.close("p")
    bench.add("p")
    bench.second.open()
    bench.second.news = ["default/p"]
    bench.move(POD_DELETE)
    assert bench.where("p") == "gated", "the gate is open, and the hint says no"
    bench.asked.clear()
    bench.second.news = []
    bench.move(POD_DELETE)
    assert bench.asked == ["SecondDoor"]


def test_a_pod_that_is_still_held_back_is_not_asked_about_again() -> None:
    bench = Bench()
    bench.second.close("p")
    bench.add("p")
    bench.second.news = ["default/p"]
    bench.move(POD_DELETE)
    bench.asked.clear()
    bench.second.news = []
    bench.move(POD_DELETE)
    assert bench.asked == []


def test_gates_are_asked_on_the_way_into_the_backoff_and_not_on_the_way_out() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    bench.asked.clear()
    assert bench.fail(info) == "backoff"
    assert bench.asked == ["FirstDoor", "SecondDoor"]
    bench.first.close("p")
    bench.wait(3)
    assert bench.where("p") == "active"
    assert bench.asked == ["FirstDoor", "SecondDoor"]


def test_without_the_gate_it_is_the_other_way_round() -> None:
    bench = Bench(pop_from_backoff=False)
    bench.add("p")
    info = bench.pop("p")
    bench.asked.clear()
    bench.first.close("p")
    assert bench.fail(info) == "backoff"
    assert bench.asked == []
    bench.wait(3)
    assert bench.where("p") == "gated"


def test_a_pre_enqueue_plugin_that_raises_holds_the_pod_back() -> None:
    bench = Bench()
    bench.first.closed_for = None  # type: ignore[assignment]
    bench.queue.add(make_pod("p", uid="uid-p"))
    assert bench.where("p") == "gated"
    assert [failure[:2] for failure in bench.counts.failures] == [("FirstDoor", "p")]


def test_a_pre_enqueue_plugin_that_answers_with_an_error_holds_the_pod_back_and_is_reported() -> None:
    bench = Bench()
    bench.first.close("p", status=Status.error("no connection"))
    bench.add("p")
    assert bench.where("p") == "gated"
    assert bench.counts.failures == [("FirstDoor", "p", "no connection")]
