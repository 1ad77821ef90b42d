"""Our HTTPS server on a free port of this machine, and a client for it."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
from msgspec.structs import replace
from prometheus_client.registry import Collector

from moorage.common.clock import VirtualClock
from moorage.scheduler.daemon.flags.parsing import parse
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.options import AuthenticationOptions, AuthorizationOptions, ServingOptions
from moorage.scheduler.daemon.serving.health import HealthCheck, HealthChecks, ping
from moorage.scheduler.daemon.serving.pages import HealthPages, Pages, PageSources, set_verbosity
from moorage.scheduler.daemon.serving.profiling import add_profiling
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.daemon.serving.server import Server

ON_LOOPBACK = ServingOptions("127.0.0.1", 0)
EVERYTHING = AuthorizationOptions(always_allow=("/*",))


class Nothing(Collector):
    """Exposes no metrics."""

    def collect(self) -> list[Any]:
        return []


class Reply(NamedTuple):
    """A response."""

    status: int
    text: str
    headers: Mapping[str, str]


class Visitor:
    """Requests pages; trusts any certificate, and may present a client certificate."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.base = f"https://127.0.0.1:{server.port}"

    async def ask(
        self,
        path: str,
        *,
        method: str = "GET",
        token: str = "",
        certificate: tuple[Path, Path] | None = None,
        headers: Mapping[str, str] | None = None,
        body: str = "",
    ) -> Reply:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if certificate is not None:
            context.load_cert_chain(*certificate)
        sent = {**(headers or {}), **({"Authorization": f"Bearer {token}"} if token else {})}
        connector = aiohttp.TCPConnector(ssl=context, force_close=True)
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.request(method, self.base + path, headers=sent, data=body or None) as answer,
        ):
            return Reply(answer.status, await answer.text(), answer.headers)


def page_sources(**changes: Any) -> PageSources:
    """Return the data sources of all pages."""
    sources = PageSources(
        metrics=CellRegistry(),
        pod_resources=Nothing(),
        configuration=lambda: {"kind": "KubeSchedulerConfiguration"},
        flags=parse(["--v=2"]),
    )
    return replace(sources, **changes)


@asynccontextmanager
async def served(
    sources: PageSources | None = None,
    *,
    checks: Mapping[str, HealthCheck] | None = None,
    options: ServingOptions = ON_LOOPBACK,
    authentication: AuthenticationOptions | None = None,
    authorization: AuthorizationOptions = EVERYTHING,
    clock: VirtualClock | None = None,
) -> AsyncIterator[Visitor]:
    """Serve all pages for the duration of the block, with one set of checks on all endpoints."""
    value, output, router = dict(checks or {"ping": ping}), sources or page_sources(), Router()
    HealthPages(HealthChecks({"healthz": value, "livez": value, "readyz": value})).add_to(router)
    Pages(output).add_to(router)
    add_profiling(router)
    router.add("PUT", "/debug/flags/v", set_verbosity)
    server = Server(options, router.answer, output.metrics)
    try:
        await server.start(authentication or AuthenticationOptions(), authorization, clock)
        yield Visitor(server)
    finally:
        await server.stop()
