"""Writes: how many at a time, in which order, and which are retried."""

import asyncio
from random import Random

import pytest

from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError, Conflict, NotFound, ServerError, TooManyRequests, Unreachable
from moorage.common.virtual_time import run_virtual
from moorage.kube.client.dispatcher import Dispatcher


class Failing:
    """A write that fails the given number of times."""

    def __init__(self, error: ApiError, times: int = 99) -> None:
        self.error, self.times, self.tries = error, times, 0

    async def __call__(self) -> str:
        self.tries += 1
        if self.tries <= self.times:
            raise self.error
        return "done"


REFUSED = Unreachable("refused", was_sent=False)
LOST = Unreachable("lost")
BUSY = TooManyRequests("busy", status=429, retry_after=3)
ATTEMPTS = {
    "an internal error is tried four times": (ServerError("", status=500), False, 4),
    "so is a server that is not ready": (ServerError("", status=503), False, 4),
    "so is a connection that is rejected": (REFUSED, False, 4),
    "a lost response is not retried: the write may have succeeded": (LOST, False, 1),
    "a bad gateway is not, as upstream": (ServerError("", status=502), False, 1),
    "a conflict is final": (Conflict("", status=409), False, 1),
    "unless the caller allows it": (Conflict("", status=409), True, 4),
    "a deleted object remains deleted": (NotFound("", status=404), True, 1),
    "a busy server is given ten more chances": (BUSY, False, 11),
    "so is a server error with Retry-After": (ServerError("", status=503, retry_after=1), False, 11),
}


@pytest.mark.parametrize(("error", "conflicts", "tries"), ATTEMPTS.values(), ids=ATTEMPTS)
def test_retried_errors(error: ApiError, conflicts: bool, tries: int) -> None:
    write = Failing(error)
    with pytest.raises(type(error)):
        run_virtual(Dispatcher().run(write, retries_conflicts=conflicts), VirtualClock())
    assert write.tries == tries


def test_pauses_grow_fivefold_from_ten_milliseconds() -> None:
    clock = VirtualClock()
    start = clock.now()
    write = Failing(ServerError("", status=500), times=3)
    assert run_virtual(Dispatcher(random=Random(1)).run(write), clock) == "done"
    assert 0.31 <= clock.now() - start <= 0.31 * 1.1


def test_retry_after_is_waited_for() -> None:
    clock = VirtualClock()
    start = clock.now()
    run_virtual(Dispatcher().run(Failing(BUSY, times=2)), clock)
    assert clock.now() - start == pytest.approx(6)


def test_important_requests_go_first_within_the_limit() -> None:
    order: list[str] = []
    running = 0

    async def main() -> None:
        dispatcher = Dispatcher(max_writes=2)

        async def write(name: str) -> None:
            nonlocal running
            running += 1
            assert running <= 2
            await asyncio.sleep(1)
            running -= 1
            order.append(name)

        async with asyncio.TaskGroup() as group:
            for name, priority in (("a", 0), ("b", 0), ("c", 1), ("d", 9), ("e", 9), ("f", -1)):
                group.create_task(dispatcher.run(lambda name=name: write(name), priority=priority))  # type: ignore[misc]

    run_virtual(main(), VirtualClock())
    assert order == ["a", "b", "d", "e", "c", "f"]


def test_cancelled_write_releases_its_slot() -> None:
    async def main() -> None:
        dispatcher = Dispatcher(max_writes=1)
        release = asyncio.Event()
        first = asyncio.create_task(dispatcher.run(release.wait))
        await asyncio.sleep(0)
        second = asyncio.create_task(dispatcher.run(release.wait))
        third = asyncio.create_task(dispatcher.run(release.wait))
        await asyncio.sleep(0)
        assert dispatcher.waiting == 2
        second.cancel()
        release.set()
        await asyncio.gather(first, third)
        await dispatcher.run(release.wait)

    run_virtual(main(), VirtualClock())
