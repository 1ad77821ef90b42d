"""The parts of the daemon: a scheduler on a real API server, measured, whose writes pass the gate of its lease."""

from collections.abc import Sequence
from functools import partial

from moorage.common.clock import SteadyClock
from moorage.common.version import USER_AGENT
from moorage.kube.client.kubeconfig import Connection, load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.pool import HttpPool, Transport, WriteGate
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import Instruments, RequestMeter
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.services import DaemonService
from moorage.scheduler.wiring.api_connection import ApiConnection
from moorage.scheduler.wiring.assembly import AssembledScheduler, Tuning, assemble
from moorage.scheduler.wiring.http_extender import HttpExtender

DaemonParts = AssembledScheduler[ApiConnection]


def connect(options: Options) -> Connection:
    """Find the API server that the configuration and --master name."""
    return load_connection(options.config.client_connection.kubeconfig, options.flags["master"])


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
