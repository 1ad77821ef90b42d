"""SchedulingQueue.reconfigure: another order, other gates and other registrations, without losing a pod."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.queue.queue_bench import NODE_ADD, PROFILE, Bench, ByNameBackwards, ByPriority, Door

from moorage.scheduler.framework.events import CONFIGURATION_CHANGED, EventRegistration
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.hints import ProfileQueueing, Queueing


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


def test_pods_in_backoff_are_gated_at_once_if_they_may_be_popped_early() -> None:
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
