"""Work in small steps: not many at once, and none after the first that takes long."""

from collections.abc import Iterator
from time import perf_counter

from moorage.scheduler.engine.steps import MAX_SECONDS, MAX_STEPS, go_through, take_some


def numbered(taken: list[int], number: int, seconds: float = 0.0) -> Iterator[None]:
    for at in range(number):
        until = perf_counter() + seconds
        while perf_counter() < until:
            pass
        taken.append(at)
        yield


def test_no_more_than_some_are_taken_at_once() -> None:
    taken: list[int] = []
    steps = numbered(taken, 3 * MAX_STEPS)
    assert take_some(steps)
    assert 1 <= len(taken) <= MAX_STEPS
    while take_some(steps):
        pass
    assert taken == [*range(3 * MAX_STEPS)], "each is taken once"
    assert not take_some(steps)


def test_a_step_that_takes_long_is_the_last() -> None:
    taken: list[int] = []
    assert take_some(numbered(taken, 5, 2 * MAX_SECONDS))
    assert taken == [0]


def test_all_that_are_left() -> None:
    taken: list[int] = []
    steps = numbered(taken, 5, 2 * MAX_SECONDS)
    take_some(steps)
    go_through(steps)
    assert taken == [0, 1, 2, 3, 4]
