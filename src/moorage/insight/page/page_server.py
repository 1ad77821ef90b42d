"""Serving the page to users on this machine, or to users with a token."""

import asyncio
from collections.abc import Callable
from typing import Final

from moorage.common.errors import InputError
from moorage.common.signals import stop_on_signals
from moorage.insight.page.events import PageNews
from moorage.insight.page.page_source import PageSource
from moorage.insight.page.paths import EVENTS, MAX_BODY, problem, public_paths
from moorage.insight.page.service import PageService
from moorage.kube.http.messages import AnyReply, HttpRequest, HttpService
from moorage.kube.http.proxies import is_loopback
from moorage.kube.http.server import BearerTokens, HttpServer

MAX_CONNECTIONS: Final = 256
STOP_SECONDS: Final = 1.0


def run_page(source: PageSource, address: str, port: int, tokens: BearerTokens, on_ready: Callable[[str], None]) -> int:
    """Serve until SIGINT or SIGTERM; call ``on_ready`` with the URL of the page. Return the exit code."""

    async def serve() -> None:
        stopping = stop_on_signals()
        await source.start()
        server = PageServer(source, address, port, tokens)
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

    def __init__(self, source: PageSource, address: str, port: int, tokens: BearerTokens | None = None) -> None:
        self._service = PageService(source)
        self._news = PageNews(self._service.answer)
        self._address, self._port = address, port
        self._tokens = tokens or BearerTokens()
        self._public = frozenset(public_paths())
        self._http = HttpServer(HttpService(self._answer, problem, MAX_BODY), MAX_CONNECTIONS)
        self.url = ""

    async def start(self) -> None:
        """Start to serve; raise InputError if the address is not available."""
        try:
            port = await self._http.listen(self._address, self._port)
        except OSError as error:
            where = f"--address {self._address} --port {self._port}"
            hint = "--port 0 picks a free port"
            raise InputError(where, f"cannot listen: {error.strerror or error}", hint=hint) from error
        host = f"[{self._address}]" if ":" in self._address else self._address
        self.url = f"http://{host}:{port}/ui/"

    async def stop(self) -> None:
        """Stop serving."""
        await self._news.stop()
        await self._http.stop(STOP_SECONDS)

    def _answer(self, request: HttpRequest) -> AnyReply:
        if not self._tokens and not _is_for_this_machine(request):
            return problem(403, "this page is for this machine only, under the name that was printed")
        if request.path not in self._public and not self._tokens.admit(request):
            return problem(401, "a token is needed: Authorization: Bearer TOKEN")
        if request.path == EVENTS:
            return self._news.stream()
        return self._service.answer(request)


def _is_for_this_machine(request: HttpRequest) -> bool:
    """Return whether the Host header is empty or a loopback name. This prevents DNS rebinding by other sites."""
    host = request.header(b"host").strip()
    name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0]
    return not name or is_loopback(name)
