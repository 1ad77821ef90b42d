"""Serving the page to users on this machine, or to users with a token."""

import asyncio
from collections.abc import Callable
from typing import Final

from moorage.common.signals import stop_on_signals
from moorage.insight.listening import ListenOptions
from moorage.insight.page.events import PageNews
from moorage.insight.page.page_source import PageSource
from moorage.insight.page.paths import EVENTS, MAX_BODY, ROOT, TRY, problem, public_paths
from moorage.insight.page.service import PageService
from moorage.kube.http.messages import UNUSED_BODY, AnyReply, HttpRequest, HttpService, Reply
from moorage.kube.http.server import HttpServer

MAX_CONNECTIONS: Final = 256
STOP_SECONDS: Final = 1.0


def run_page(source: PageSource, listening: ListenOptions, on_ready: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM. Call ``on_ready`` with the URL of the page. Return the exit code."""

    async def serve() -> None:
        stopping = stop_on_signals()
        await source.start()
        server = PageServer(source, listening)
        try:
            await server.start()
            on_ready(server.url)
            await stopping.wait()
        finally:
            await server.stop()
            await source.stop()

    asyncio.run(serve())
    return 0


class PageServer:
    """The page on a separate address, from start to stop."""

    def __init__(self, source: PageSource, listening: ListenOptions) -> None:
        self._service = PageService(source)
        self._news = PageNews(self._service.answer)
        self._listening = listening
        self._guard = listening.guard(problem, frozenset(public_paths()))
        self._http = HttpServer(HttpService(self._answer, problem, self._check_head), MAX_CONNECTIONS)
        self.url = ""

    async def start(self) -> None:
        """Start to serve. Raise InputError if the address is not available."""
        self.url = f"{await self._listening.listen(self._http)}{ROOT}"

    async def stop(self) -> None:
        """Stop serving."""
        await self._news.stop()
        await self._http.stop(STOP_SECONDS)

    def _check_head(self, request: HttpRequest) -> int | Reply:
        return self._guard.check(request) or (MAX_BODY if request.path == TRY else UNUSED_BODY)

    def _answer(self, request: HttpRequest) -> AnyReply:
        if (refusal := self._guard.check(request)) is not None:
            return refusal
        if request.path == EVENTS:
            return self._news.stream(request)
        return self._service.answer(request)
