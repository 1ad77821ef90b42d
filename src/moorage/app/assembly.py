"""Putting the parts of a scheduler together: client, cluster, scheduler, loop, informers, leader election."""

import socket
import uuid

from msgspec import Struct

from moorage.api.meta import KubeObject
from moorage.api.node import Node
from moorage.api.pod import Pod
from moorage.app.deliveries import Deliveries
from moorage.app.metrics.cells import CellRegistry
from moorage.app.metrics.instruments import Instruments
from moorage.app.metrics.measuring import MeasuredBackground, RequestMeter
from moorage.app.options import Options
from moorage.app.version import KUBERNETES
from moorage.client.cluster import ApiCluster
from moorage.client.dispatcher import Dispatcher, limit_of
from moorage.client.extender import HttpExtender, kept_whole
from moorage.client.informer import Informers
from moorage.client.kubeconfig import Connection, load_connection
from moorage.client.leader import LeaderElector, LeaseSettings
from moorage.client.recorder import EventRecorder
from moorage.client.rest import ApiClient
from moorage.clock import Clock, SystemClock
from moorage.engine.background import TaskBackground
from moorage.engine.loop import SchedulingLoop
from moorage.engine.scheduler import Scheduler
from moorage.http.pool import HttpPool
from moorage.state.objects import Objects

USER_AGENT = f"kube-scheduler/{KUBERNETES} moorage"


class Parts(Struct):
    """Everything a daemon runs, put together but not started."""

    client: ApiClient
    event_client: ApiClient
    recorder: EventRecorder
    background: TaskBackground
    scheduler: Scheduler
    loop: SchedulingLoop
    deliveries: Deliveries
    informers: Informers
    elector: LeaderElector | None

    extenders: tuple[HttpExtender, ...] = ()

    def close(self) -> None:
        """Close all connections."""
        self.client.close()
        self.event_client.close()
        for extender in self.extenders:
            extender.close()


def connect(options: Options) -> Connection:
    """Find the API server that the configuration and --master name."""
    return load_connection(options.config.client_connection.kubeconfig, options.flags["master"])


def assemble(options: Options, connection: Connection, instruments: Instruments) -> Parts:
    """Build all parts; must be called on the loop that is to run them."""
    clock = SystemClock()
    hostname = socket.gethostname()
    client = _client(connection, f"{USER_AGENT}/scheduler", instruments.registry)
    # Events have connections of their own: they must not delay a binding.
    event_client = _client(connection, USER_AGENT, instruments.registry)
    recorder = EventRecorder(event_client, hostname, clock)
    background = MeasuredBackground(instruments.registry)
    limit = limit_of(options.config.client_connection.qps, options.config.client_connection.burst)
    known = KnownObjects()
    cluster = ApiCluster(client, Dispatcher(limit=limit), recorder, clock, known)
    extenders = tuple(HttpExtender(extender) for extender in options.config.extenders)
    scheduler = Scheduler(
        options.config,
        options.registry,
        cluster=cluster,
        background=background,
        clock=clock,
        features=options.features,
        cross_check=options.flags["cross-check-percent"] / 100,
        observer=instruments.attempts,
        queue_observer=instruments.queue,
        extenders=extenders,
        max_unschedulable=options.flags["pod-max-in-unschedulable-pods-duration"].seconds,
        meter=instruments.registry,
    )
    known.objects = scheduler.objects
    loop = SchedulingLoop(scheduler)
    deliveries = Deliveries(scheduler.handlers, loop, instruments.events, options.features)
    informers = Informers(
        client,
        kinds_of(scheduler),
        deliveries.on_changes,
        observer=instruments.informers,
        keeps=kept_whole(options.config.extenders),
    )
    elector = _elector(options, client, recorder, hostname, clock)
    return Parts(client, event_client, recorder, background, scheduler, loop, deliveries, informers, elector, extenders)


def kinds_of(scheduler: Scheduler) -> tuple[type[KubeObject], ...]:
    """Return what has to be listed and watched: pods, nodes, and what the plugins asked for when they were built."""
    return tuple(dict.fromkeys((Node, Pod, *scheduler.objects.kinds())))


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


class KnownObjects:
    """What the informers last told of an object; the cluster is built before the scheduler that keeps it."""

    def __init__(self) -> None:
        self.objects = Objects()

    def __call__(self, thing: KubeObject) -> KubeObject | None:
        """Return the version last heard of, if the kind is watched."""
        kind = type(thing)
        return self.objects[kind].find(thing.key) if kind in self.objects.kinds() else None


def _elector(
    options: Options, client: ApiClient, recorder: EventRecorder, hostname: str, clock: Clock
) -> LeaderElector | None:
    election = options.config.leader_election
    if not election.leader_elect:
        return None
    settings = LeaseSettings(
        identity=f"{hostname}_{uuid.uuid4()}",
        name=election.resource_name,
        namespace=election.resource_namespace,
        lease_duration=election.lease_duration.seconds,
        renew_deadline=election.renew_deadline.seconds,
        retry_period=election.retry_period.seconds,
    )
    component = options.config.profiles[0].scheduler_name
    return LeaderElector(client, settings, clock, recorder.record_core, component)
