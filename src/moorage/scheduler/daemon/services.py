"""Optional services of the daemon. Each is selected by a flag and imported only if the flag is set."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Final, TypeAlias

from moorage.common.clock import SteadyClock
from moorage.common.errors import InputError
from moorage.common.observers import Observer
from moorage.common.version import USER_AGENT
from moorage.kube.client.kubeconfig import Connection, load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.pool import HttpPool, Transport, WriteGate
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import Instruments, RequestMeter
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.wiring.assembly import ApiConnection, AssembledScheduler, Tuning, assemble
from moorage.scheduler.wiring.http_extender import HttpExtender

FLUSH_MILLIS: Final = 2000


class DaemonService:
    """A service that observes the daemon or runs in its background. Subclasses override the hooks they need."""

    @property
    def observer(self) -> Observer | None:
        """The observer of the scheduler, if the service has one."""
        return None

    def wrap_transport(self, transport: Transport) -> Transport:
        """Wrap the transport of the scheduler's API requests."""
        return transport

    def start(self, parts: "DaemonParts", router: Router) -> None:
        """Attach to an assembled daemon and register pages. Raise InputError if a flag's value is unusable."""

    def reconfigure(self, options: Options) -> None:
        """Use a reloaded configuration, which has just become active."""

    async def run(self) -> None:
        """Do background work while the daemon schedules; cancelled at shutdown."""

    async def close(self) -> None:
        """Release all resources; called once, even if the service was never started."""


ServiceFactory: TypeAlias = Callable[[Options, Instruments], DaemonService]


class DecisionLogService(DaemonService):
    """`--decision-log`: one line per decision."""

    def __init__(self, options: Options, instruments: Instruments) -> None:
        from moorage.scheduler.daemon.decision_log.recording import OpenDecisionLog, check_limits

        flags, registry = options.flags, instruments.registry
        limits = check_limits(flags["decision-log-max-size"], flags["decision-log-max-files"])
        self._log: OpenDecisionLog = OpenDecisionLog(
            flags["decision-log"], limits, SteadyClock(), lambda metric, *labels: registry[metric].number(*labels)
        )

    @property
    def observer(self) -> Observer:
        """The observer that writes the lines."""
        return self._log.observer

    def start(self, parts: "DaemonParts", router: Router) -> None:
        """Open the file."""
        self._log.start()

    async def close(self) -> None:
        """Write the last lines."""
        self._log.close()


class TracingService(DaemonService):
    """`--tracing-endpoint`: spans of sampled attempts."""

    def __init__(self, options: Options, instruments: Instruments) -> None:
        try:
            from moorage.scheduler.daemon import tracing
        except ImportError as error:
            hint = "pip install 'moorage[tracing]'"
            raise InputError("--tracing-endpoint", f"OpenTelemetry is not installed: {error}", hint=hint) from error
        share = tracing.sampled_share(options.flags["tracing-sampling-rate-per-million"])
        self._provider = tracing.make_provider(options.flags["tracing-endpoint"])
        tracer = self._provider.get_tracer("moorage")
        self._attempts = tracing.TracedAttempts(tracer, share, instruments.sampler)
        self._traced = partial(tracing.TracedTransport, tracer=tracer)

    @property
    def observer(self) -> Observer:
        """The observer that starts and ends spans."""
        return self._attempts

    def wrap_transport(self, transport: Transport) -> Transport:
        """Trace API requests."""
        return self._traced(transport)

    async def close(self) -> None:
        """Send the last spans, in a thread: the exporter blocks."""
        await asyncio.to_thread(self._provider.force_flush, FLUSH_MILLIS)
        await asyncio.to_thread(self._provider.shutdown)


def own_services(options: Options) -> Iterator[ServiceFactory]:
    """Yield the factories of the daemon's own services that the flags select."""
    if options.flags["decision-log"]:
        yield DecisionLogService
    if options.flags["tracing-endpoint"]:
        yield TracingService


DaemonParts = AssembledScheduler[ApiConnection]


def connect(options: Options) -> Connection:
    """Find the API server that the configuration and --master name."""
    alternatives = "set clientConnection.kubeconfig in the file of --config, or run in a pod"
    return load_connection(
        options.config.client_connection.kubeconfig, options.flags["master"], alternatives=alternatives
    )


def assemble_daemon(
    options: Options,
    connection: Connection,
    instruments: Instruments,
    gate: WriteGate | None = None,
    services: Sequence[DaemonService] = (),
) -> DaemonParts:
    """Build all parts on the running loop. Every write passes ``gate``; ``services`` observe what the parts do."""
    clock, registry = SteadyClock(), instruments.registry
    api = ApiConnection(
        _client(connection, f"{USER_AGENT}/scheduler", registry, gate, services),
        _client(connection, USER_AGENT, registry, gate),
        clock,
        options.config.client_connection,
    )
    return assemble(
        options.policy,
        api,
        clock,
        observers=(*instruments.observers, *(s.observer for s in services if s.observer is not None)),
        tuning=Tuning(
            cross_check=options.flags["cross-check-percent"] / 100,
            max_unschedulable=options.flags["pod-max-in-unschedulable-pods-duration"].seconds,
            make_extender=partial(HttpExtender, gate=gate),
        ),
    )


def _client(
    connection: Connection,
    user_agent: str,
    registry: CellRegistry,
    gate: WriteGate | None,
    services: Sequence[DaemonService] = (),
) -> ApiClient:
    pool = HttpPool(
        connection.server,
        tls=connection.tls,
        server_name=connection.server_name,
        proxy=connection.proxy,
        source=connection.source,
        gate=gate,
    )
    transport: Transport = pool
    for service in services:
        transport = service.wrap_transport(transport)
    meter = RequestMeter(pool.host_header, registry)
    return ApiClient(connection, user_agent=user_agent, transport=transport, on_exchange=meter.note)
