"""Other plugins for a queue that is in use: another order, other doors, other hopes, and nobody is lost."""

from tests.unit.scheduler.queue.queue_bench import NODE_ADD, PROFILE, Bench, ByNameBackwards, ByPriority, Door

from moorage.scheduler.framework.events import CONFIGURATION_CHANGED, EventRegistration
from moorage.scheduler.framework.plugin import QueueSortPlugin
from moorage.scheduler.queue.backoff import Backoff
from moorage.scheduler.queue.hints import ProfileQueueing, Queueing


def queueing(*doors: Door, sort: QueueSortPlugin | None = None, **registrations: list[EventRegistration]) -> Queueing:
    return Queueing(sort or ByPriority(), {PROFILE: ProfileQueueing(doors, registrations)}, Backoff())


def change(bench: Bench, to: Queueing) -> None:
    """Have a queue go on under other plugins, and hand over everybody."""
    for _ in bench.queue.reconfigure(to):
        bench.check()


def order_of(bench: Bench) -> list[str]:
    names = []
    while (info := bench.queue.pop()) is not None:
        names.append(info.pod.name)
    return names


def test_who_can_be_popped_is_sorted_anew() -> None:
    bench = Bench(pop_from_backoff=False)
    bench.add("a", "b", "c")
    change(bench, queueing(sort=ByNameBackwards()))
    bench.check()
    bench.add("d")
    assert order_of(bench) == ["d", "c", "b", "a"]


def test_equals_keep_their_order() -> None:
    bench = Bench()
    bench.add("b", "c", "a")
    change(bench, queueing())
    assert order_of(bench) == ["b", "c", "a"]


def test_who_backs_off_does_so_until_the_same_moment() -> None:
    bench = Bench()
    bench.add("p")
    assert bench.fail(bench.pop("p")) == "backoff"
    until = bench.queue.next_wakeup()
    change(bench, queueing(sort=ByNameBackwards()))
    bench.check()
    (info,) = bench.queue
    assert (bench.queue.where(info.pod), bench.queue.next_wakeup(), info.attempts) == ("backoff", until, 1)


def test_who_was_rejected_gets_another_try_after_its_penalty() -> None:
    bench = Bench()
    info = bench.parked("p", "Deaf")
    change(bench, queueing())
    bench.check()
    assert bench.queue.where(info.pod) == "backoff"


def test_a_new_door_holds_back_who_could_be_popped_and_an_old_one_lets_go() -> None:
    bench = Bench()
    bench.first.close("a")
    bench.add("a", "b")
    door = Door("NewDoor", bench.asked)
    door.close("b")
    change(bench, queueing(door))
    bench.check()
    assert {info.pod.name: info.gating_plugin for info in bench.queue} == {"a": "", "b": "NewDoor"}
    assert order_of(bench) == ["a"]


def test_an_attempt_under_way_that_fails_has_seen_the_change() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    change(bench, queueing(Deaf=[]))
    assert bench.fail(info, "Deaf") == "backoff", "who rejected it may be gone"
    assert bench.counts.events[CONFIGURATION_CHANGED.label] == 0, "forgotten with the attempt"


def test_events_are_asked_about_under_the_new_plugins() -> None:
    bench = Bench()
    change(bench, queueing(Deaf=[EventRegistration(NODE_ADD)]))
    info = bench.parked("p", "Deaf")
    bench.queue.move_all(NODE_ADD)
    assert bench.queue.where(info.pod) == "backoff"
    assert bench.queue.serves(PROFILE)
    assert not bench.queue.serves("another")
