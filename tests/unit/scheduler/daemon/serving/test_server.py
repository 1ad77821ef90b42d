"""The server without an API server, and its limits."""

import asyncio

from tests.support.page_visits import visit
from tests.support.serving import served

from moorage.scheduler.daemon.options import AuthorizationOptions


def test_without_kubeconfigs_only_open_paths_are_served() -> None:
    async def work() -> tuple[int, int, int]:
        async with served(authorization=AuthorizationOptions()) as visitor:
            replies = [await visitor.ask("/healthz"), await visitor.ask("/metrics"), await visitor.ask("/", token="x")]
            return replies[0].status, replies[1].status, replies[2].status

    assert asyncio.run(work()) == (200, 403, 401)


def test_no_page_takes_a_long_body() -> None:
    assert visit("/debug/flags/v", method="PUT", body="7" * 4097).status == 413
