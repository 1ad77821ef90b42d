"""External data: available data is used until it expires, and a failing service does not delay pods."""

import asyncio
from typing import Any

import pytest

from moorage.common.virtual_time import VirtualLoop
from moorage.scheduler.framework.polling import Polled
from moorage.testing import in_virtual_time
from moorage.testing.rig import Rig


class Service:
    """Returns a list or raises, after a delay."""

    def __init__(self) -> None:
        self.answer: list[int] | BaseException = [1]
        self.seconds = 0.0
        self.asked = 0

    async def __call__(self) -> list[int]:
        self.asked += 1
        if self.seconds:
            await asyncio.sleep(self.seconds)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return list(self.answer)


def rig() -> Rig:
    created, loop = Rig(), asyncio.get_running_loop()
    assert isinstance(loop, VirtualLoop)
    created.clock = loop.clock
    return created


def polled(handle: Rig, service: Service, **options: float) -> Polled[list[int]]:
    return Polled(handle, service, name="load", every=10.0, stale_after=25.0, **options)


@in_virtual_time
async def test_last_result_is_used_until_it_expires() -> None:
    handle, service = rig(), Service()
    load = polled(handle, service)
    assert (load.value, load.age, load.is_stale) == (None, None, True)
    await load.start()
    polling = asyncio.create_task(handle.background[0])
    assert (load.value, load.age) == ([1], 0.0)
    first = load.epoch
    await asyncio.sleep(15)
    assert (service.asked, load.epoch) == (2, first), "nothing else was said"
    service.answer = [2]
    await asyncio.sleep(10)
    assert (load.value, load.epoch != first) == ([2], True)
    second, service.answer = load.epoch, ConnectionError("refused")
    await asyncio.sleep(20)
    assert (load.value, load.epoch) == ([2], second)
    await asyncio.sleep(10)
    assert (load.value, load.epoch != second) == (None, True)
    service.answer = [2]
    await asyncio.sleep(10)
    assert (load.value, load.epoch) == ([2], second)
    polling.cancel()


def test_failures_are_logged_once_and_counted_each(logged: list[Any]) -> None:
    @in_virtual_time
    async def story() -> None:
        handle, service = rig(), Service()
        load = polled(handle, service)
        service.answer = ValueError("no number")
        for _ in range(3):
            await load.refresh()
        service.answer = [1]
        await load.refresh()
        assert load._polls.value(source="load", result="error") == 3
        assert load._polls.value(source="load", result="success") == 1

    story()
    assert [(line["event"], line.get("error")) for line in logged] == [
        ("external data cannot be fetched", "ValueError: no number (test_polling.py:27)"),
        ("external data is available again", None),
    ]


@in_virtual_time
async def test_slow_service_times_out() -> None:
    service = Service()
    service.seconds = 5.0
    load = polled(rig(), service, timeout=0.05)
    began = asyncio.get_running_loop().time()
    await load.refresh()
    assert load.value is None
    assert asyncio.get_running_loop().time() - began < 1.0


@in_virtual_time
async def test_times_that_make_no_sense_are_rejected() -> None:
    with pytest.raises(ValueError, match="timeout of 'load' is 0: write a number of seconds above 0"):
        polled(rig(), Service(), timeout=0)
