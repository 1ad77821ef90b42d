"""The pages: health, metrics, configuration, version, flags, status and the level of logs."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from moorage.app.flags.parsing import FlagValues
from moorage.app.logs import VERBOSITY
from moorage.app.metrics.cells import CellRegistry
from moorage.app.serving.health import HealthChecks, Report
from moorage.app.serving.zpages import flagz, listed_paths, statusz
from moorage.app.version import version_info
from moorage.features import FeatureGates


@dataclass(frozen=True, slots=True)
class PageSources:
    """Where the pages take what they show from."""

    health: HealthChecks
    metrics: CellRegistry
    pod_resources: Collector
    configuration: Callable[[], dict[str, Any]]
    flags: FlagValues
    features: FeatureGates = field(default_factory=FeatureGates)


class FamilyCollector(Collector):
    """Exposes whatever a function returns."""

    def __init__(self, families: Callable[[], Any]) -> None:
        self._families = families

    def collect(self) -> Iterator[Any]:
        """Yield what there is now."""
        yield from self._families()


def exposing(*collectors: Collector) -> CollectorRegistry:
    """Make a registry that exposes collectors and nothing else."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in collectors:
        registry.register(collector)
    return registry


class Pages:
    """Answers requests for pages."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._began = time.time()
        self._metrics = exposing(sources.metrics)
        ProcessCollector(registry=self._metrics)
        GCCollector(registry=self._metrics)
        self._resources = exposing(sources.pod_resources)
        self._slis = exposing(FamilyCollector(sources.health.families))

    def add_to(self, app: web.Application) -> None:
        """Register all pages."""
        for endpoint in self._sources.health.endpoints:
            app.router.add_get(f"/{endpoint}", self._health_page(endpoint))
            app.router.add_get(f"/{endpoint}/{{check}}", self._check_page(endpoint))
        app.router.add_get("/metrics", self._exposition_page(self._metrics))
        app.router.add_delete("/metrics", self._reset_metrics)
        app.router.add_get("/metrics/resources", self._exposition_page(self._resources))
        app.router.add_get("/metrics/slis", self._exposition_page(self._slis))
        app.router.add_get("/configz", self._configz)
        app.router.add_get("/version", self._version)
        if self._sources.features.enabled("ComponentFlagz"):
            app.router.add_get("/flagz", self._flagz)
        if self._sources.features.enabled("ComponentStatusz"):
            app.router.add_get("/statusz", self._statusz)

    def _health_page(self, endpoint: str) -> Callable[[web.Request], Any]:
        async def page(request: web.Request) -> web.Response:
            excluded = [name for given in request.query.getall("exclude", []) for name in given.split(",")]
            report = self._sources.health.report(endpoint, verbose="verbose" in request.query, exclude=excluded)
            return _health_answer(report)

        return page

    def _check_page(self, endpoint: str) -> Callable[[web.Request], Any]:
        async def page(request: web.Request) -> web.Response:
            report = self._sources.health.report_one(endpoint, request.match_info["check"])
            if report is None:
                raise web.HTTPNotFound(text="404 page not found\n")
            return _health_answer(report)

        return page

    @staticmethod
    def _exposition_page(registry: CollectorRegistry) -> Callable[[web.Request], Any]:
        async def page(request: web.Request) -> web.Response:
            encode, content_type = choose_encoder(request.headers.get("Accept", ""))
            return web.Response(body=encode(registry), headers={"Content-Type": content_type})

        return page

    async def _reset_metrics(self, _: web.Request) -> web.Response:
        self._sources.metrics.reset()
        return web.Response(text="metrics reset\n")

    async def _configz(self, _: web.Request) -> web.Response:
        return web.json_response({"componentconfig": self._sources.configuration()})

    async def _version(self, _: web.Request) -> web.Response:
        return web.json_response(version_info())

    async def _flagz(self, request: web.Request) -> web.Response:
        return flagz(self._sources.flags).answer(request)

    async def _statusz(self, request: web.Request) -> web.Response:
        page = statusz(self._began, self._sources.features.release, listed_paths(request.app))
        return page.answer(request)


async def set_verbosity(request: web.Request) -> web.Response:
    """Change how much is logged: PUT a number to /debug/flags/v."""
    text = (await request.text()).strip()
    if not text.isdecimal():
        return web.Response(text=f'strconv.ParseUint: parsing "{text}": invalid syntax\n', status=400)
    VERBOSITY.set(int(text))
    return web.Response(text=f"successfully set klog.logging.verbosity to {text}\n")


def _health_answer(report: Report) -> web.Response:
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache, private"}
    return web.Response(text=report.text, status=200 if report.is_healthy else 500, headers=headers)
