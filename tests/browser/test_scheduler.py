"""The page of a scheduler: unauthorized users are prompted for a token, and see the cluster with it."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser
from playwright.sync_api import Error as PlaywrightError

from tests.browser.browsing import WIDE, Looker
from tests.integration.test_scheduler_page import scheduler
from tests.unit.insight.page.clusters import node, pod


@contextmanager
def running(directory: Path) -> Iterator[tuple[str, str]]:
    """Run a scheduler on an embedded API server, both on another thread."""
    results: list[tuple[str, str]] = []
    is_up, loop, leave = threading.Event(), asyncio.new_event_loop(), asyncio.Event()

    async def work() -> None:
        async with scheduler(directory, "--ui", contents=(node("n1"), pod("big", "9"))) as where:
            results.append(where)
            is_up.set()
            await leave.wait()

    thread = threading.Thread(target=lambda: loop.run_until_complete(work()))
    thread.start()
    is_up.wait()
    try:
        yield results[0]
    finally:
        loop.call_soon_threadsafe(leave.set)
        thread.join()
        loop.close()


def test_unauthorized_visitors_are_prompted_for_a_token(browser: Browser, tmp_path: Path) -> None:
    context = browser.new_context(viewport=WIDE, ignore_https_errors=True)
    context.set_default_timeout(60_000)
    with running(tmp_path) as (url, token):
        window = Looker(context.new_page())
        for _ in range(600):
            try:
                answer = window.page.goto(f"{url}/ui/")
            except PlaywrightError:
                window.page.wait_for_timeout(100)
            else:
                if answer is not None and answer.status == 200:
                    break
        window.wait_for("Token required")
        window.wait_for("system:anonymous")
        window.page.fill("input[name=token]", token)
        window.page.click("text=Show the page")
        window.wait_for("Insufficient cpu")
        context.close()
