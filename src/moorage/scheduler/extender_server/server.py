"""The running extender: a cache that follows the API server, and a web server."""

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial
from time import perf_counter
from typing import Any, Final

import structlog
from msgspec import Struct

from moorage.common.background import keep_running
from moorage.common.clock import SteadyClock
from moorage.common.errors import ApiError, InputError, MoorageError, PluginError
from moorage.common.forked_process import EXIT_FAILURE
from moorage.common.user_files import read_file
from moorage.common.version import USER_AGENT
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.guard import RequestGuard
from moorage.kube.http.messages import UNUSED_BODY, AnyReply, HttpRequest, HttpService, Reply
from moorage.kube.http.proxies import is_loopback
from moorage.kube.http.server import HttpServer
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import (
    InformerInstruments,
    read_informers,
    read_process,
    read_scheduler,
)
from moorage.scheduler.daemon.options import ServingOptions
from moorage.scheduler.daemon.serving.health import HealthChecks, ping
from moorage.scheduler.daemon.serving.pages import HealthPages, exposition_page
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.daemon.serving.tls import ServingTls
from moorage.scheduler.extender_server.answering import (
    Answering,
    bind_request,
    bind_result,
    filter_error,
    filter_result,
    node_question,
    preemption_result,
    priorities,
    split_by_code,
    victim_question,
)
from moorage.scheduler.extender_server.served import Served, write_stanza
from moorage.scheduler.extender_server.watch_lag import WatchLag
from moorage.scheduler.framework.metering import DEFAULT_BUCKETS, MetricKind, MetricSpec
from moorage.scheduler.wiring.assembly import ApiConnection, AssembledScheduler, assemble

MAX_BODY: Final = 8 << 20
"""The names of 20,000 nodes are less than 2 MiB, and their victims not much more."""
MAX_CONNECTIONS: Final = 128
STOP_SECONDS: Final = 5.0
RELOAD_SECONDS: Final = 60.0
OPEN_PAGES: Final = ("/healthz", "/livez", "/readyz")
"""Paths open to all clients: probes have no certificates."""
EVERYWHERE: Final = ("0.0.0.0", "::")

REQUESTS: Final = MetricSpec(
    "moorage_extender_requests_total", MetricKind.COUNTER, ("verb", "code"), "Requests of kube-scheduler, by HTTP code."
)
SECONDS: Final = MetricSpec(
    "moorage_extender_request_duration_seconds",
    MetricKind.HISTOGRAM,
    ("verb",),
    "Time of a request of kube-scheduler.",
    buckets=(0.0001, 0.00025, 0.0005, *DEFAULT_BUCKETS),
)
FAILURES: Final = MetricSpec(
    "moorage_extender_plugin_failures_total", MetricKind.COUNTER, ("verb",), "Requests in which a plugin failed."
)

log = structlog.get_logger(__name__)


class ExtenderOptions(Struct, frozen=True):
    """The address, certificates and allowed clients of the server, and its address for kube-scheduler."""

    address: str = "127.0.0.1"
    port: int = 8890
    cert_file: str = ""
    key_file: str = ""
    client_ca_file: str = ""
    allow_anyone: bool = False
    url: str = ""

    def check(self) -> None:
        """Do not serve unknown clients by mistake: every client may also have pods bound."""
        if bool(self.cert_file) != bool(self.key_file):
            raise InputError("--tls-cert-file", "the certificate or its key is missing", hint="set both or neither")
        if self.client_ca_file and not self.cert_file:
            problem = "clients without TLS have no certificate"
            raise InputError("--client-ca-file", problem, hint="set --tls-cert-file and --tls-private-key-file")
        if not (self.client_ca_file or self.allow_anyone or is_loopback(self.address)):
            problem = f"{self.address} is reachable from other machines without a client certificate"
            hint = "set --client-ca-file, listen on 127.0.0.1, or add --allow-anyone"
            raise InputError("--address", problem, hint=hint)


def run_extender(served: Served, options: ExtenderOptions, connection: Connection) -> int:
    """Serve until stopped. Return the exit code."""
    import uvloop

    options.check()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(ExtenderServer(served, options, connection).run())
        except (ApiError, PluginError) as error:
            log.error("command failed", err=str(error))  # noqa: TRY400 - the message names the fix
            return EXIT_FAILURE
    return 0


class ExtenderServer:
    """One replica of an extender."""

    def __init__(self, served: Served, options: ExtenderOptions, connection: Connection) -> None:
        self._served = served
        self._options = options
        self._connection = connection
        self._registry = registry = CellRegistry()
        for spec in (REQUESTS, SECONDS, FAILURES):
            registry.register(spec)
        self._answering: Answering | None = None
        self._lag = WatchLag()
        self._stopping = asyncio.Event()
        self._router = Router()
        self._verbs: dict[str, Callable[[Answering, bytes], Reply | Awaitable[Reply]]] = {
            "/filter": self._filter,
            "/prioritize": self._prioritize,
            "/preempt": self._preempt,
            "/bind": self._bind,
        }
        self._authority = self._read_authority()
        # A client certificate keeps web pages away. Without it, all clients on this machine are accepted.
        self._guard = RequestGuard(_make_refusal, is_local=is_loopback(options.address) and not self._authority)

    async def run(self) -> None:
        """Serve until a signal arrives, then shut down in order."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._stopping.set)
        await self.serve()

    def stop(self) -> None:
        """Stop the server."""
        self._stopping.set()

    async def serve(self) -> None:
        """Listen immediately, and handle requests when the cache is synced, until stopped."""
        async with AsyncExitStack() as ending:
            clock, registry, policy = SteadyClock(), self._registry, self._served.policy
            agent = f"{USER_AGENT}/extender"
            api = ApiConnection(
                ApiClient(self._connection, user_agent=agent),
                ApiClient(self._connection, user_agent=agent),
                clock,
                policy.config.client_connection,
            )
            parts = assemble(policy, api, clock, observers=(registry, InformerInstruments(registry), self._lag))
            ending.callback(parts.close)
            ending.push_async_callback(parts.scheduler.lifecycle.close)
            self._add_pages(parts)
            server = HttpServer(HttpService(self.answer, _make_refusal, self._check_head), MAX_CONNECTIONS)
            port = await self._listen(server, ending)
            ending.push_async_callback(server.stop, STOP_SECONDS)
            options = self._options
            address = socket.gethostname() if options.address in EVERYWHERE else options.address
            host = f"[{address}]" if ":" in address else address
            url = options.url or f"{'https' if options.cert_file else 'http'}://{host}:{port}"
            wants_certificate = bool(options.client_ca_file)
            print(write_stanza(self._served, url, wants_certificate=wants_certificate), flush=True)  # noqa: T201 - to paste
            informing = asyncio.create_task(parts.connection.informers.run(), name="informers")
            starting = asyncio.create_task(self._start(parts), name="starting")
            stopping = asyncio.create_task(self._stopping.wait(), name="waiting for a signal")
            tasks: set[asyncio.Task[Any]] = {informing, starting, stopping}
            pending_tasks = tasks
            try:
                # Informers end only with an error, and a plugin may fail to start.
                while not stopping.done():
                    finished, pending_tasks = await asyncio.wait(pending_tasks, return_when=asyncio.FIRST_COMPLETED)
                    for task in finished:
                        task.result()
            finally:
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)

    async def _start(self, parts: AssembledScheduler[ApiConnection]) -> None:
        await parts.connection.informers.synced()
        await parts.scheduler.lifecycle.start()
        self._answering = Answering(parts.scheduler)
        log.info("serving extender requests", nodes=len(parts.scheduler.cache), plugins=[*self._served.names])

    async def _listen(self, server: HttpServer, ending: AsyncExitStack) -> int:
        options, tls = self._options, None
        if options.cert_file:
            serving = ServingOptions(
                options.address, options.port, cert_file=options.cert_file, key_file=options.key_file
            )
            tls = ServingTls(serving, [self._authority] if self._authority else [])
            reloading = keep_running(partial(self._reload, tls), "certificates")
            ending.callback(reloading.cancel)
        try:
            host = None if options.address in EVERYWHERE else options.address
            return await server.listen(host, options.port, tls=None if tls is None else lambda: tls.context)
        except OSError as error:
            location = f"--address {options.address} --port {options.port}"
            raise InputError(location, f"cannot listen: {error.strerror or error}") from error

    def _read_authority(self) -> bytes:
        file = self._options.client_ca_file
        return read_file(file, where="--client-ca-file") if file else b""

    async def _reload(self, tls: ServingTls) -> None:
        """Load new certificates when they appear; while new ones are unusable, keep the current ones."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            try:
                authority = self._read_authority()
                if tls.load([authority] if authority else []):
                    log.info("certificates reloaded")
            except MoorageError as error:
                log.warning("cannot reload certificates", error=str(error))

    def _add_pages(self, parts: AssembledScheduler[ApiConnection]) -> None:
        def informers() -> str | None:
            if self._answering is not None and not self._stopping.is_set():
                return None
            return "; ".join(parts.connection.informers.problems) or "the cache is not filled yet"

        checks = {"ping": ping}
        health = HealthChecks({"healthz": checks, "livez": checks, "readyz": {**checks, "cache": informers}})
        HealthPages(health).add_to(self._router)
        read_process(self._registry, self._served.policy.features)
        read_scheduler(self._registry, parts.scheduler)
        read_informers(self._registry, parts.connection.informers, parts.deliveries)
        self._router.add("GET", "/metrics", exposition_page(self._registry.collect, of_process=True))

    def _check_head(self, request: HttpRequest) -> int | Reply:
        return self._refuse(request) or (MAX_BODY if request.path in self._verbs else UNUSED_BODY)

    def _refuse(self, request: HttpRequest) -> Reply | None:
        if self._authority and request.path not in OPEN_PAGES and not _shows_certificate(request):
            return _make_refusal(401, "a client certificate of the authority in --client-ca-file is needed")
        return self._guard.check(request)

    def answer(self, request: HttpRequest) -> AnyReply:
        """Handle a request: scheduling verbs synchronously, other requests in a task."""
        if (refusal := self._refuse(request)) is not None:
            return refusal
        question = self._verbs.get(request.path)
        if question is None:
            return self._router.answer(request)
        if request.method != "POST":
            return _make_refusal(405, f"{request.path} must be called with POST")._replace(headers=(("Allow", "POST"),))
        if self._answering is None:
            return self._count(request.path, 0.0, _make_refusal(503, "the cache is not synced yet: retry in a moment"))
        began = perf_counter()
        try:
            reply = question(self._answering, request.body)
        except InputError as error:
            reply = _make_refusal(400, str(error))
        if isinstance(reply, Reply):
            return self._count(request.path, perf_counter() - began, reply)
        return self._await_reply(request.path, reply, began)

    async def _await_reply(self, path: str, response: Awaitable[Reply], began: float) -> Reply:
        return self._count(path, perf_counter() - began, await response)

    def _count(self, path: str, seconds: float, reply: Reply) -> Reply:
        self._registry.count(REQUESTS.name, path[1:], str(reply.status))
        self._registry.observe(SECONDS.name, seconds, path[1:])
        return reply

    def _filter(self, answering: Answering, body: bytes) -> Reply | Awaitable[Reply]:
        question = node_question(body)

        def evaluate() -> tuple[Reply, bool]:
            """Return the response, and whether it rejects all nodes."""
            try:
                feasible, rejected = answering.filter(question)
            except PluginError as error:
                self._report_failure("filter", question.pod.key, error)
                return Reply(200, filter_error(str(error))), False
            return Reply(200, filter_result(feasible, *split_by_code(rejected))), bool(rejected and not feasible)

        reply, is_rejected = evaluate()
        if not is_rejected:
            return reply
        return self._lag.settle(question.pod.uid, reply, evaluate, lambda: answering.is_behind(question))

    def _prioritize(self, answering: Answering, body: bytes) -> Reply:
        question = node_question(body)
        try:
            return Reply(200, priorities(answering.prioritize(question)))
        except PluginError as error:
            # The response has no field for an error: kube-scheduler leaves the extender out and logs the code.
            self._report_failure("prioritize", question.pod.key, error)
            return _make_refusal(500, str(error))

    def _preempt(self, answering: Answering, body: bytes) -> Reply:
        question = victim_question(body)
        try:
            return Reply(200, preemption_result(answering.preempt(question)))
        except PluginError as error:
            self._report_failure("preempt", question.pod.key, error)
            return _make_refusal(500, str(error))

    async def _bind(self, answering: Answering, body: bytes) -> Reply:
        if not self._served.verbs.binds:
            return _make_refusal(404, "no plugin binds pods: omit bindVerb")
        try:
            return Reply(200, bind_result(await answering.bind(bind_request(body))))
        except InputError as error:
            return _make_refusal(400, str(error))

    def _report_failure(self, verb: str, pod: str, error: PluginError) -> None:
        self._registry.count(FAILURES.name, verb)
        log.warning("a plugin failed", verb=verb, pod=pod, error=str(error))


def _shows_certificate(request: HttpRequest) -> bool:
    """Return whether a client showed a certificate: TLS has verified it with the configured authority."""
    connection = None if request.transport is None else request.transport.get_extra_info("ssl_object")
    return connection is not None and connection.getpeercert(binary_form=True) is not None


def _make_refusal(status: int, text: str) -> Reply:
    return Reply(status, bind_result(text))
