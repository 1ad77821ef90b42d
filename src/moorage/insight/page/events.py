"""Server-sent events: they notify the page of new data, which it then requests.

An event contains only the newest version number. A slow client misses some events without losing data, and costs no
memory here.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Final
from urllib.parse import unquote

from moorage.common.background import keep_running
from moorage.insight.page.paths import API, EVENTS, MAX_BODY, ROOT, TRY, problem, serve_file
from moorage.kube.http.messages import HttpRequest, Reply, ReplyStream, Sink, chunk

TICK_SECONDS: Final = 1.0
QUIET_TICKS: Final = 15
"""Ticks without news after which a comment is sent, so that proxies keep the connection."""
STALLED_TICKS: Final = 60
"""Seconds after which a client that does not read is disconnected. The page reconnects."""
MAX_READERS: Final = 64
MAX_IN_PROGRESS: Final = 32
"""Requests of the page that may wait for the scheduler."""
MAX_TICKS: Final = 1800
"""Seconds after which a stream ends. The page opens another one, which rechecks its permissions."""
STREAM: Final = "text/event-stream; charset=utf-8"

Poll = Callable[[HttpRequest], Awaitable[Reply]]
Handler = Callable[[HttpRequest], Coroutine[Any, Any, Reply | ReplyStream]]


def with_page_events(handler: Handler, poll: Poll) -> tuple[Handler, Mapping[str, int]]:
    """Add the page's event stream and files to the handler of a supervisor. Return it and the limits of bodies.

    ``poll`` forwards a request to the scheduler. Files need no authentication, so the scheduler neither serves
    them nor rejects paths without a file.
    """
    news, in_progress = PageNews(poll), 0

    async def handle(request: HttpRequest) -> Reply | ReplyStream:
        nonlocal in_progress
        path = unquote(request.path)
        if path != ROOT.rstrip("/") and not path.startswith(ROOT):
            return await handler(request)
        if request.path == EVENTS:
            return news.stream(request)
        if not path.startswith(API):
            return serve_file(request)
        # Readers of the page wait for their share of the scheduler: leave places for readers of other pages.
        if in_progress >= MAX_IN_PROGRESS:
            return problem(503, "too many requests of the page are in progress")
        in_progress += 1
        try:
            return await handler(request)
        finally:
            in_progress -= 1

    return handle, {TRY: MAX_BODY}


class EventStream:
    """One reader's stream."""

    content_type = STREAM

    def __init__(self, news: "PageNews") -> None:
        self._news = news
        self._sink: Sink | None = None
        self._last_sent = b""
        self._stalled = 0
        self._ticks = 0

    def start(self, sink: Sink) -> None:
        """Begin: send the current version immediately."""
        self._sink = sink
        sink.send(chunk(b"retry: 2000\n\n"))
        self._news.add(self)
        self.resume_sending()

    def resume_sending(self) -> None:
        """Send the newest version, unless the reader has it or does not read."""
        latest = self._news.latest
        if self._sink is not None and not self._sink.is_full and latest and latest != self._last_sent:
            self._last_sent = latest
            self._sink.send(chunk(b"event: version\ndata: %b\n\n" % latest))

    def tick(self) -> None:
        """Keep the connection alive, and disconnect a client that does not read."""
        sink = self._sink
        if sink is None:
            return
        self._ticks += 1
        if sink.is_full:
            self._stalled += 1
            if self._stalled >= STALLED_TICKS:
                self.stop()
                sink.abort()
            return
        self._stalled = 0
        self.resume_sending()
        if self._ticks >= MAX_TICKS:
            self.stop()
            sink.end()
        elif self._ticks % QUIET_TICKS == 0:
            sink.send(chunk(b": still here\n\n"))

    def stop(self) -> None:
        """Stop: the client has disconnected."""
        self._sink = None
        self._news.discard(self)


class PageNews:
    """Polls the version of the page's data once a second while there are clients."""

    def __init__(self, poll: Poll) -> None:
        self._poll = poll
        self._readers: dict[EventStream, None] = {}
        self._ticking: asyncio.Task[None] | None = None
        self.latest = b""

    def stream(self, request: HttpRequest) -> EventStream | Reply:
        """Return a stream for one more reader, or a rejection if there are too many."""
        if request.method != "GET":
            return problem(405, "only GET is supported")
        if len(self._readers) >= MAX_READERS:
            return problem(503, "too many pages are open")
        return EventStream(self)

    def add(self, reader: EventStream) -> None:
        """Notify a client of news from now on."""
        self._readers[reader] = None
        if self._ticking is None or self._ticking.done():
            self._ticking = keep_running(self._tick, "page news")

    def discard(self, reader: EventStream) -> None:
        """Remove a client."""
        self._readers.pop(reader, None)

    async def _tick(self) -> None:
        while self._readers:
            answer = await self._poll(HttpRequest("GET", f"{API}version".encode(), [], b""))
            if answer.status == 200:
                self.latest = answer.body
            for reader in tuple(self._readers):
                reader.tick()
            await asyncio.sleep(TICK_SECONDS)

    async def stop(self) -> None:
        """Stop polling."""
        self._readers.clear()
        if self._ticking is not None:
            self._ticking.cancel()
            await asyncio.gather(self._ticking, return_exceptions=True)
