"""While pods are handed over to other plugins: nobody is popped unasked, nobody is asked twice, and order is kept."""

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.scheduler.queue.queue_bench import NODE_ADD, PROFILE, Bench, ByNameBackwards, ByPriority, Door

from moorage.scheduler.engine.steps import go_through
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.framework.queued import QueuedPod
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.hints import ProfileQueueing, Queueing
from moorage.testing import make_pod


class Counting(QueueSortPlugin):
    """Counts how often it is asked."""

    asked = 0

    def sort_key(self, queued: QueuedPod) -> Any:
        self.asked += 1
        return (-queued.pod.priority, queued.timestamp)


def another(*doors: Door, sort: QueueSortPlugin | None = None, profile: str = PROFILE) -> Queueing:
    return Queueing(sort or ByPriority(), {profile: ProfileQueueing(doors)}, Backoff())


def popped(bench: Bench) -> list[str]:
    names = []
    while (info := bench.queue.pop()) is not None:
        bench.check()
        names.append(info.pod.name)
    return names


def some_of_each(bench: Bench, number: int) -> None:
    """Have pods be parked, back off after a rejection and after an error, be gated, and be active."""
    for at in range(number):
        bench.parked(f"parked-{at}", "Deaf")
    for at in range(number):
        bench.parked(f"rejected-{at}", "Taint")
        bench.add(f"failed-{at}")
        bench.fail(bench.pop(f"failed-{at}"))
    bench.queue.activate([])
    bench.first.close(*(f"gated-{at}" for at in range(number)))
    bench.add(*(f"{kind}-{at}" for at in range(number) for kind in ("gated", "active")))


def test_a_change_asks_and_sorts_nobody_however_many_wait() -> None:
    bench = Bench()
    some_of_each(bench, 20)
    bench.asked.clear()
    sort = Counting()
    steps = bench.queue.reconfigure(another(Door("Another", bench.asked), sort=sort))
    assert (bench.asked, sort.asked) == ([], 0)
    before = len(bench.queue)
    for _ in steps:
        assert len(bench.asked) <= 1, "a step is about one pod"
        assert sort.asked <= 1
        bench.check()
        bench.asked.clear()
        sort.asked = 0
    assert len(bench.queue) == before


def test_a_pop_asks_no_more_than_it_must() -> None:
    bench = Bench()
    bench.add(*(f"p{at}" for at in range(300)))
    door = Door("Another", bench.asked)
    steps = bench.queue.reconfigure(another(door))
    bench.asked.clear()
    bench.pop("p0")
    assert bench.asked == ["Another"], "the first may enter"
    door.close(*(f"p{at}" for at in range(1, 300)))
    bench.asked.clear()
    assert bench.queue.pop() is None
    assert len(bench.asked) == 64, "so many at most: the rest is left to the steps"
    go_through(steps)
    assert bench.queue.sizes()[:4] == (0, 0, 0, 299)


@pytest.mark.parametrize("steps_taken", range(12))
def test_nobody_is_popped_whom_the_new_plugins_hold_back(steps_taken: int) -> None:
    bench = Bench()
    bench.add("a", "b", "c", "d")
    bench.fail(bench.pop("a"))
    door = Door("Another", bench.asked)
    door.close("a", "c")
    steps = bench.queue.reconfigure(another(door, sort=ByNameBackwards()))
    for _ in range(steps_taken):
        next(steps, None)
    assert {*popped(bench)} <= {"b", "d"}
    go_through(steps)
    assert {info.pod.name for info in bench.queue} == {"a", "c"}
    assert (bench.where("a"), bench.where("c")) == ("gated", "gated")


ACTIONS = st.lists(
    st.tuples(st.just("add"), st.integers(0, 3)) | st.tuples(st.sampled_from(["pop", "step", "wait"]), st.just(0)),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(before=st.lists(st.integers(0, 3), max_size=20), actions=ACTIONS)
def test_pods_are_popped_in_the_very_order_of_a_queue_that_was_not_changed(
    before: list[int], actions: list[tuple[str, int]]
) -> None:
    left, right = Bench(), Bench()
    names = (f"p{number}" for number in range(100))
    for priority in before:
        both_add(left, right, next(names), priority)
    steps = right.change(ByPriority())
    for action, priority in actions:
        if action == "add":
            both_add(left, right, next(names), priority)
        elif action == "pop":
            ours, theirs = left.queue.pop(), right.queue.pop()
            assert (ours and ours.pod.name) == (theirs and theirs.pod.name)
        elif action == "wait":
            left.wait(1)
            right.wait(1)
        else:
            next(steps, None)
        right.check()
    assert popped(left) == popped(right)


def both_add(left: Bench, right: Bench, name: str, priority: int) -> None:
    left.add(name, priority=priority)
    right.add(name, priority=priority)


def test_another_order_is_that_of_everybody_once_all_are_handed_over() -> None:
    bench = Bench()
    bench.add("a", "b", "c", "d", "e")
    steps = bench.change(ByNameBackwards())
    next(steps)
    next(steps)
    bench.add("f")
    assert bench.pop().pod.name == "f"
    go_through(steps)
    assert popped(bench) == ["e", "d", "c", "b", "a"]


def test_who_was_rejected_since_the_change_is_not_tried_once_more() -> None:
    bench = Bench(pop_from_backoff=False)
    info = bench.parked("p", "Taint")
    bench.wait(2)
    steps = bench.change(ByPriority())
    bench.queue.activate([info.pod])
    assert bench.fail(bench.pop("p"), "Taint") == "unschedulable"
    go_through(steps)
    assert bench.where("p") == "unschedulable"


def test_events_wake_whoever_waits_to_be_handed_over() -> None:
    bench = Bench()
    bench.parked("p", pending=("Fit",))
    steps = bench.change(ByPriority())
    bench.move(NODE_ADD)
    assert bench.where("p") == "active", "at once: a plugin had it wait for just that"
    go_through(steps)
    assert bench.where("p") == "active"


def test_whoever_is_activated_out_of_its_penalty_is_asked_about() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    assert bench.fail(info) == "backoff"
    bench.first.close("p")
    steps = bench.change(ByPriority())
    bench.queue.activate([info.pod])
    assert bench.where("p") == "gated"
    go_through(steps)
    assert bench.where("p") == "gated"


def test_penalties_end_while_pods_are_handed_over() -> None:
    bench = Bench()
    for name in ("a", "b"):
        bench.add(name)
        assert bench.fail(bench.pop(name)) == "backoff"
    bench.first.close("b")
    steps = bench.change(ByPriority())
    assert bench.queue.next_wakeup() is not None
    bench.wait(3)
    assert (bench.where("a"), bench.where("b")) == ("active", "gated")
    go_through(steps)
    assert (bench.where("a"), bench.where("b")) == ("active", "gated")


def waiting(bench: Bench) -> Iterator[str]:
    return (info.pod.name for info in bench.queue)


@pytest.mark.parametrize("place", ["active", "backoff", "unschedulable", "gated"])
def test_pods_change_and_go_while_they_wait_to_be_handed_over(place: str) -> None:
    bench = Bench()
    if place == "gated":
        bench.first.close("p", "q")
    for name in ("p", "q"):
        bench.add(name)
        if place in ("backoff", "unschedulable"):
            assert bench.fail(bench.pop(name), *(["Taint"] if place == "unschedulable" else [])) == place
    steps = bench.change(ByPriority())
    old = next(info.pod for info in bench.queue if info.pod.name == "p")
    new = make_pod("p", uid="uid-p", labels={"x": "y"})
    bench.update(old, new)
    assert next(info.pod for info in bench.queue if info.pod.name == "p") is new
    assert {*waiting(bench)} == {"p", "q"}
    bench.queue.delete(make_pod("q", uid="uid-q"))
    bench.check()
    go_through(steps)
    assert [*waiting(bench)] == ["p"]
    bench.add("p")
    assert [*waiting(bench)] == ["p"], "one created again replaces its namesake"


def test_pods_of_a_profile_that_is_gone_wait_to_be_taken_out() -> None:
    bench = Bench()
    bench.parked("parked", "Taint")
    bench.add("active")
    steps = bench.queue.reconfigure(another(profile="another"))
    assert not bench.queue.serves(PROFILE)
    assert popped(bench) == []
    go_through(steps)
    bench.wait(400)
    assert popped(bench) == []
    assert {*waiting(bench)} == {"parked", "active"}


def test_one_change_follows_the_other() -> None:
    bench = Bench()
    bench.add("p")
    bench.change(ByPriority())
    with pytest.raises(AssertionError, match="one change after the other"):
        bench.change(ByPriority())
