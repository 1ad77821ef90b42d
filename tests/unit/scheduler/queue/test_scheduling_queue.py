from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.queue.queue_bench import (
    CLAIM_ADD,
    LABELS,
    NODE_ADD,
    NODE_TAINT,
    POD_ADD,
    POD_DELETE,
    PROFILE,
    START,
    Bench,
    ByNameBackwards,
    ByPriority,
    Door,
    changed,
    put,
    ref,
)

from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.framework.events import CONFIGURATION_CHANGED, ClusterEvent, EventRegistration, QueueingHint
from moorage.scheduler.framework.plugin import QueuedPod, QueueSortPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.gates import ProfileQueueing, Queueing
from moorage.scheduler.queue.observer import QueueObserver
from moorage.testing import make_pod

SKIP = QueueingHint.SKIP


# ── add and pop ──────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_new_pod_is_active_then_in_flight_then_removed() -> None:
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


def test_a_suspended_attempt_continues_immediately_if_no_other_pod_is_active() -> None:
    bench = Bench()
    bench.add("p")
    bench.queue.suspend(bench.pop("p"))
    assert (bench.where("p"), bench.counts.incoming["active", "AttemptSuspended"]) == ("active", 1)
    assert bench.pop("p").attempts == 1


def test_suspended_attempt_yields_to_active_pods() -> None:
    bench = Bench()
    bench.add("p")
    bench.add("q")
    bench.queue.suspend(bench.pop("p"))
    assert bench.where("p") == "backoff"
    bench.pop("q")
    assert bench.queue.pop() is None
    bench.wait(2.0)
    assert bench.pop("p").attempts == 1


@pytest.mark.parametrize("queue_name", ["active", "backoff", "unschedulable", "gated"])
def test_a_recreated_pod_replaces_the_previous_pod(queue_name: str) -> None:
    bench = Bench()
    put(bench, "p", queue_name)
    again = make_pod("p", uid="second")
    bench.first.open()
    bench.queue.add(again)
    bench.check()
    assert bench.pop("p").pod is again
    assert bench.queue.pop() is None
    assert not +bench.counts.unschedulable


def test_a_pod_that_is_in_flight_and_requeued_is_popped_once() -> None:
    bench = Bench()
    pod = bench.add("p")
    bench.pop("p")
    bench.queue.add(pod)
    bench.queue.add(make_pod("q"))
    assert bench.pop().pod.name == "q"
    assert bench.queue.pop() is None


def test_sizes_count_every_queue() -> None:
    bench = Bench()
    for queue_name in ("unschedulable", "gated", "backoff"):
        put(bench, queue_name, queue_name)
    bench.add("flying", priority=9)
    bench.pop("flying")
    bench.add("active")
    assert bench.queue.sizes() == (1, 1, 1, 1, 1, 0, 0)
    assert len(bench.queue) == 4
    assert sorted(info.pod.name for info in bench.queue) == ["active", "backoff", "gated", "unschedulable"]


# ── after a failed attempt (§ 4.5) ───────────────────────────────────────────────────────────────────────────────────

# (rejecting plugins, pending plugins, events during the attempt, target queue)
AFTER_ATTEMPT: dict[str, tuple[tuple[str, ...], tuple[str, ...], list[ClusterEvent], str]] = {
    "an error: after the penalty": ((), (), [], "backoff"),
    "an error, regardless of events": ((), (), [NODE_ADD], "backoff"),
    "rejected without an event: wait for one": (("Fit",), (), [], "unschedulable"),
    "something happened that does not help": (("Fit",), (), [NODE_TAINT], "unschedulable"),
    "something that helps happened: after the penalty": (("Fit",), (), [NODE_TAINT, NODE_ADD], "backoff"),
    "the pending event happened: immediately": ((), ("Claims",), [CLAIM_ADD], "active"),
    "immediate retry wins over backoff": (("Fit",), ("Claims",), [NODE_ADD, CLAIM_ADD], "active"),
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


def test_events_are_kept_while_a_pod_popped_before_them_is_in_flight() -> None:
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


def test_an_event_without_registration_is_not_recorded() -> None:
    bench = Bench()
    bench.add("p")
    bench.pop("p")
    bench.move(POD_ADD)
    assert +bench.counts.events == {"PodPopped": 1}


def test_a_pod_with_an_attempt_that_was_done_before_it_failed_is_retried_after_its_backoff() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    bench.queue.done(info.uid)
    assert bench.fail(info, "Fit") == "backoff"


def test_a_pod_is_requeued_in_its_latest_version() -> None:
    bench = Bench()
    pod = bench.add("p")
    info = bench.pop("p")
    latest = changed(pod, labels={"a": "b"})
    info.rejected_by({"Fit"})
    bench.queue.add_unschedulable(info, latest)
    entry = bench.queue.find(pod)
    assert entry is not None
    assert entry.pod is latest


@pytest.mark.parametrize("queue_name", ["active", "backoff", "unschedulable", "gated"])
def test_a_pod_is_not_requeued_if_its_name_is_in_the_queue(queue_name: str) -> None:
    bench = Bench()
    bench.queue.add(make_pod("p", uid="old"))
    old = bench.pop("p")
    put(bench, "p", queue_name)
    old.rejected_by({"Fit"})
    assert not bench.queue.add_unschedulable(old, old.pod)
    bench.check()
    assert bench.where("p") == queue_name
    assert bench.queue.sizes().in_flight == 0
    entry = bench.queue.find(ref("p"))
    assert entry is not None
    assert entry.uid == "uid-p"


# ── events (§ 4.6 – 4.8) ─────────────────────────────────────────────────────────────────────────────────────────────

# (rejecting plugins, pending plugins, seconds since the attempt, event, result of the hint, target queue)
EVENTS: dict[str, tuple[tuple[str, ...], tuple[str, ...], float, ClusterEvent, QueueingHint, str]] = {
    "helped during its penalty: to the backoff": (("Fit",), (), 0.5, NODE_ADD, QueueingHint.QUEUE, "backoff"),
    "in the second in which it ends, too": (("Fit",), (), 1.9, NODE_ADD, QueueingHint.QUEUE, "backoff"),
    "helped after its penalty: active": (("Fit",), (), 2, NODE_ADD, QueueingHint.QUEUE, "active"),
    "not helped": (("Fit",), (), 2, NODE_ADD, SKIP, "unschedulable"),
    "an event the plugin did not register for": (("Fit",), (), 2, NODE_TAINT, QueueingHint.QUEUE, "unschedulable"),
    "pending plugins skip the penalty": ((), ("Claims",), 0, CLAIM_ADD, QueueingHint.QUEUE, "active"),
    "without pending plugins the penalty applies": (("Claims",), (), 0, CLAIM_ADD, SKIP, "backoff"),
}


@pytest.mark.parametrize(("plugins", "pending", "wait", "event", "answer", "want"), EVENTS.values(), ids=EVENTS)
def test_events_requeue_unschedulable_pods(
    plugins: Any, pending: Any, wait: float, event: ClusterEvent, answer: QueueingHint, want: str
) -> None:
    bench = Bench()
    bench.rejected("p", *plugins, pending=pending)
    bench.hint_results["Fit"] = answer
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


def test_pre_check_preselects_the_pods_to_requeue() -> None:
    bench = Bench()
    bench.rejected("low", "Fit", priority=1)
    bench.rejected("high", "Fit", priority=9)
    bench.move(POD_DELETE, pre_check=lambda pod: pod.priority <= 5)
    assert (bench.where("low"), bench.where("high")) == ("backoff", "unschedulable")


def test_popped_pod_keeps_its_rejectors_outside_the_gauge() -> None:
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
    entry = bench.queue.find(ref("p"))
    assert entry is not None
    assert (entry.gating_plugin, entry.rejectors, entry.attempts) == ("FirstDoor", {"FirstDoor"}, 0)
    assert entry.initial_attempt_timestamp is None
    assert bench.counts.incoming == {("unschedulable", "UnscheduledPodAdd"): 1}
    assert +bench.counts.unschedulable == {"FirstDoor": 1}
    assert bench.calls == ["FirstDoor"]


def test_the_gating_plugin_is_called_first() -> None:
    bench = Bench()
    bench.second.close("p")
    bench.add("p")
    assert bench.calls == ["FirstDoor", "SecondDoor"]
    bench.calls.clear()
    bench.queue.activate([ref("p")])
    bench.check()
    assert bench.calls == ["SecondDoor"]
    bench.calls.clear()
    bench.second.open()
    bench.first.close("p")
    bench.queue.activate([ref("p")])
    bench.check()
    assert bench.calls == ["SecondDoor", "FirstDoor"]
    entry = bench.queue.find(ref("p"))
    assert entry is not None
    assert (entry.gating_plugin, entry.rejectors) == ("FirstDoor", {"FirstDoor", "SecondDoor"})
    assert +bench.counts.unschedulable == {"FirstDoor": 1, "SecondDoor": 1}


def test_an_admitted_pod_loses_its_gate_but_not_its_rejectors() -> None:
    bench = Bench()
    bench.first.close("p")
    bench.add("p")
    bench.first.open()
    bench.queue.activate([ref("p")])
    info = bench.pop("p")
    assert (info.gating_plugin, info.rejectors) == ("", {"FirstDoor"})
    assert not +bench.counts.unschedulable


# (gate, event, is the gate open then?, target queue)
GATED_EVENTS = {
    "an event of another plugin is not even looked at": ("first", POD_DELETE, True, "gated"),
    "an event with a hint that skips": ("second", POD_DELETE, True, "gated"),
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
def test_a_gate_is_called_again_if_a_filters_hint_and_the_gates_event_agree(is_open: bool) -> None:
    # As with preemption: rejected by Fit, then pending until the victims are deleted.
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


def test_a_gate_is_called_only_for_reconsidered_pods() -> None:
    bench = Bench()
    for name in ("p", "q"):
        bench.add(name)
        info = bench.pop(name)
        bench.second.close(name)
        bench.queue.activate([info.pod])
        assert bench.fail(info, "Fit") == "gated"
    bench.clock.advance(60)
    bench.second.open()
    bench.calls.clear()
    bench.second.news = []
    bench.move(POD_DELETE)
    assert bench.calls == []
    bench.second.news = ["default/p", "default/unknown"]
    bench.move(POD_DELETE)
    assert (bench.where("p"), bench.where("q")) == ("active", "gated")


def test_a_gate_is_called_for_a_reconsidered_pod_until_it_is_admitted() -> None:
    bench = Bench()
    bench.second.close("p")
    bench.add("p")
    bench.second.open()
    bench.second.news = ["default/p"]
    bench.move(POD_DELETE)
    assert bench.where("p") == "gated", "the gate is open, and the hint says no"
    bench.calls.clear()
    bench.second.news = []
    bench.move(POD_DELETE)
    assert bench.calls == ["SecondDoor"]


def test_a_gate_is_not_called_again_for_a_pod_that_it_still_rejects() -> None:
    bench = Bench()
    bench.second.close("p")
    bench.add("p")
    bench.second.news = ["default/p"]
    bench.move(POD_DELETE)
    bench.calls.clear()
    bench.second.news = []
    bench.move(POD_DELETE)
    assert bench.calls == []


def test_gates_are_called_when_a_pod_enters_the_backoff_queue_and_not_when_it_leaves() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    bench.calls.clear()
    assert bench.fail(info) == "backoff"
    assert bench.calls == ["FirstDoor", "SecondDoor"]
    bench.first.close("p")
    bench.wait(3)
    assert bench.where("p") == "active"
    assert bench.calls == ["FirstDoor", "SecondDoor"]


def test_without_the_feature_gate_plugins_are_called_when_a_pod_leaves_the_backoff_queue() -> None:
    bench = Bench(pop_from_backoff=False)
    bench.add("p")
    info = bench.pop("p")
    bench.calls.clear()
    bench.first.close("p")
    assert bench.fail(info) == "backoff"
    assert bench.calls == []
    bench.wait(3)
    assert bench.where("p") == "gated"


def test_a_pre_enqueue_plugin_that_raises_gates_the_pod() -> None:
    bench = Bench()
    bench.first.closed_for = None  # type: ignore[assignment]
    bench.queue.add(make_pod("p", uid="uid-p"))
    assert bench.where("p") == "gated"
    assert [failure[:2] for failure in bench.counts.failures] == [("FirstDoor", "p")]


def test_a_pre_enqueue_plugin_that_returns_an_error_gates_the_pod_and_is_reported() -> None:
    bench = Bench()
    bench.first.close("p", status=Status.error("no connection"))
    bench.add("p")
    assert bench.where("p") == "gated"
    assert bench.counts.failures == [("FirstDoor", "p", "no connection")]


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
    "two changes, one of them helpful": (("Taint",), {"labels": {"a": "b"}, "tolerates": ["x"]}, 2, "active"),
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
def test_a_deleted_pod_is_removed(queue_name: str) -> None:
    bench = Bench()
    pod = put(bench, "p", queue_name)
    bench.queue.delete(pod)
    bench.check()
    assert bench.where("p") is None
    assert bench.queue.pop() is None
    assert not +bench.counts.unschedulable


def test_a_pod_deleted_in_flight_remains_in_flight_until_done() -> None:
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


def test_waking_retries_the_pods_that_the_plugin_rejected_after_their_backoff() -> None:
    bench = Bench()
    bench.rejected("deaf", "Deaf")
    bench.rejected("both", "Deaf", "Taint")
    bench.rejected("other", "Taint")
    bench.queue.wake_rejected(PROFILE, "Deaf")
    bench.check()
    assert [bench.where(name) for name in ("deaf", "both", "other")] == ["backoff", "backoff", "unschedulable"]
    bench.wait(2)
    assert bench.where("deaf") == "active"
    assert bench.counts.incoming["backoff", "PluginChanged"] == 2


def test_pods_become_active_after_their_backoff() -> None:
    bench = Bench()
    bench.rejected("p", "Deaf")
    bench.rejected("external", "Deaf", pending=("Deaf",))
    bench.wait(20)
    bench.queue.wake_rejected(PROFILE, "Deaf")
    bench.check()
    assert (bench.where("p"), bench.where("external")) == ("active", "active")


def test_waking_pods_with_pending_work_skips_their_backoff() -> None:
    bench = Bench()
    bench.rejected("p", pending=("Deaf",))
    bench.queue.wake_rejected(PROFILE, "Deaf")
    assert bench.where("p") == "active"


def test_waking_affects_neither_other_plugins_nor_other_profiles() -> None:
    bench = Bench()
    bench.rejected("p", "Deaf")
    bench.queue.wake_rejected(PROFILE, "Taint")
    bench.queue.wake_rejected("another", "Deaf")
    assert bench.where("p") == "unschedulable"


@pytest.mark.parametrize(("opened", "want"), [(True, "active"), (False, "gated")])
def test_waking_repeats_the_gate_of_gated_pods(opened: bool, want: str) -> None:
    bench = Bench()
    put(bench, "p", "gated")
    if opened:
        bench.first.open()
    bench.queue.wake_rejected(PROFILE, "FirstDoor")
    bench.check()
    assert bench.where("p") == want


def test_waking_retries_pods_in_flight_that_the_plugin_rejects_afterward() -> None:
    bench = Bench()
    bench.add("a", "b")
    a, b = bench.pop("a"), bench.pop("b")
    bench.queue.wake_rejected(PROFILE, "Deaf")
    assert bench.fail(a, "Deaf") == "backoff"
    assert bench.fail(b, "Taint") == "unschedulable"


class ByShare(QueueSortPlugin):
    """An order that moves: pods of the namespace with the smallest share first."""

    def __init__(self) -> None:
        self.shares: dict[str, Any] = {}
        self.calls = 0

    def sort_key(self, queued: QueuedPod) -> Any:
        self.calls += 1
        return self.shares[queued.pod.labels["team"]]


def test_requested_sorting_applies_the_new_keys_of_queued_pods() -> None:
    sort = ByShare()
    sort.shares = {"red": 0, "blue": 1}
    bench = Bench(sort=sort)
    for name in ("r1", "b1", "r2", "b2"):
        bench.add(name, labels={"team": "red" if name[0] == "r" else "blue"})
    bench.pop("r1")
    sort.shares = {"red": 2, "blue": 1}
    sort.calls = 0
    for _ in range(3):
        bench.queue.resort()
    assert pop_all(bench) == ["b1", "b2", "r2"]
    assert sort.calls == 3, "several requests are one"


def test_requested_sorting_includes_pods_in_backoff() -> None:
    sort = ByShare()
    sort.shares = {"red": 0, "blue": 1}
    bench = Bench(sort=sort)
    bench.add("r", labels={"team": "red"})
    bench.add("b", labels={"team": "blue"})
    for info in (bench.pop("r"), bench.pop("b")):
        bench.queue.activate([info.pod])
        assert bench.fail(info, "Deaf") == "backoff"
    sort.shares = {"red": 2, "blue": 1}
    bench.queue.resort()
    assert pop_all(bench) == ["b", "r"]


def test_requested_sorting_keeps_all_pods_if_the_keys_cannot_be_compared() -> None:
    sort = ByShare()
    sort.shares = {"red": 0, "blue": 1}
    bench = Bench(sort=sort)
    for name in ("b", "r"):
        bench.add(name, labels={"team": "red" if name[0] == "r" else "blue"})
    sort.shares = {"red": "much", "blue": 1}
    bench.queue.resort()
    assert sorted(pop_all(bench)) == ["b", "r"]
    assert bench.counts.failures


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


def test_a_flushed_pod_that_fails_twice_starts_over() -> None:
    bench = Bench()
    info = bench.rejected("p", "Deaf")
    bench.wait(330)
    bench.pop("p")
    bench.fail(info, "Deaf")
    assert (info.was_flushed, info.flush_timestamp) == (False, None)


def test_a_flush_repeats_gates_and_a_gated_pod_waits_another_five_minutes() -> None:
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


def queueing(*doors: Door, sort: QueueSortPlugin | None = None, **registrations: list[EventRegistration]) -> Queueing:
    return Queueing(sort or ByPriority(), {PROFILE: ProfileQueueing(doors, registrations)}, Backoff())


def reconfigure(bench: Bench, new: Queueing) -> None:
    bench.queue.reconfigure(new)
    bench.check()


def pop_all(bench: Bench) -> list[str]:
    names = []
    while (info := bench.queue.pop()) is not None:
        bench.check()
        names.append(info.pod.name)
    return names


def test_active_pods_are_sorted_by_the_new_plugin() -> None:
    bench = Bench(pop_from_backoff=False)
    bench.add("a", "b", "c")
    reconfigure(bench, queueing(sort=ByNameBackwards()))
    bench.add("d")
    assert pop_all(bench) == ["d", "c", "b", "a"]


def test_pods_with_equal_keys_keep_their_order() -> None:
    bench = Bench()
    bench.add("b", "c", "a")
    reconfigure(bench, queueing())
    assert pop_all(bench) == ["b", "c", "a"]


@settings(max_examples=100, deadline=None)
@given(before=st.lists(st.integers(0, 3), max_size=20), after=st.lists(st.integers(0, 3), max_size=20))
def test_the_same_sort_plugin_keeps_the_order(before: list[int], after: list[int]) -> None:
    changed, unchanged = Bench(), Bench()
    for number, priority in enumerate(before + after):
        if number == len(before):
            changed.change(ByPriority())
        for bench in (changed, unchanged):
            bench.add(f"p{number}", priority=priority)
            bench.wait(priority % 2)
    assert pop_all(changed) == pop_all(unchanged)


@pytest.mark.parametrize("pop_from_backoff", [True, False])
def test_backoff_ends_at_the_same_moment(pop_from_backoff: bool) -> None:
    bench = Bench(pop_from_backoff=pop_from_backoff)
    bench.add("p")
    assert bench.fail(bench.pop("p")) == "backoff"
    until = bench.queue.next_wakeup()
    reconfigure(bench, queueing(sort=ByNameBackwards()))
    (info,) = bench.queue
    assert (bench.queue.where(info.pod), bench.queue.next_wakeup(), info.attempts) == ("backoff", until, 1)


def test_rejected_pods_are_retried_after_their_backoff() -> None:
    bench = Bench()
    info = bench.rejected("p", "Deaf")
    reconfigure(bench, queueing())
    assert bench.queue.where(info.pod) == "backoff"


def test_a_new_gate_closes_and_a_removed_gate_opens() -> None:
    bench = Bench()
    bench.first.close("a")
    bench.add("a", "b")
    door = Door("NewDoor", bench.calls)
    door.close("b")
    reconfigure(bench, queueing(door))
    assert {info.pod.name: info.gating_plugin for info in bench.queue} == {"a": "", "b": "NewDoor"}
    assert pop_all(bench) == ["a"]


def test_pods_in_backoff_are_gated_immediately_if_they_may_be_popped_early() -> None:
    for pop_from_backoff, expected in ((True, "gated"), (False, "backoff")):
        bench = Bench(pop_from_backoff=pop_from_backoff)
        bench.add("p")
        assert bench.fail(bench.pop("p")) == "backoff"
        door = Door("NewDoor", bench.calls)
        door.close("p")
        reconfigure(bench, queueing(door))
        assert bench.where("p") == expected
        bench.wait(3)
        assert bench.where("p") == "gated"


def test_every_pod_is_admitted_once_by_the_new_plugins() -> None:
    bench = Bench()
    bench.rejected("rejected", "Deaf")
    bench.first.close("gated")
    bench.add("gated", "active")
    bench.calls.clear()
    door = Door("NewDoor", bench.calls)
    door.close("gated", "active")
    reconfigure(bench, queueing(door))
    assert bench.calls == ["NewDoor"] * 3
    assert bench.where("active") == bench.where("gated") == "gated"


def test_an_attempt_in_progress_that_fails_is_retried() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    reconfigure(bench, queueing(Deaf=[]))
    assert bench.fail(info, "Deaf") == "backoff", "the plugin that rejected it may be gone"
    assert bench.counts.events[CONFIGURATION_CHANGED.label] == 0, "the event is forgotten with the attempt"


def test_events_are_looked_up_in_the_new_registrations() -> None:
    bench = Bench()
    reconfigure(bench, queueing(Deaf=[EventRegistration(NODE_ADD)]))
    info = bench.rejected("p", "Deaf")
    bench.queue.move_all_to_active_or_backoff(NODE_ADD)
    assert bench.queue.where(info.pod) == "backoff"
    assert bench.queue.serves(PROFILE)
    assert not bench.queue.serves("another")


def test_deleted_pod_leaves_no_nomination() -> None:
    bench = Bench()
    pod = bench.add("p", status=PodStatus(nominated_node_name="n"))
    assert pod.uid in bench.queue.nominator
    bench.queue.delete(pod)
    bench.check()
    assert pod.uid not in bench.queue.nominator


def test_flush_at_the_time_of_the_wakeup_releases_the_pod() -> None:
    bench = Bench(pop_from_backoff=False)
    bench.add("p")
    assert bench.fail(bench.pop("p")) == "backoff"
    wakeup = bench.queue.next_wakeup()
    assert wakeup is not None
    bench.queue.flush(wakeup - 0.001)
    assert bench.where("p") == "backoff"
    bench.queue.flush(wakeup)
    bench.check()
    assert bench.where("p") == "active"


def test_each_attempt_is_observed() -> None:
    popped: list[tuple[str, int]] = []

    class Watching(QueueObserver):
        def on_pop(self, pod: Pod, attempt: int) -> None:
            popped.append((pod.name, attempt))

    bench = Bench(observer=Watching())
    bench.add("p")
    bench.fail(bench.pop("p"))
    bench.wait(5.0)
    bench.pop("p")
    assert popped == [("p", 1), ("p", 2)]
