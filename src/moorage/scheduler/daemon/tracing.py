"""OpenTelemetry: sampled attempts as traces, sent to an OTLP collector over HTTP. Imported only if a flag enables it.

An attempt has a span, with one span for each extension point, which contain those of plugins and API requests. They
are added from outside. The span of an attempt is current in the context of its cycle, and in that of its binding while
a phase of the binding runs.
"""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar, Token
from functools import partial
from random import Random
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from moorage.common.errors import InputError
from moorage.common.version import version_line
from moorage.kube.http.messages import Response, ResponseStream
from moorage.kube.http.pool import Transport
from moorage.scheduler.daemon.metrics.sampling import PluginSampler, read_status
from moorage.scheduler.engine.binding.binding_phases import PendingBinding
from moorage.scheduler.engine.extension_points import Point
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.engine.phases import PERMIT_WAIT_PHASE, F, Phase
from moorage.scheduler.framework.status import Code
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo

PATH: Final = "/v1/traces"
MILLION: Final = 1_000_000
T = TypeVar("T")

MAX_TRACED: Final = 512
"""Maximum number of concurrent traces, including bindings."""

CURRENT: ContextVar[Span | None] = ContextVar("moorage_span", default=None)


class TracedAttempts(AttemptObserver):
    """Creates spans for a share of all attempts; the :class:`CallTimer` of plugins while one is traced."""

    def __init__(self, tracer: Tracer, share: float, sampler: PluginSampler, chance: Random | None = None) -> None:
        self._tracer, self._share, self._sampler = tracer, share, sampler
        self._chance = chance or Random()
        self._attempts: dict[str, Span] = {}
        """The spans of pods by uid, and of groups by the key under which they are queued."""
        self._token: Token[Span | None] | None = None
        self._group: tuple[str, Span, Token[Span | None]] | None = None
        """The group that is being tried, if it is traced."""

    def wrap_phase(self, run: F, phase: Phase, profile: str) -> F:
        """Add a span to every call of an extension point."""
        if phase is PERMIT_WAIT_PHASE:
            return run
        call: Callable[..., Any] = run

        def trace(*arguments: Any, **keywords: Any) -> Any:
            if (parent := self._find_parent(phase, arguments)) is None:
                return call(*arguments, **keywords)
            with current_span(self._tracer, parent, phase.point.name) as span:
                result = call(*arguments, **keywords)
                _set_code(span, phase, result)
                return result

        async def trace_async(*arguments: Any, **keywords: Any) -> Any:
            if (parent := self._find_parent(phase, arguments)) is None:
                return await call(*arguments, **keywords)
            with current_span(self._tracer, parent, phase.point.name) as span:
                result = await call(*arguments, **keywords)
                _set_code(span, phase, result)
                return result

        traced: Any = trace_async if phase.is_async else trace
        return traced  # type: ignore[no-any-return]  # it has the signature of ``run``

    def on_attempt(self, queued: QueuedPodInfo) -> None:
        """Begin a trace if this attempt is sampled."""
        if self._is_sampled():
            self._token = CURRENT.set(self._begin_pod(queued, None))

    def on_group_attempt(self, queued: QueuedPodGroupInfo) -> None:
        """Begin the trace of a group: all plugin calls of the group's placement are part of its span."""
        if not self._is_sampled():
            return
        about: dict[str, str | int] = {
            "scheduler.group": queued.root.key,
            "scheduler.profile": queued.pod.scheduler_name,
            "scheduler.attempt": queued.attempts,
            "scheduler.members": queued.size,
        }
        span = self._tracer.start_span("schedule pod group", attributes=about)
        self._begin(queued.key, span)
        self._group = queued.key, span, CURRENT.set(span)

    def on_final_search(self, queued: QueuedPodInfo, result: object) -> None:
        """Start the span of a group member: its reservation and binding."""
        if self._group is not None and len(self._attempts) < MAX_TRACED:
            self._token = CURRENT.set(self._begin_pod(queued, self._group[1]))

    def on_group_end(self, attempt: GroupAttempt) -> None:
        """End the trace of a group; members that continue to their bindings end with those."""
        if self._group is None:
            return
        key, _, token = self._group
        self._group = None
        CURRENT.reset(token)
        self._finish(key, attempt.result, "" if attempt.status is None else attempt.status.message)

    def _is_sampled(self) -> bool:
        return len(self._attempts) < MAX_TRACED and self._chance.random() < self._share

    def _begin_pod(self, queued: QueuedPodInfo, group: Span | None) -> Span:
        pod = queued.pod
        span = self._tracer.start_span(
            "schedule pod",
            None if group is None else set_span_in_context(group),
            attributes={
                "k8s.namespace.name": pod.namespace,
                "k8s.pod.name": pod.name,
                "k8s.pod.uid": queued.uid,
                "scheduler.profile": pod.scheduler_name,
                "scheduler.attempt": queued.attempts,
            },
        )
        self._begin(queued.uid, span)
        return span

    def _begin(self, key: str, span: Span) -> None:
        self._attempts[key] = span
        if len(self._attempts) == 1:
            self._sampler.override_timer(self)

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """End the trace of an attempt that failed. An attempt that continues to its binding ends with the binding."""
        if self._token is not None:
            CURRENT.reset(self._token)
            self._token = None
        span = self._attempts.get(queued.uid)
        if span is None:
            return
        if isinstance(outcome, Placed):
            span.set_attribute("k8s.node.name", outcome.node_name)
        else:
            self._end(queued.uid, outcome)

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """End the trace of a pod that got its node."""
        self._end(queued.uid, None)

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """End the trace of a pod after a failed binding."""
        self._end(queued.uid, outcome)

    def _end(self, uid: str, outcome: Outcome | None) -> None:
        if uid not in self._attempts:
            return
        message = outcome.message if isinstance(outcome, Unschedulable | Failed) else ""
        if outcome is None:
            self._finish(uid, "scheduled")
        elif isinstance(outcome, Failed) and not outcome.is_rejection:
            self._finish(uid, "error", message)
        else:
            self._finish(uid, "unschedulable", message)

    def _finish(self, key: str, result: str, message: str = "") -> None:
        span = self._attempts.pop(key)
        if result == "error":
            span.set_status(StatusCode.ERROR, message)
        elif message:
            span.set_attribute("scheduler.message", message)
        span.set_attribute("scheduler.result", result)
        span.end()
        if not self._attempts:
            self._sampler.override_timer(None)

    def _find_parent(self, spec: Phase, arguments: tuple[Any, ...]) -> Span | None:
        """Find the span of a phase's attempt: bindings run in parallel with the cycles of other pods."""
        if not self._attempts:
            return None
        if spec.of_binding and arguments and isinstance(arguments[0], PendingBinding):
            return self._attempts.get(arguments[0].queued.uid)
        return CURRENT.get()

    def call(self, point: Point, plugin: str, method: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        """Call a plugin, in a span if its attempt is traced."""
        sampler = self._sampler
        call = partial(sampler.call, point, plugin, method, arguments) if sampler.is_sampling else method
        parent, traced_arguments = CURRENT.get(), () if sampler.is_sampling else arguments
        if parent is None:
            return call(*traced_arguments)
        with current_span(self._tracer, parent, plugin, {"scheduler.extension_point": point.name}) as span:
            result = call(*traced_arguments)
            span.set_attribute("scheduler.status", read_status(result))
            return result

    async def wait(
        self, point: Point, plugin: str, method: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]
    ) -> T:
        """Call a plugin that waits, in a span if its attempt is traced."""
        sampler = self._sampler
        call = partial(sampler.wait, point, plugin, method, arguments) if sampler.is_sampling else method
        parent, traced_arguments = CURRENT.get(), () if sampler.is_sampling else arguments
        if parent is None:
            return await call(*traced_arguments)
        with current_span(self._tracer, parent, plugin, {"scheduler.extension_point": point.name}) as span:
            result = await call(*traced_arguments)
            span.set_attribute("scheduler.status", read_status(result))
            return result


class TracedTransport:
    """Requests of attempts that are traced have a span each. Watches have none."""

    def __init__(self, transport: Transport, tracer: Tracer) -> None:
        self._transport, self._tracer = transport, tracer

    @property
    def host_header(self) -> str:
        """The ``Host`` header of requests."""
        return self._transport.host_header

    def send(self, request: bytes, seconds: float) -> Awaitable[Response]:
        """Send a request."""
        parent = CURRENT.get()
        return self._transport.send(request, seconds) if parent is None else self._trace(parent, request, seconds)

    async def _trace(self, parent: Span, request: bytes, seconds: float) -> Response:
        method, path, _ = request.partition(b"\r\n")[0].decode("latin-1").split(" ", 2)
        about = {"http.request.method": method, "url.path": path.partition("?")[0]}
        with current_span(self._tracer, parent, f"{method} {about['url.path']}", about, SpanKind.CLIENT) as span:
            response = await self._transport.send(request, seconds)
            span.set_attribute("http.response.status_code", response.status)
            if response.status >= 400:
                span.set_status(StatusCode.ERROR)
            return response

    def stream(self, request: bytes, max_silence: float) -> AbstractAsyncContextManager[ResponseStream]:
        """Open a watch."""
        return self._transport.stream(request, max_silence)

    def close(self) -> None:
        """Close all connections."""
        self._transport.close()


@contextmanager
def current_span(
    tracer: Tracer,
    parent: Span,
    name: str,
    about: Mapping[str, str] | None = None,
    kind: SpanKind = SpanKind.INTERNAL,
) -> Iterator[Span]:
    """Make a span current while a block runs. An exception of the block is its error, and propagates."""
    span = tracer.start_span(name, set_span_in_context(parent), kind=kind, attributes=about)
    token = CURRENT.set(span)
    try:
        yield span
    except BaseException as error:
        span.set_status(StatusCode.ERROR, str(error) or type(error).__name__)
        raise
    finally:
        CURRENT.reset(token)
        span.end()


def _set_code(span: Span, phase: Phase, result: object) -> None:
    code = phase.read_code(result) if phase.read_code is not None and result is not None else Code.SUCCESS
    span.set_attribute("scheduler.status", code.label)


def traces_url(endpoint: str) -> str:
    """Complete the address of a collector. Raise InputError if it is invalid.

    >>> traces_url("http://localhost:4318")
    'http://localhost:4318/v1/traces'
    """
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.netloc:
        hint = "write the address of an OTLP/HTTP collector, such as http://localhost:4318"
        raise InputError("--tracing-endpoint", f"{endpoint!r} is not a URL of http or https", hint=hint)
    return endpoint if parts.path.strip("/") else f"{parts.scheme}://{parts.netloc}{PATH}"


def sampled_share(per_million: int) -> float:
    """Turn the sampling rate into a share. Raise InputError if it is invalid."""
    if not 0 <= per_million <= MILLION:
        problem = f"{per_million} is not a number from 0 to {MILLION}"
        raise InputError("--tracing-sampling-rate-per-million", problem)
    return per_million / MILLION


def make_provider(endpoint: str) -> TracerProvider:
    """Build the provider of spans; OTEL_EXPORTER_OTLP_* variables set headers, certificates and other options."""
    exporter = OTLPSpanExporter(endpoint=traces_url(endpoint))
    resource = Resource.create({"service.name": "moorage-scheduler", "service.version": version_line()})
    # Sampling is decided before a span exists, so attempts without a trace cost nothing.
    provider = TracerProvider(resource=resource, sampler=ALWAYS_ON, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider
