"""`moorage whatif serve`: what-if questions over HTTP, about a copy of a cluster. The real one cannot be written to."""

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Any, Final, TypeAlias

import msgspec
import structlog
from msgspec import Struct

from moorage.common.errors import InputError, MoorageError
from moorage.common.signals import stop_on_signals
from moorage.insight.explain.pods import explain_pod
from moorage.insight.forecast.forecasting import ForecastOptions, forecast_queue, forecast_start
from moorage.insight.listening import ListenOptions
from moorage.insight.plan.goals import plan_from_data
from moorage.insight.whatif.edits import CreateObject, Edit, ObjectId, decode_edit
from moorage.insight.whatif.questions import count_replicas
from moorage.insight.whatif.session import Session
from moorage.insight.whatif.sources import ClusterSource, load_cluster
from moorage.kube.http.messages import UNUSED_BODY, Headers, HttpRequest, HttpService, Reply
from moorage.kube.http.server import HttpServer
from moorage.scheduler.wiring.policy import Policy

HEALTH: Final = "/healthz"
METRICS: Final = "/metrics"
MAX_BODY: Final = 4 << 20
MAX_WAITING: Final = 16
"""Limit of pending questions. Further ones get status 429."""
FORECAST_DRAWS: Final = 30
FORECAST_SHARE: Final = 0.5
"""The share of the time limit in which the queue is forecast. The rest is for reading the cluster."""
MAX_CONNECTIONS: Final = 256
MAX_REPLICAS: Final = 10_000
MAX_PODS: Final = 1000
STOP_SECONDS: Final = 5.0

log = structlog.get_logger(__name__)


class ServiceOptions(Struct, frozen=True):
    """Options of the service. ``seconds`` limits one question, ``refresh=0`` never reloads the cluster."""

    source: ClusterSource
    policy: Policy
    listening: ListenOptions = ListenOptions()
    seconds: float = 10.0
    refresh: float = 0.0
    forecast: ForecastOptions = ForecastOptions(draws=FORECAST_DRAWS)
    """The history and the class of pods for forecasts."""


def run_service(options: ServiceOptions) -> int:
    """Serve until stopped. Return the exit code."""
    return asyncio.run(WhatIfService(options).run())


class WhatIfService:
    """The service: one session in a worker thread, which handles one question at a time."""

    def __init__(self, options: ServiceOptions) -> None:
        self._options = options
        self._guard = options.listening.guard(_problem, (HEALTH,))
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="what-if")
        self._session: Session | None = None
        self._read_at = 0.0
        self._waiting = 0

    async def run(self) -> int:
        """Serve until SIGINT or SIGTERM."""
        stopping = stop_on_signals()
        url, server = await self.start()
        print(f"Serving on {url}", flush=True)  # noqa: T201 - the command prints its URL
        await stopping.wait()
        await self.stop(server)
        return 0

    async def start(self) -> tuple[str, HttpServer]:
        """Read the cluster and listen. Return the URL and the server."""
        await asyncio.get_running_loop().run_in_executor(self._worker, self._current)
        server = HttpServer(HttpService(self.answer, _problem, self._check_head), MAX_CONNECTIONS)
        return await self._options.listening.listen(server), server

    async def stop(self, server: HttpServer) -> None:
        """Stop listening, and close the session."""
        await server.stop(STOP_SECONDS)
        await asyncio.get_running_loop().run_in_executor(self._worker, self._close)
        self._worker.shutdown()

    def _close(self) -> None:
        if self._session is not None:
            self._session.close()

    async def answer(self, request: HttpRequest) -> Reply:
        """Handle one request."""
        if (refusal := self._refuse(request)) is not None:
            return refusal
        if request.path == HEALTH:
            return Reply(200, b"ok", "text/plain")
        if request.path == METRICS:
            return await self._run(self._metrics, request)
        try:
            arguments = msgspec.json.decode(request.body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            return _problem(400, f"invalid JSON: {error}")
        if not isinstance(arguments, dict):
            return _problem(400, "the body is not a JSON object")
        return await self._run(self._ask, QUESTIONS[request.path], arguments)

    async def _run(self, work: Callable[..., Reply], *arguments: Any) -> Reply:
        """Return a reply that is computed in the worker thread."""
        self._waiting += 1
        try:
            return await asyncio.get_running_loop().run_in_executor(self._worker, self._reply, work, *arguments)
        finally:
            self._waiting -= 1

    def _check_head(self, request: HttpRequest) -> int | Reply:
        return self._refuse(request) or (UNUSED_BODY if request.path in (HEALTH, METRICS) else MAX_BODY)

    def _refuse(self, request: HttpRequest) -> Reply | None:
        """Return the reply to a request that is not a question, or exceeds the limit of pending ones."""
        if (refusal := self._guard.check(request)) is not None or request.path == HEALTH:
            return refusal
        if request.path not in (*QUESTIONS, METRICS):
            return _problem(404, f"not found: {request.path[:200]}; use POST {', '.join(QUESTIONS)}, or GET {METRICS}")
        method = "GET" if request.path == METRICS else "POST"
        if request.method != method:
            return _problem(405, f"use {method}")
        if self._waiting >= MAX_WAITING:
            return _problem(429, "too many pending questions", (("Retry-After", "1"),))
        return None

    def _reply(self, work: Callable[..., Reply], *arguments: Any) -> Reply:
        try:
            return work(*arguments)
        except MoorageError as error:
            return _problem(422, str(error))
        except Exception:  # one question must not end the service
            log.exception("what-if request failed")
            return _problem(500, "internal error; see the log")

    def _ask(self, question: "Question", arguments: dict[str, Any]) -> Reply:
        session = self._current()
        with session.branch():
            session.apply(*_edits(arguments))
            return Reply(200, msgspec.json.encode(question(session, arguments, self._options)))

    def _metrics(self, request: HttpRequest) -> Reply:
        """Return the forecast of the queue as metrics."""
        # Imported at the first scrape: prometheus_client delays the start.
        from prometheus_client import CollectorRegistry
        from prometheus_client.exposition import choose_encoder

        from moorage.insight.forecast.forecast_metrics import ForecastCollector

        session, options = self._current(), self._options
        registry = CollectorRegistry(auto_describe=False)
        seconds = FORECAST_SHARE * options.seconds
        registry.register(ForecastCollector(forecast_queue(session, options.forecast, seconds=seconds)))
        encode, content_type = choose_encoder(request.header(b"accept"))
        return Reply(200, encode(registry), content_type)

    def _current(self) -> Session:
        """Return the session; reload the cluster if the refresh interval is over."""
        options, source = self._options, self._options.source
        is_live = not (source.files or source.snapshot)
        is_due = is_live and options.refresh and monotonic() - self._read_at > options.refresh
        if self._session is None or is_due:
            fresh = load_cluster(source).session(options.policy)
            self._close()
            self._session, self._read_at = fresh, monotonic()
        return self._session


def _edits(arguments: Mapping[str, Any]) -> list[Edit]:
    edits = arguments.get("edits") or []
    if not isinstance(edits, list):
        raise InputError("edits", "not a list")
    return [decode_edit(edit) for edit in edits]


def _explain(session: Session, arguments: Mapping[str, Any], options: ServiceOptions) -> Any:
    pod = arguments.get("pod")
    if isinstance(pod, dict):
        session.apply(CreateObject(pod))
        pod = ObjectId.of(pod).key
    if not isinstance(pod, str):
        raise InputError("pod", "expected the name of a pod, or a Pod object")
    return explain_pod(session, pod, node=str(arguments.get("node") or ""), seconds=options.seconds).as_data()


def _capacity(session: Session, arguments: Mapping[str, Any], options: ServiceOptions) -> Any:
    pod, most = arguments.get("pod"), arguments.get("most", MAX_REPLICAS)
    if not isinstance(pod, dict) or not isinstance(most, int) or not 0 < most <= MAX_REPLICAS:
        raise InputError("pod", f"expected a Pod object, and optionally `most`, a number up to {MAX_REPLICAS}")
    return count_replicas(session, pod, most=most, seconds=options.seconds)


def _place(session: Session, arguments: Mapping[str, Any], options: ServiceOptions) -> Any:
    pods = arguments.get("pods")
    if not isinstance(pods, list) or len(pods) > MAX_PODS or not all(isinstance(pod, dict) for pod in pods):
        raise InputError("pods", f"expected a list of up to {MAX_PODS} pods")
    decisions, end = [], monotonic() + options.seconds
    for number, pod in enumerate(pods):
        if monotonic() > end:
            raise InputError(
                "pods", f"{number} of {len(pods)} pods were placed in {options.seconds:g} s", hint="send fewer pods"
            )
        session.apply(CreateObject(pod))
        decisions.append(session.place(ObjectId.of(pod).key).decision)
    return {"decisions": decisions}


def _plan(session: Session, arguments: Mapping[str, Any], _options: ServiceOptions) -> Any:
    goal = arguments.get("goal")
    options = {key: value for key, value in arguments.items() if key not in ("goal", "edits")}
    return plan_from_data(session, goal, options).as_data()


def _when(session: Session, arguments: Mapping[str, Any], options: ServiceOptions) -> Any:
    subject, namespace = arguments.get("subject", ""), arguments.get("namespace", "")
    if not isinstance(subject, str) or not isinstance(namespace, str):
        raise InputError("subject", "subject and namespace must be strings")
    if not subject:
        return forecast_queue(session, options.forecast, namespace=namespace, seconds=options.seconds).as_data()
    return forecast_start(session, subject, namespace or "default", options.forecast).as_data()


Question: TypeAlias = Callable[[Session, Mapping[str, Any], ServiceOptions], Any]
"""Handles a question. The arguments are the session, the request and the options of the service."""
QUESTIONS: Final[Mapping[str, Question]] = {
    "/v1/explain": _explain,
    "/v1/capacity": _capacity,
    "/v1/place": _place,
    "/v1/plan": _plan,
    "/v1/when": _when,
}


def _problem(status: int, text: str, headers: Headers = ()) -> Reply:
    return Reply(status, msgspec.json.encode({"error": text}), headers=headers)
