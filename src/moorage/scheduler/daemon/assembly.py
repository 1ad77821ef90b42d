"""The parts of the daemon: a scheduler on a real API server, measured, whose writes pass the gate of its lease."""

from functools import partial
from typing import Final, Protocol

from moorage.common.clock import SteadyClock
from moorage.kube.client.kubeconfig import Connection, load_connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.pool import HttpPool, Transport, WriteGate
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.metrics.measuring import RequestMeter
from moorage.scheduler.daemon.metrics.timed_changes import TimedChanges
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.version import USER_AGENT
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.wiring.http_extender import HttpExtender
from moorage.scheduler.wiring.loop import Apply
from moorage.scheduler.wiring.parts import Observers, Parts, Tuning, assemble
from moorage.scheduler.wiring.remote import RemoteApi

APPLY_FAILURES: Final = "moorage_apply_failures_total"


DaemonParts = Parts[RemoteApi]


class LooksOn(Protocol):
    """Who looks on while the daemon works: at attempts, and at what carries the scheduler's requests."""

    @property
    def observer(self) -> AttemptObserver:
        """Who is notified of attempts."""
        ...

    def around(self, transport: Transport) -> Transport:
        """Put something around what carries requests."""
        ...

    def around_apply(self, apply: Apply) -> Apply:
        """Put something around what applies changes."""
        ...


def connect(options: Options) -> Connection:
    """Find the API server that the configuration and --master name."""
    return load_connection(options.config.client_connection.kubeconfig, options.flags["master"])


def assemble_daemon(
    options: Options,
    connection: Connection,
    instruments: Instruments,
    gate: WriteGate | None = None,
    looking: LooksOn | None = None,
) -> DaemonParts:
    """Build all parts; must be called on the loop that is to run them. ``gate`` is passed by all that is written.

    ``looking`` looks on in the place of the instruments, and passes on to them.
    """
    clock, registry = SteadyClock(), instruments.registry
    api = RemoteApi(
        _client(connection, f"{USER_AGENT}/scheduler", registry, gate, looking),
        _client(connection, USER_AGENT, registry, gate),
        clock,
        options.config.client_connection,
        instruments.informers,
    )
    return assemble(
        options.policy,
        api,
        clock,
        observers=Observers(
            instruments.attempts if looking is None else looking.observer,
            instruments.queue,
            registry,
            partial(_around_apply, instruments, looking),
            partial(registry.count, APPLY_FAILURES),
        ),
        tuning=Tuning(
            cross_check=options.flags["cross-check-percent"] / 100,
            max_unschedulable=options.flags["pod-max-in-unschedulable-pods-duration"].seconds,
            make_extender=partial(HttpExtender, gate=gate),
        ),
    )


def _around_apply(instruments: Instruments, looking: LooksOn | None, apply: Apply) -> Apply:
    timed = TimedChanges(apply, instruments.events)
    return timed if looking is None else looking.around_apply(timed)


def _client(
    connection: Connection,
    user_agent: str,
    registry: CellRegistry,
    gate: WriteGate | None,
    looking: LooksOn | None = None,
) -> ApiClient:
    pool = HttpPool(
        connection.server,
        tls=connection.tls,
        server_name=connection.server_name,
        proxy=connection.proxy,
        source=connection.source,
        gate=gate,
    )
    transport = pool if looking is None else looking.around(pool)
    meter = RequestMeter(pool.host_header, registry)
    return ApiClient(connection, user_agent=user_agent, transport=transport, on_exchange=meter.note)
