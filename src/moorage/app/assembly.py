"""The parts of the daemon: a scheduler on a real API server, measured, and its leader election."""

import uuid

from msgspec import Struct

from moorage.app.metrics.cells import CellRegistry
from moorage.app.metrics.instruments import Instruments
from moorage.app.metrics.measuring import MeasuredBackground, RequestMeter
from moorage.app.metrics.timed_changes import TimedChanges
from moorage.app.options import Options
from moorage.app.version import KUBERNETES
from moorage.assembly.deliveries import Deliveries
from moorage.assembly.parts import Observers, Parts, Tuning, assemble
from moorage.assembly.remote import RemoteApi
from moorage.client.informer import Informers
from moorage.client.kubeconfig import Connection, load_connection
from moorage.client.leader import LeaderElector, LeaseSettings
from moorage.client.pool import HttpPool
from moorage.client.recorder import EventRecorder
from moorage.client.rest import ApiClient
from moorage.clock import Clock, SystemClock
from moorage.engine.background import TaskBackground
from moorage.engine.loop import SchedulingLoop
from moorage.engine.scheduler import Scheduler

USER_AGENT = f"kube-scheduler/{KUBERNETES} moorage"


class DaemonParts(Struct):
    """Everything a daemon runs, put together but not started."""

    client: ApiClient
    recorder: EventRecorder
    background: TaskBackground
    scheduler: Scheduler
    loop: SchedulingLoop
    deliveries: Deliveries
    informers: Informers
    elector: LeaderElector | None
    parts: Parts[RemoteApi]

    def close(self) -> None:
        """Close all connections."""
        self.parts.close()


def connect(options: Options) -> Connection:
    """Find the API server that the configuration and --master name."""
    return load_connection(options.config.client_connection.kubeconfig, options.flags["master"])


def assemble_daemon(options: Options, connection: Connection, instruments: Instruments) -> DaemonParts:
    """Build all parts; must be called on the loop that is to run them."""
    clock, registry = SystemClock(), instruments.registry
    api = RemoteApi(
        _client(connection, f"{USER_AGENT}/scheduler", registry),
        _client(connection, USER_AGENT, registry),
        clock,
        options.config.client_connection,
        instruments.informers,
    )
    parts = assemble(
        options.policy,
        api,
        clock,
        observers=Observers(
            instruments.attempts,
            instruments.queue,
            registry,
            lambda apply: TimedChanges(apply, instruments.events),
        ),
        background=MeasuredBackground(registry),
        tuning=Tuning(
            cross_check=options.flags["cross-check-percent"] / 100,
            max_unschedulable=options.flags["pod-max-in-unschedulable-pods-duration"].seconds,
        ),
    )
    return DaemonParts(
        client=api.client,
        recorder=api.recorder,
        background=parts.background,
        scheduler=parts.scheduler,
        loop=parts.loop,
        deliveries=parts.deliveries,
        informers=api.informers,
        elector=_elector(options, api, clock),
        parts=parts,
    )


def _client(connection: Connection, user_agent: str, registry: CellRegistry) -> ApiClient:
    pool = HttpPool(
        connection.server,
        tls=connection.tls,
        server_name=connection.server_name,
        proxy=connection.proxy,
        source=connection.source,
    )
    meter = RequestMeter(pool.host_header, registry)
    return ApiClient(connection, user_agent=user_agent, transport=pool, on_exchange=meter.note)


def _elector(options: Options, api: RemoteApi, clock: Clock) -> LeaderElector | None:
    election = options.config.leader_election
    if not election.leader_elect:
        return None
    settings = LeaseSettings(
        identity=f"{api.hostname}_{uuid.uuid4()}",
        name=election.resource_name,
        namespace=election.resource_namespace,
        lease_duration=election.lease_duration.seconds,
        renew_deadline=election.renew_deadline.seconds,
        retry_period=election.retry_period.seconds,
    )
    component = options.config.profiles[0].scheduler_name
    return LeaderElector(api.client, settings, clock, api.recorder.record_core, component)
