"""Sessions on their own thread: one question at a time, while the page is served."""

import asyncio
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, TypeVar

from moorage.common.caches import LRU
from moorage.common.errors import InputError
from moorage.insight.page.question_handlers import answer
from moorage.insight.whatif.session import Session

MAX_WAITING: Final = 32
"""Limit of pending questions. Further ones are rejected."""
MAX_SESSIONS: Final = 4
T = TypeVar("T")


class SessionThread:
    """Opens sessions and evaluates questions on one thread. Recent sessions remain open.

    ``open_session`` gets the key of a question: the run and the time.
    """

    def __init__(self, open_session: Callable[[Any], Session]) -> None:
        self._open = open_session
        self._sessions: LRU[Hashable, Session] = LRU(
            "page sessions", MAX_SESSIONS, on_drop=lambda _key, session: session.close()
        )
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="page")
        self._waiting = 0

    async def ask(self, key: Hashable, question: str, arguments: Mapping[str, Any]) -> Any:
        """Evaluate a question."""
        if self._waiting >= MAX_WAITING:
            raise InputError(question, "too many pending questions", hint="retry in a moment")
        return await self.run(lambda: answer(self.session(key), question, arguments))

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function on the thread, after the pending ones."""
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, work)
        finally:
            self._waiting -= 1

    def session(self, key: Hashable) -> Session:
        """Return the session for a key; open it if necessary. Call this on the thread."""
        session = self._sessions.find(key)
        if session is None:
            session = self._open(key)
            self._sessions.put(key, session)
        return session

    async def close(self) -> None:
        """Close all sessions, after the pending questions."""

        def close_sessions() -> None:
            for _, session in list(self._sessions.items()):
                session.close()
            self._sessions.clear()

        await self.run(close_sessions)
        self._worker.shutdown(wait=False)
