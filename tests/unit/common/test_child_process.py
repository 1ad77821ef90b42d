"""Child processes: framed messages, deadlines, their end, and the modules they can import."""

import asyncio
import os
from pathlib import Path
from time import monotonic

import msgspec
import pytest

from moorage.common.child_process import (
    LENGTH,
    MAX_FRAME,
    BlockingChild,
    ChildEnded,
    ChildProcess,
    RestartPolicy,
    read_frame,
)
from moorage.common.clock import VirtualClock

WORKER = """
import importlib.util, os, sys, time
import msgspec
from moorage.common.child_process import ParentChannel

channel = ParentChannel()
decoder = msgspec.msgpack.Decoder(str)
while (word := channel.receive(decoder)) is not None:
    print("printed by a plugin", flush=True)
    if word == "exit":
        os._exit(7)
    if word == "sleep":
        time.sleep(60)
    if word == "read":
        word = sys.stdin.read()
    if word == "find":
        word = str(importlib.util.find_spec("in_current_directory"))
    channel.send(word + "!")
"""
TEXT = msgspec.msgpack.Decoder(str)


@pytest.fixture
def worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    directory = tmp_path / "modules"
    directory.mkdir()
    (directory / "echo_worker.py").write_text(WORKER)
    monkeypatch.syspath_prepend(str(directory))
    return "echo_worker"


async def exchange(module: str, *words: str) -> list[str]:
    child = await ChildProcess.start(module)
    try:
        replies = []
        for word in words:
            await child.send(word)
            replies.append(await child.receive(TEXT))
        return replies
    finally:
        await child.close()
        assert not child.is_running


def test_messages_are_exchanged_though_the_child_prints_and_reads(worker: str) -> None:
    long = "x" * 1_000_000
    assert asyncio.run(exchange(worker, "a", long, "read")) == ["a!", f"{long}!", "!"]


def test_exit_code_of_an_ended_child_is_reported(worker: str) -> None:
    with pytest.raises(ChildEnded, match="code 7"):
        asyncio.run(exchange(worker, "exit"))


def test_cancelled_start_leaves_no_process(worker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[int] = []
    close = ChildProcess.close

    async def noting_close(child: ChildProcess) -> None:
        await close(child)
        closed.append(child.pid)

    monkeypatch.setattr(ChildProcess, "close", noting_close)

    async def run() -> None:
        starting = asyncio.create_task(ChildProcess.start(worker))
        await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting

    asyncio.run(run())
    assert len(closed) == 1
    with pytest.raises(ProcessLookupError):
        os.kill(closed[0], 0)


def test_child_does_not_import_from_the_current_directory(
    worker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "in_current_directory.py").touch()
    monkeypatch.chdir(tmp_path)
    assert asyncio.run(exchange(worker, "find")) == ["None!"]


def test_blocking_child_replies_until_its_deadline(worker: str) -> None:
    child = BlockingChild(worker)
    try:
        child.send("a", monotonic() + 30)
        assert child.receive(TEXT, monotonic() + 30) == "a!"
        child.send("sleep", monotonic() + 30)
        with pytest.raises(TimeoutError):
            child.receive(TEXT, monotonic() + 0.05)
    finally:
        child.close()


def test_end_of_a_blocking_child_is_an_error(worker: str) -> None:
    child = BlockingChild(worker)
    try:
        child.send("exit", monotonic() + 30)
        with pytest.raises(ConnectionResetError):
            child.receive(TEXT, monotonic() + 30)
    finally:
        child.close()


def test_oversized_frame_is_rejected() -> None:
    async def run() -> None:
        reader = asyncio.StreamReader()
        reader.feed_data((MAX_FRAME + 1).to_bytes(LENGTH, "big"))
        await read_frame(reader)

    with pytest.raises(msgspec.DecodeError, match="too large"):
        asyncio.run(run())


def test_pauses_between_restarts_double_until_a_success() -> None:
    clock = VirtualClock()
    restarts = RestartPolicy(first=1, longest=5, now=clock.now)
    assert restarts.remaining == 0
    pauses = []
    for _ in range(4):
        restarts.failed()
        pauses.append(restarts.remaining)
    assert pauses == [1, 2, 4, 5]
    clock.advance(3)
    assert restarts.remaining == 2
    clock.advance(3)
    assert restarts.remaining == 0
    restarts.failed()
    restarts.succeeded()
    assert restarts.remaining == 0
    restarts.failed()
    assert restarts.remaining == 1


def test_restarts_end_after_too_many_failures_within_the_window() -> None:
    clock = VirtualClock()
    restarts = RestartPolicy(max_failures=2, window=100, now=clock.now)
    restarts.failed()
    clock.advance(100)
    restarts.failed()
    assert not restarts.is_exhausted, "the first failure is forgotten"
    clock.advance(99)
    restarts.failed()
    assert restarts.is_exhausted
    restarts.succeeded()
    assert not restarts.is_exhausted


def test_failures_alone_do_not_end_the_restarts() -> None:
    restarts = RestartPolicy()
    for _ in range(1000):
        restarts.failed()
    assert not restarts.is_exhausted
    assert 59 < restarts.remaining <= 60
