"""Questions of the page about a live cluster: answered by a process beside the scheduler, which reads for itself.

It is started by the first question, reads the cluster anew when what it has is old, and ends when nobody asks.
"""

import asyncio
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from moorage.common.errors import InputError
from moorage.insight.explain.in_scheduler import ExplainRequest, be_nice

MAX_WAITING: Final = 16
ANSWER_SECONDS: Final = 90.0
"""More than reading a large cluster and looking for changes takes."""
IDLE_SECONDS: Final = 120.0
LENGTH: Final = 4


class PageQuestion(msgspec.Struct, frozen=True):
    """What is asked."""

    question: str
    asked: dict[str, Any]


class PageAnswer(msgspec.Struct, frozen=True):
    """What is answered: plain data, or why there is no answer."""

    data: Any = None
    problem: str = ""


class QuestionProcess:
    """The process, from the first question on; one question at a time."""

    def __init__(self, request: ExplainRequest) -> None:
        self.request = request
        self._process: Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0
        self._idle: asyncio.TimerHandle | None = None

    async def change(self, request: ExplainRequest) -> None:
        """Have questions answered under another policy from now on."""
        self.request = request
        async with self._turn:
            await self.stop()

    async def ask(self, question: str, asked: Mapping[str, Any]) -> Any:
        """Have a question answered; InputError says why it cannot be."""
        if self._waiting >= MAX_WAITING:
            raise InputError(question, "too many questions wait", hint="ask again in a moment")
        self._waiting += 1
        try:
            async with self._turn:
                answer = await self._exchange(PageQuestion(question, dict(asked)))
        finally:
            self._waiting -= 1
        if answer.problem:
            raise InputError("the cluster", answer.problem)
        return answer.data

    async def _exchange(self, question: PageQuestion) -> PageAnswer:
        if self._idle is not None:
            self._idle.cancel()
        is_answered = False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                process = await self._started()
                assert process.stdin is not None
                assert process.stdout is not None
                process.stdin.write(framed(question))
                await process.stdin.drain()
                length = int.from_bytes(await process.stdout.readexactly(LENGTH), "big")
                answer = msgspec.json.decode(await process.stdout.readexactly(length), type=PageAnswer)
            is_answered = True
        except TimeoutError as error:
            raise InputError("the question", f"no answer within {ANSWER_SECONDS:.0f} s") from error
        except (OSError, asyncio.IncompleteReadError) as error:
            raise InputError("the question", "the process that answers has ended; the log says why") from error
        finally:
            # Half an answer may be on its way: the next question must not be answered with it.
            if not is_answered:
                await self.stop()
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._end)
        return answer

    async def _started(self) -> Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "moorage.insight.page.questions_process",
                stdin=PIPE,
                stdout=PIPE,
                preexec_fn=be_nice,
            )
            assert self._process.stdin is not None
            self._process.stdin.write(framed(self.request))
        return self._process

    def _end(self) -> None:
        if self._process is not None and self._process.returncode is None:
            self._process.kill()

    async def stop(self) -> None:
        """End the process, if there is one."""
        if self._idle is not None:
            self._idle.cancel()
        process, self._process = self._process, None
        if process is not None:
            if process.returncode is None:
                process.kill()
            await process.wait()


def framed(message: msgspec.Struct) -> bytes:
    """Write a message with its length before it."""
    body = msgspec.json.encode(message)
    return len(body).to_bytes(LENGTH, "big") + body
