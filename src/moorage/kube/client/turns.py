"""Writes about one object go one after the other, in the order in which they were asked for."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Turns:
    """Who writes about which object, and who waits to; objects that nobody writes about cost nothing."""

    def __init__(self) -> None:
        self._locks: dict[str, asyncio.Lock] = {}
        self._users: dict[str, int] = {}

    def __contains__(self, uid: str) -> bool:
        return uid in self._locks

    @asynccontextmanager
    async def of(self, uid: str) -> AsyncIterator[None]:
        """Wait until all who asked before are done with the object, and keep those who ask later waiting."""
        lock = self._locks.get(uid)
        if lock is None:
            lock = self._locks[uid] = asyncio.Lock()
        self._users[uid] = self._users.get(uid, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[uid] -= 1
            if not self._users[uid]:
                del self._users[uid], self._locks[uid]
