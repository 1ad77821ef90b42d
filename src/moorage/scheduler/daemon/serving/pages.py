"""The pages: health, which the supervisor serves, and metrics, configuration, version, flags, status and profiles."""

import time
from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct, field

from moorage.common.caches import report_caches
from moorage.common.clock import boot_time
from moorage.common.version import version_info
from moorage.kube.features import FeatureGates
from moorage.kube.http.messages import HttpRequest, Reply
from moorage.scheduler.daemon.flags.parsing import FlagValues
from moorage.scheduler.daemon.serving.health import HealthChecks, Report
from moorage.scheduler.daemon.serving.routing import PLAIN, PageHandler, Router, text_reply
from moorage.scheduler.daemon.serving.zpages import flagz, listed_paths, statusz
from moorage.scheduler.framework.logs import VERBOSITY

MAX_VERBOSITY: Final = (1 << 31) - 1
MAX_SHOWN: Final = 100
"""Maximum length of invalid input in an error."""

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry
    from prometheus_client.core import Metric

    from moorage.scheduler.daemon.metrics.cells import CellRegistry

HEALTH_PATHS: Final = ("/healthz", "/livez", "/readyz")
"""Pages that the supervisor serves itself."""


class Exposed(Protocol):
    """A source of metrics."""

    def collect(self) -> "Iterable[Metric]":
        """Iterate over the current families."""
        ...


class PageSources(Struct, frozen=True):
    """The data sources of the pages."""

    metrics: "CellRegistry"
    pod_resources: Exposed
    configuration: Callable[[], dict[str, Any]]
    flags: FlagValues
    features: FeatureGates = field(default_factory=FeatureGates)


class HealthPages:
    """Serves the health of the process, and the counts of its health checks."""

    def __init__(self, health: HealthChecks) -> None:
        self._health = health

    def add_to(self, router: Router) -> None:
        """Register the pages."""
        for endpoint in self._health.endpoints:
            router.add("GET", f"/{endpoint}", self._health_page(endpoint))
            router.add("GET", f"/{endpoint}/", self._check_page(endpoint))
        router.add("GET", "/metrics/slis", exposition_page(self._health.families))

    def _health_page(self, endpoint: str) -> PageHandler:
        async def page(request: HttpRequest) -> Reply:
            words = parse_qsl(request.query_string, keep_blank_values=True)
            excluded = [name for key, value in words if key == "exclude" for name in value.split(",")]
            is_verbose = any(key == "verbose" for key, _ in words)
            return _health_answer(self._health.report(endpoint, verbose=is_verbose, exclude=excluded))

        return page

    def _check_page(self, endpoint: str) -> PageHandler:
        async def page(request: HttpRequest) -> Reply:
            report = self._health.report_one(endpoint, unquote(request.path).rpartition("/")[2])
            return _health_answer(report) if report is not None else text_reply("404 page not found\n", 404)

        return page


class Pages:
    """Serves all other pages."""

    def __init__(self, sources: PageSources) -> None:
        self._sources = sources
        self._began = time.time()
        self._booted = boot_time()
        self._router = Router()

    def add_to(self, router: Router) -> None:
        """Register the pages."""
        self._router = router
        router.add("GET", "/metrics", exposition_page(self._sources.metrics.collect, of_process=True))
        router.add("DELETE", "/metrics", self._reset_metrics)
        router.add("GET", "/metrics/resources", exposition_page(self._sources.pod_resources.collect))
        router.add("GET", "/configz", self._configz)
        router.add("GET", "/version", self._version)
        router.add("GET", "/debug/caches", self._caches)
        if self._sources.features.enabled("ComponentFlagz"):
            router.add("GET", "/flagz", self._flagz)
        if self._sources.features.enabled("ComponentStatusz"):
            router.add("GET", "/statusz", self._statusz)

    async def _reset_metrics(self, _: HttpRequest) -> Reply:
        self._sources.metrics.reset()
        return text_reply("metrics reset\n")

    async def _configz(self, _: HttpRequest) -> Reply:
        return Reply(200, msgspec.json.encode({"componentconfig": self._sources.configuration()}))

    async def _version(self, _: HttpRequest) -> Reply:
        return Reply(200, msgspec.json.encode(version_info()))

    async def _caches(self, _: HttpRequest) -> Reply:
        return Reply(200, msgspec.json.encode({"caches": report_caches()}))

    async def _flagz(self, request: HttpRequest) -> Reply:
        return flagz(self._sources.flags).answer(request)

    async def _statusz(self, request: HttpRequest) -> Reply:
        paths, release = listed_paths({*self._router.paths, *HEALTH_PATHS}), self._sources.features.release
        page = statusz(self._began, boot_time() - self._booted, release, paths)
        return page.answer(request)


def exposition_page(collect: "Callable[[], Iterable[Metric]]", *, of_process: bool = False) -> PageHandler:
    """Return a page with metrics, in a format that the scraper accepts."""

    @cache
    def make_registry() -> "CollectorRegistry":
        # Imported at the first scrape: prometheus_client delays the start.
        from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
        from prometheus_client.registry import Collector

        class FamilyCollector(Collector):
            def collect(self) -> "Iterable[Metric]":
                return collect()

        registry = CollectorRegistry(auto_describe=False)
        registry.register(FamilyCollector())
        if of_process:
            ProcessCollector(registry=registry)
            GCCollector(registry=registry)
        return registry

    async def page(request: HttpRequest) -> Reply:
        from prometheus_client.exposition import choose_encoder

        encode, content_type = choose_encoder(request.header(b"accept"))
        return Reply(200, encode(make_registry()), content_type)

    return page


async def set_verbosity(request: HttpRequest) -> Reply:
    """Change how much is logged: PUT a number to /debug/flags/v."""
    text = request.body.decode(errors="replace").strip()
    if not (text.isascii() and text.isdecimal()):
        return text_reply(f'strconv.ParseUint: parsing "{text[:MAX_SHOWN]}": invalid syntax\n', 400)
    if len(text) > len(str(MAX_VERBOSITY)) or int(text) > MAX_VERBOSITY:
        return text_reply(f'strconv.ParseUint: parsing "{text[:MAX_SHOWN]}": value out of range\n', 400)
    VERBOSITY.set(int(text))
    return text_reply(f"successfully set klog.logging.verbosity to {text}\n")


def _health_answer(report: Report) -> Reply:
    status = 200 if report.is_healthy else 500
    return Reply(status, report.text.encode(), PLAIN, (("X-Content-Type-Options", "nosniff"),))
