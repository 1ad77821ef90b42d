import pytest
from tests.unit.scheduler.queue.queue_bench import START, Bench

from moorage.scheduler.queue.backoff import Backoff

DURATIONS = {
    "penalties double up to the maximum": (Backoff(), [1, 2, 4, 8, 10, 10, 10]),
    "an initial penalty at the maximum remains there": (Backoff(5, 5), [5, 5, 5]),
    "a maximum that is not a power of two is used when doubling would exceed it": (Backoff(3, 10), [3, 6, 10]),
    "a maximum that is met exactly is not cut": (Backoff(1, 8), [1, 2, 4, 8, 8]),
    "a maximum below the initial penalty wins": (Backoff(4, 2), [2, 2]),
    "fractions of a second are kept": (Backoff(0.1, 0.5), [0.1, 0.2, 0.4, 0.5]),
}


@pytest.mark.parametrize(("backoff", "want"), DURATIONS.values(), ids=DURATIONS)
def test_duration(backoff: Backoff, want: list[float]) -> None:
    assert [backoff.duration(failures) for failures in range(1, len(want) + 1)] == want


def test_duration_after_very_many_failures() -> None:
    assert Backoff().duration(10_000) == 10


# Failure at .25 past a whole second: 1000.25 + 1 s is cut to 1001, and released at the first tick after second 1001.
RELEASES = {
    "an error on a whole second is retried two seconds later": (0.0, 1, True, START + 2),
    "fractions are cut off, which can only shorten the wait": (0.25, 1, True, START + 2),
    "just before the next second": (0.999, 1, True, START + 2),
    "the second error in a row waits two seconds, cut": (0.25, 2, True, START + 3),
    "the third waits four": (0.25, 3, True, START + 5),
    "the fifth waits ten": (0.25, 5, True, START + 11),
    "without the gate nothing is cut; the first tick after the penalty": (0.25, 1, False, START + 2),
    "without the gate, a penalty that ends exactly at a tick waits for the next": (0.0, 1, False, START + 2),
}


@pytest.mark.parametrize(("fraction", "errors", "gate", "want"), RELEASES.values(), ids=RELEASES)
def test_release_after_errors(fraction: float, errors: int, gate: bool, want: float) -> None:
    bench = Bench(pop_from_backoff=gate)
    bench.clock.advance(fraction)
    bench.add("p")
    info = bench.pop("p")
    info.consecutive_errors = errors - 1
    assert bench.fail(info) == "backoff"
    assert bench.queue.next_wakeup() == want
    bench.wait(want - bench.clock.now() - 0.001)
    assert bench.where("p") == "backoff"
    bench.wait(0.001)
    assert bench.where("p") == "active"
    assert bench.queue.next_wakeup() is None


def test_without_the_gate_ticks_are_counted_from_the_start() -> None:
    bench = Bench(start=START + 0.5, pop_from_backoff=False)
    bench.add("p")
    assert bench.fail(bench.pop("p")) == "backoff"
    assert bench.queue.next_wakeup() == START + 2.5


def test_flushing_between_ticks_releases_nothing() -> None:
    bench = Bench(start=START + 0.5, pop_from_backoff=False)
    bench.add("p")
    bench.fail(bench.pop("p"))
    bench.clock.advance(1.2)
    bench.queue.flush(bench.clock.now())
    bench.clock.advance(0.1)
    bench.queue.flush(bench.clock.now())
    assert bench.where("p") == "backoff"


def test_errors_count_apart_from_rejections() -> None:
    bench = Bench()
    bench.add("p")
    info = bench.pop("p")
    for _ in range(3):
        bench.fail(info)
        bench.wait(12)
        bench.pop("p")
    assert (info.consecutive_errors, info.unschedulable_count) == (3, 0)
    bench.fail(info, "Fit")
    assert (info.consecutive_errors, info.unschedulable_count) == (0, 1)
    assert info.attempts == 4


def test_no_backoff_when_the_maximum_is_zero() -> None:
    bench = Bench(backoff=Backoff(1, 0))
    bench.add("p")
    assert bench.fail(bench.pop("p")) == "active"


@pytest.mark.parametrize("gate", [True, False])
def test_idle_scheduler_skips_backoff_only_with_the_gate(gate: bool) -> None:
    bench = Bench(pop_from_backoff=gate)
    bench.add("rejected", "failed")
    rejected, failed = bench.pop("rejected"), bench.pop("failed")
    bench.queue.activate([rejected.pod])
    assert bench.fail(rejected, "Fit") == "backoff"
    assert bench.fail(failed) == "backoff"
    early = bench.queue.pop()
    assert (early is rejected) == gate
    assert bench.queue.pop() is None
    assert bench.counts.incoming["active", "PopFromBackoffQ"] == gate


def test_pods_of_one_second_leave_the_backoff_in_queue_order() -> None:
    bench = Bench()
    infos = []
    for name, priority in (("low", 1), ("high", 9), ("middle", 5)):
        bench.add(name, priority=priority)
        infos.append(bench.pop(name))
    bench.queue.activate([info.pod for info in infos])
    for info in infos:
        assert bench.fail(info, "Fit") == "backoff"
        bench.clock.advance(0.2)
    assert [bench.pop().pod.name for _ in infos] == ["high", "middle", "low"]


@pytest.mark.parametrize(("size", "seconds"), [(1, 10.0), (4, 20.0), (9, 30.0), (100, 100.0)])
def test_maximum_grows_with_the_root_of_the_group_size(size: int, seconds: float) -> None:
    assert Backoff().duration(20, size) == seconds
    assert Backoff().duration(1, size) == 1.0


def test_size_counts_rejected_and_failed_pods() -> None:
    bench = Bench()
    for name, plugins in (("a", ()), ("b", ("Taint",)), ("c", ("Taint",))):
        bench.add(name)
        info = bench.pop(name)
        bench.queue.activate([info.pod])
        assert bench.fail(info, *plugins) == "backoff"
    assert (len(bench.queue), bench.queue.sizes().backoff) == (3, 3)
