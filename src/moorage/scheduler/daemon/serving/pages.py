"""The pages: health, which the supervisor serves, and metrics, configuration, version, flags, status and profiles."""

import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import parse_qsl, unquote

import msgspec
from msgspec import Struct, field

from moorage.common.caches import report_caches
from moorage.common.clock import boot_time
from moorage.common.version import KUBERNETES, version_info
from moorage.kube.api.meta import format_time
from moorage.kube.features import FeatureGates
from moorage.kube.http.messages import Headers, HttpRequest, Reply
from moorage.scheduler.config import to_yaml
from moorage.scheduler.daemon.flags.parsing import COMMAND, FlagValues
from moorage.scheduler.daemon.flags.table import CERTIFICATES, FLAGS, GATES, INTEGERS, MAP, TEXTS, Flag, format_value
from moorage.scheduler.daemon.serving.health import HealthChecks, Report
from moorage.scheduler.daemon.serving.routing import PLAIN, PageHandler, Router, text_reply
from moorage.scheduler.framework.logs import VERBOSITY

WARNING: Final = (
    "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees and is "
    "for debugging purposes only."
)
GROUP: Final = "config.k8s.io"
VERSIONS: Final = ("v1beta1", "v1alpha1")
JSON: Final = "application/json"
YAML: Final = "application/yaml"
ACCEPTED: Final = f"only the following media types are accepted: {JSON}, {YAML}, text/plain"


class ZPage(Struct, frozen=True):
    """A page as text and as a document."""

    kind: str
    lines: tuple[str, ...]
    content: Mapping[str, Any]

    def answer(self, request: HttpRequest) -> Reply:
        """Respond in the first supported form of the Accept header."""
        for media_type, parameters in _parse_accept(request.header(b"accept")):
            if media_type in ("*/*", "text/*", "text/plain"):
                return text_reply("\n".join(("", f"{COMMAND} {self.kind.lower()}", WARNING, *self.lines, "")))
            target = parameters.get("as"), parameters.get("g")
            if media_type in (JSON, YAML) and target == (self.kind, GROUP) and parameters.get("v") in VERSIONS:
                version = parameters["v"]
                api_version = f"{GROUP}/{version}"
                document = {"kind": self.kind, "apiVersion": api_version, "metadata": {"name": COMMAND}, **self.content}
                body = json.dumps(document, indent=2) if media_type == JSON else to_yaml(document)
                headers: Headers = ()
                if version != VERSIONS[0]:
                    page = self.kind.lower()
                    text = f'299 - "This version of the {page} endpoint is deprecated. Please use a newer version."'
                    headers = (("Warning", text),)
                return Reply(200, body.encode(), f"{media_type};g={GROUP};v={version};as={self.kind}", headers)
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        problem = {"message": ACCEPTED, "reason": "NotAcceptable", "code": 406}
        return Reply(406, json.dumps({**status, **problem}, indent=2).encode())


def flagz_values(values: FlagValues) -> dict[str, str]:
    """Return every flag with its value, sorted, in Go's spelling: lists of any type are in brackets."""
    return {name: _flagz_value(FLAGS[name], values[name]) for name in sorted(values)}


def _flagz_value(flag: Flag, value: Any) -> str:
    if flag.kind is GATES:
        # Upstream puts the component before each gate, and for the default one that is nothing.
        assignments = [item.strip() for text in value for item in text.split(",")]
        return ",".join(item if ":" in item else f":{item}" for item in assignments if item)
    return f"[{format_value(value)}]" if flag.kind in (TEXTS, INTEGERS, MAP, CERTIFICATES) else format_value(value)


def flagz(flags: FlagValues) -> ZPage:
    """Show every flag with its value."""
    values = flagz_values(flags)
    return ZPage("Flagz", tuple(f"{name}={value}" for name, value in values.items()), {"flags": values})


def statusz(began: float, seconds_up: float, release: str, paths: list[str]) -> ZPage:
    """Show start time, version, emulated version and paths."""
    lasted = int(seconds_up)
    minutes, seconds = divmod(lasted, 60)
    hours, minutes = divmod(minutes, 60)
    compiler, binary = version_info()["compiler"], KUBERNETES.removeprefix("v")
    lines = (
        "",
        f"Started: {time.strftime('%a %b %d %H:%M:%S UTC %Y', time.gmtime(began))}",
        f"Up: {hours} hr {minutes:02d} min {seconds:02d} sec",
        # Where kube-scheduler names the version of Go. The field keeps its name for existing clients.
        f"Go version: {compiler}",
        f"Binary version: {binary}",
        f"Emulation version: {release}",
        f"Paths: {' '.join(paths)}",
    )
    versions = {"goVersion": compiler, "binaryVersion": binary, "emulationVersion": release}
    times = {"startTime": format_time(int(began)), "uptimeSeconds": lasted}
    return ZPage("Statusz", lines, {**times, **versions, "paths": paths})


def listed_paths(paths: Iterable[str]) -> list[str]:
    """Return the top-level paths, sorted, without /statusz itself."""
    return sorted(path for path in paths if path.count("/") == 1 and path != "/statusz")


def _parse_accept(accept: str) -> Iterator[tuple[str, dict[str, str]]]:
    for item in (accept or "*/*").split(","):
        media_type, *parameters = (part.strip() for part in item.split(";"))
        pairs = (parameter.partition("=") for parameter in parameters)
        yield media_type, {name.strip(): value.strip() for name, _, value in pairs}


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
        router.add("GET", "/configz", json_page(lambda: {"componentconfig": self._sources.configuration()}))
        router.add("GET", "/version", json_page(version_info))
        router.add("GET", "/debug/caches", json_page(lambda: {"caches": report_caches()}))
        if self._sources.features.enabled("ComponentFlagz"):
            router.add("GET", "/flagz", self._flagz)
        if self._sources.features.enabled("ComponentStatusz"):
            router.add("GET", "/statusz", self._statusz)

    async def _reset_metrics(self, _: HttpRequest) -> Reply:
        self._sources.metrics.reset()
        return text_reply("metrics reset\n")

    async def _flagz(self, request: HttpRequest) -> Reply:
        return flagz(self._sources.flags).answer(request)

    async def _statusz(self, request: HttpRequest) -> Reply:
        paths, release = listed_paths({*self._router.paths, *HEALTH_PATHS}), self._sources.features.release
        page = statusz(self._began, boot_time() - self._booted, release, paths)
        return page.answer(request)


def json_page(content: Callable[[], object]) -> PageHandler:
    """Return a page with plain data as JSON."""

    async def page(_: HttpRequest) -> Reply:
        return Reply(200, msgspec.json.encode(content()))

    return page


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
