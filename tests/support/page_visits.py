"""Requests for single pages."""

import asyncio

from tests.support.serving import Reply, served

from moorage.scheduler.daemon.serving.health import HealthCheck
from moorage.scheduler.daemon.serving.pages import PageSources


def visit(
    path: str, sources: PageSources | None = None, checks: dict[str, HealthCheck] | None = None, **options: str
) -> Reply:
    async def work() -> Reply:
        async with served(sources, checks=checks) as visitor:
            return await visitor.ask(path, **options)  # type: ignore[arg-type]

    return asyncio.run(work())
