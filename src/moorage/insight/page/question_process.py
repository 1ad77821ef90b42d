"""Questions of the page about a live cluster, handled by a child process that reads the cluster itself.

The first question starts the process. It reloads the cluster when its data is old, and ends when it is idle.
"""

import asyncio
from collections.abc import Mapping
from math import ceil
from typing import Any, Final

import msgspec

from moorage.common.child_process import ChildEnded, ChildProcess, RestartPolicy, encode_frame
from moorage.common.errors import InputError
from moorage.insight.explain.explain_events import ExplainRequest

WORKER: Final = "moorage.insight.page.question_worker"
MAX_QUEUED: Final = 16
ANSWER_SECONDS: Final = 90.0
"""More than reading a large cluster and searching for changes takes."""
IDLE_SECONDS: Final = 120.0


class PageQuestion(msgspec.Struct, frozen=True):
    """A question and its parameters."""

    question: str
    asked: dict[str, Any]


class PageAnswer(msgspec.Struct, frozen=True):
    """The result of a question as plain data, or an error message."""

    data: Any = None
    problem: str = ""


_answers: Final = msgspec.msgpack.Decoder(PageAnswer)


class QuestionProcess:
    """The child process. It handles one question at a time."""

    def __init__(self, request: ExplainRequest) -> None:
        self.request = request
        self._process: ChildProcess | None = None
        self._restarts = RestartPolicy()
        self._lock = asyncio.Lock()
        self._queued = 0
        self._idle: asyncio.TimerHandle | None = None

    async def change(self, request: ExplainRequest) -> None:
        """Handle later questions under another policy."""
        self.request = request
        async with self._lock:
            await self.stop()

    async def ask(self, question: str, arguments: Mapping[str, Any]) -> Any:
        """Return the result of a question. Raise InputError if the question fails."""
        if self._queued >= MAX_QUEUED:
            raise InputError(question, "too many questions are pending", hint="try again in a moment")
        self._queued += 1
        try:
            async with self._lock:
                answer = await self._exchange(PageQuestion(question, dict(arguments)))
        finally:
            self._queued -= 1
        if answer.problem:
            raise InputError("the cluster", answer.problem)
        return answer.data

    async def _exchange(self, question: PageQuestion) -> PageAnswer:
        if self._idle is not None:
            self._idle.cancel()
        if (seconds := self._restarts.remaining) > 0:
            raise InputError("the question", "the worker process has ended", hint=f"try again in {ceil(seconds)} s")
        is_answered = False
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                if self._process is None or not self._process.is_running:
                    self._process = await ChildProcess.start(WORKER)
                    self._process.write(encode_frame(self.request))
                await self._process.send(question)
                answer = await self._process.receive(_answers)
            is_answered = True
            self._restarts.succeeded()
        except TimeoutError as error:
            raise InputError("the question", f"no response within {ANSWER_SECONDS:.0f} s") from error
        except (ChildEnded, OSError) as error:
            self._restarts.failed()
            raise InputError("the question", "the worker process has ended; see the log") from error
        finally:
            # The pipe may contain part of a result: it must not become the result of the next question.
            if not is_answered:
                await self.stop()
        self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._process.kill)
        return answer

    async def stop(self) -> None:
        """End the process, if there is one."""
        if self._idle is not None:
            self._idle.cancel()
        process, self._process = self._process, None
        if process is not None:
            await process.close()
