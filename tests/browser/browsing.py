"""A browser, and a page that a thread of this process serves."""

import asyncio
import os
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar

from playwright.sync_api import Browser, Page, ViewportSize, sync_playwright

from moorage.insight.listening import ListenOptions
from moorage.insight.page.page_server import PageServer
from moorage.insight.page.page_source import PageSource

NAMES = ("chromium", "chromium-browser", "google-chrome")
HINT = "no Chromium is installed here: apt-get install chromium, or name one in MOORAGE_CHROMIUM"
WIDE: ViewportSize = {"width": 1360, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
T = TypeVar("T")


def chromium() -> str | None:
    """Find a Chromium on this machine."""
    value = os.environ.get("MOORAGE_CHROMIUM")
    return value or next((path for name in NAMES if (path := shutil.which(name)) is not None), None)


@contextmanager
def browsing() -> Iterator[Browser]:
    """Run a browser; there is no sandbox in a container that runs as root."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage", "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=chromium(), args=arguments)
        try:
            yield browser
        finally:
            browser.close()


def elsewhere(work: Callable[[], T]) -> T:
    """Run a function on a separate thread: this thread runs the browser's loop."""
    with ThreadPoolExecutor(max_workers=1) as worker:
        return worker.submit(work).result()


class ServedPage:
    """A page on a separate thread; it can stop and restart on the same port."""

    def __init__(self, make: Callable[[], PageSource], token: str = "") -> None:
        self._make = make
        self._tokens = (token.encode(),) if token else ()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._port = 0
        self.source: PageSource
        self._server: PageServer

    def __enter__(self) -> Self:
        self._thread.start()
        self.come()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.go_away()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    @property
    def url(self) -> str:
        """The URL."""
        return self._server.url

    def come(self) -> None:
        """Start serving."""
        self._run(self._start())

    def go_away(self) -> None:
        """Stop serving."""
        self._run(self._stop())

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    async def _start(self) -> None:
        # On a thread without a loop: a simulation runs its own.
        self.source = await self._loop.run_in_executor(None, self._make)
        await self.source.start()
        self._server = PageServer(self.source, ListenOptions(port=self._port, tokens=self._tokens))
        await self._server.start()
        self._port = int(self._server.url.split(":")[2].partition("/")[0])

    async def _stop(self) -> None:
        await self._server.stop()
        await self.source.stop()


class Looker:
    """A page in the browser that records its errors."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.problems: list[str] = []
        page.on(
            "console",
            lambda message: self.problems.append(message.text) if message.type in ("error", "warning") else None,
        )
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("dialog", lambda dialog: self.problems.append(f"a dialog: {dialog.message}"))

    def open(self, url: str, view: str = "") -> None:
        """Open a view, and wait until it is drawn."""
        self.page.goto(f"{url}#/{view}")
        self.page.wait_for_selector("main .view")

    def text(self) -> str:
        """Return the visible text in one line."""
        return " ".join(self.page.inner_text("main").split())

    def wait_for(self, text: str) -> None:
        """Wait until a text is visible."""
        expected = "text => document.querySelector('main').innerText.replace(/\\s+/g, ' ').includes(text)"
        self.page.wait_for_function(expected, arg=text)
