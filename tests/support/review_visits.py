"""Requests to a server that delegates reviews."""

import asyncio
from pathlib import Path

from msgspec.structs import replace
from tests.support.review_server import ReviewServer
from tests.support.serving import Reply, Visitor, served

from moorage.common.clock import VirtualClock
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions


def visits(
    reviews: ReviewServer,
    directory: Path,
    *requests: dict[str, object],
    authentication: AuthenticationOptions | None = None,
    clock: VirtualClock | None = None,
) -> list[Reply]:
    """Request /metrics with several credentials, in sequence."""

    async def work() -> list[Reply]:
        async with reviews.running(directory) as kubeconfig:
            name = replace(authentication or AuthenticationOptions(), kubeconfig=kubeconfig)
            may = AuthorizationOptions(kubeconfig)
            async with served(authentication=name, authorization=may, clock=clock or VirtualClock()) as visitor:
                return [await ask(visitor, request) for request in requests]

    return asyncio.run(work())


async def ask(visitor: Visitor, request: dict[str, object]) -> Reply:
    return await visitor.ask(**{"path": "/metrics", **request})  # type: ignore[arg-type]
