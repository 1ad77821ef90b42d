"""`moorage ui`: a cluster from a file as a page, until Ctrl-C."""

import asyncio
import signal
from collections.abc import Callable
from typing import Protocol

from moorage.insight.page.page_server import PageServer
from moorage.insight.page.page_source import PageSource
from moorage.kube.http.bearer_tokens import BearerTokens


class StartedSource(PageSource, Protocol):
    """A source that has to be started and stopped."""

    async def start(self) -> None:
        """Begin; InputError if there is nothing to show."""
        ...

    async def stop(self) -> None:
        """Release all resources."""
        ...


def run_page(
    make: Callable[[], StartedSource], address: str, port: int, tokens: BearerTokens, ready: Callable[[str], None]
) -> int:
    """Serve until SIGINT or SIGTERM; call ``ready`` with the address of the page. Return the exit code."""

    async def serve() -> None:
        stopping = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        source = make()
        await source.start()
        server = PageServer(source, address, port, tokens)
        try:
            await server.start()
            ready(server.url)
            await stopping.wait()
        finally:
            await server.stop()
            await source.stop()

    asyncio.run(serve())
    return 0
