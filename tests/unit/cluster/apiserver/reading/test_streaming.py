"""Watches on the wire: a client that does not read costs its connection, not the server."""

import asyncio

from tests.support.api import NODES, ApiHarness, node

from moorage.cluster.apiserver.reading.streaming import MAX_STALL, Watchers
from moorage.cluster.apiserver.reading.watching import Watch
from moorage.cluster.apiserver.requests.request import ApiRequest
from moorage.common.virtual_time import run_virtual


class Pipe:
    """A connection with a remote end that reads only on request."""

    def __init__(self) -> None:
        self.is_full = False
        self.sent = b""
        self.is_ended = self.is_aborted = False

    def send(self, piece: bytes) -> None:
        self.sent += piece
        self.is_full = True

    def end(self) -> None:
        self.is_ended = True

    def abort(self) -> None:
        self.is_aborted = True


def test_stalled_watch_is_dropped_but_slow_watch_is_not() -> None:
    server = ApiHarness()

    async def run() -> None:
        watchers = Watchers(server.api.store)
        unread, late = Pipe(), Pipe()
        for pipe in (unread, late):
            watch = server.api.answer(ApiRequest("GET", NODES, {"watch": "true"}))
            assert isinstance(watch, Watch)
            watchers.stream(watch).start(pipe)
        server.create(NODES, node("n1"))
        for _ in range(int(MAX_STALL // 5) + 2):
            await asyncio.sleep(5)
            late.is_full = False
            watchers.tick()
        assert unread.is_aborted
        assert not late.is_aborted
        server.create(NODES, node("n2"))
        await asyncio.sleep(1)
        assert b'"n2"' in late.sent
        assert b'"n2"' not in unread.sent

    run_virtual(run(), server.clock)
