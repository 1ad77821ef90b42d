"""Browser tests need a Chromium and a minute: `make browser` runs them, and fails without Chromium."""

import os
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, ViewportSize

from tests.browser.browsing import HINT, WIDE, Looker, browsing, chromium

if not os.environ.get("MOORAGE_BROWSER"):
    collect_ignore_glob = ["test_*.py"]

Look = Callable[..., Looker]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One browser for all tests."""
    if chromium() is None:
        pytest.fail(HINT)
    with browsing() as running:
        yield running


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """Open windows without stored data, and close them."""
    contexts = []

    def opened(size: ViewportSize = WIDE, *, dark: bool = False) -> Looker:
        context = browser.new_context(viewport=size, color_scheme="dark" if dark else "light")
        context.set_default_timeout(60_000)
        contexts.append(context)
        return Looker(context.new_page())

    yield opened
    for context in contexts:
        context.close()
