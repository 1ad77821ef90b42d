"""Attempts as traces: a span for the attempt, in it one for each extension point, and in those plugins and API calls.

All of it is put around the scheduler from outside, and only attempts that are sampled have spans: they are current in
the context of the cycle, and in that of their binding while a phase of it runs.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from contextvars import ContextVar, Token
from random import Random
from typing import Any, Final, TypeVar

from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import Span, SpanKind, StatusCode, Tracer, set_span_in_context

from moorage.kube.http.messages import Response, ResponseStream
from moorage.kube.http.pool import Transport
from moorage.scheduler.daemon.metrics.sampling import PluginSampler, status_of
from moorage.scheduler.engine.binding.binding_phases import PendingBinding
from moorage.scheduler.engine.extension_points import Point
from moorage.scheduler.engine.group_results import GroupAttempt
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.engine.phases import PERMIT_WAIT_PHASE, F, Phase
from moorage.scheduler.framework.status import Code
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo

FLUSH_MILLIS: Final = 2000
T = TypeVar("T")

MAX_TRACED: Final = 512
"""The limit of attempts traced at a time, bindings included."""

CURRENT: ContextVar[Span | None] = ContextVar("moorage_span", default=None)


class TracedAttempts(AttemptObserver):
    """Makes the spans of attempts, ``share`` of which are sampled; the :class:`CallTimer` of plugins in that time."""

    def __init__(self, tracer: Tracer, share: float, sampler: PluginSampler, chance: Random | None = None) -> None:
        self._tracer, self._share, self._sampler = tracer, share, sampler
        self._chance = chance or Random()
        self._attempts: dict[str, Span] = {}
        """The spans of pods by uid, and of groups by the key under which they are queued."""
        self._token: Token[Span | None] | None = None
        self._group: tuple[str, Span, Token[Span | None]] | None = None
        """The group that is being tried, if it is traced."""

    def wrap_phase(self, profile: str, run: F, phase: Phase) -> F:
        """Add a span to every call of an extension point."""
        if phase is PERMIT_WAIT_PHASE:
            return run
        traced: Any = self._waiting(run, phase) if phase.is_async else self._wrapped(run, phase)
        return traced  # type: ignore[no-any-return]  # it has the signature of ``run``

    def trying(self, queued: QueuedPodInfo) -> None:
        """Begin a trace, if this attempt is one of those."""
        if self._is_sampled():
            self._token = CURRENT.set(self._begin_pod(queued, None))

    def trying_group(self, queued: QueuedPodGroupInfo) -> None:
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

    def settled(self, queued: QueuedPodInfo, result: object) -> None:
        """Start the span of a group member: its reservation and binding."""
        if self._group is not None and len(self._attempts) < MAX_TRACED:
            self._token = CURRENT.set(self._begin_pod(queued, self._group[1]))

    def group_ended(self, attempt: GroupAttempt) -> None:
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
            self._sampler.put_over(self)

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """End the trace of an attempt that failed; an attempt that continues to its binding ends with the binding."""
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

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """End the trace of a pod that got its node."""
        self._end(queued.uid, None)

    def binding_failed(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """End the trace of a pod that comes back from its binding."""
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
            self._sampler.put_over(None)

    def _wrapped(self, phase: Callable[..., Any], spec: Phase) -> Callable[..., Any]:
        def run(*arguments: Any, **keywords: Any) -> Any:
            parent = self._parent(spec, arguments)
            if parent is None:
                return phase(*arguments, **keywords)
            with _Within(self._tracer, parent, spec.point.name, {}) as span:
                result = phase(*arguments, **keywords)
                _say_code(span, spec, result)
                return result

        return run

    def _waiting(self, phase: Callable[..., Any], spec: Phase) -> Callable[..., Any]:
        async def run(*arguments: Any, **keywords: Any) -> Any:
            parent = self._parent(spec, arguments)
            if parent is None:
                return await phase(*arguments, **keywords)
            with _Within(self._tracer, parent, spec.point.name, {}) as span:
                result = await phase(*arguments, **keywords)
                _say_code(span, spec, result)
                return result

        return run

    def _parent(self, spec: Phase, arguments: tuple[Any, ...]) -> Span | None:
        """Find the span of a phase's attempt: bindings run in parallel with the cycles of other pods."""
        if not self._attempts:
            return None
        if spec.of_binding and arguments and isinstance(arguments[0], PendingBinding):
            return self._attempts.get(arguments[0].queued.uid)
        return CURRENT.get()

    def call(self, point: Point, plugin: str, method: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        """Make a call of a plugin, in a span if its attempt is traced."""
        parent = CURRENT.get()
        if parent is None:
            return self._passed_on(point, plugin, method, arguments)
        with _Within(self._tracer, parent, plugin, {"scheduler.extension_point": point.name}) as span:
            answer = self._passed_on(point, plugin, method, arguments)
            span.set_attribute("scheduler.status", status_of(answer))
            return answer

    def _passed_on(self, point: Point, plugin: str, method: Callable[..., T], arguments: tuple[Any, ...]) -> T:
        if self._sampler.is_sampling:
            return self._sampler.call(point, plugin, method, arguments)
        return method(*arguments)

    async def wait(
        self, point: Point, plugin: str, method: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]
    ) -> T:
        """Make a call of a plugin that waits, in a span if its attempt is traced."""
        parent = CURRENT.get()
        if parent is None:
            return await self._waited_for(point, plugin, method, arguments)
        with _Within(self._tracer, parent, plugin, {"scheduler.extension_point": point.name}) as span:
            answer = await self._waited_for(point, plugin, method, arguments)
            span.set_attribute("scheduler.status", status_of(answer))
            return answer

    async def _waited_for(
        self, point: Point, plugin: str, method: Callable[..., Awaitable[T]], arguments: tuple[Any, ...]
    ) -> T:
        if self._sampler.is_sampling:
            return await self._sampler.wait(point, plugin, method, arguments)
        return await method(*arguments)


class TracedTransport:
    """Requests of attempts that are traced have a span each; watches have none."""

    def __init__(self, transport: Transport, tracer: Tracer) -> None:
        self._transport, self._tracer = transport, tracer

    @property
    def host_header(self) -> str:
        """The ``Host`` header of requests."""
        return self._transport.host_header

    def send(self, request: bytes, seconds: float) -> Awaitable[Response]:
        """Send a request."""
        parent = CURRENT.get()
        return self._transport.send(request, seconds) if parent is None else self._traced(parent, request, seconds)

    async def _traced(self, parent: Span, request: bytes, seconds: float) -> Response:
        method, path, _ = request.partition(b"\r\n")[0].decode("latin-1").split(" ", 2)
        about = {"http.request.method": method, "url.path": path.partition("?")[0]}
        with _Within(self._tracer, parent, f"{method} {about['url.path']}", about, SpanKind.CLIENT) as span:
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


class _Within:
    """A span that is current while a block runs; an exception of the block is its error, and propagates."""

    def __init__(
        self, tracer: Tracer, parent: Span, name: str, about: dict[str, str], kind: SpanKind = SpanKind.INTERNAL
    ) -> None:
        self._span = tracer.start_span(name, set_span_in_context(parent), kind=kind, attributes=about)

    def __enter__(self) -> Span:
        self._token = CURRENT.set(self._span)
        return self._span

    def __exit__(self, _kind: object, error: BaseException | None, _traceback: object) -> None:
        CURRENT.reset(self._token)
        if error is not None:
            self._span.set_status(StatusCode.ERROR, str(error) or type(error).__name__)
        self._span.end()


class Traces:
    """All parts of tracing: the attempts, the requests, and the exporter of the spans."""

    def __init__(self, provider: TracerProvider, share: float, sampler: PluginSampler) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer("moorage")
        self.attempts = TracedAttempts(self._tracer, share, sampler)

    def around(self, transport: Transport) -> Transport:
        """Trace what a transport carries."""
        return TracedTransport(transport, self._tracer)

    def close(self) -> None:
        """Send the last spans, but not for long."""
        self._provider.force_flush(FLUSH_MILLIS)
        self._provider.shutdown()


def _say_code(span: Span, spec: Phase, result: object) -> None:
    code = spec.read_code(result) if spec.read_code is not None and result is not None else Code.SUCCESS
    span.set_attribute("scheduler.status", code.label)
