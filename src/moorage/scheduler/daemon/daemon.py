"""The daemon: its start, its work while it leads, and its shutdown.

SIGTERM and SIGINT start a graceful shutdown: no new scheduling cycles start, running bindings finish, and the
supervisor releases the lease. A second signal ends the process immediately. SIGHUP reloads configuration and plugins.
SIGUSR2 makes the debugger compare cache and queue with the API.
"""

import asyncio
import signal
import socket
import uuid
from collections.abc import Iterable
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Final

import structlog
from msgspec.structs import replace

from moorage.common.background import keep_running, start_task
from moorage.common.clock import SteadyClock
from moorage.common.errors import ApiError, Forbidden, ServerError, TooManyRequests, Unreachable
from moorage.common.forked_process import EXIT_FAILURE
from moorage.common.memory import freeze_gc
from moorage.common.version import version_line
from moorage.kube.api.pod import Pod
from moorage.kube.client.leader import LeaseSettings
from moorage.kube.client.rest import ApiClient
from moorage.kube.http.pool import WriteGate
from moorage.scheduler.config import completed_view, to_yaml, without_secrets
from moorage.scheduler.daemon.config_reload import Reloads
from moorage.scheduler.daemon.debugger import Debugger
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import (
    Instruments,
    PodResources,
    read_client,
    read_informers,
    read_process,
    read_scheduler,
)
from moorage.scheduler.daemon.metrics.table import GATED, select_metrics
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.services import (
    DaemonParts,
    DaemonService,
    ServiceFactory,
    assemble_daemon,
    connect,
    own_services,
)
from moorage.scheduler.daemon.serving.pages import Pages, PageSources, set_verbosity
from moorage.scheduler.daemon.supervisor.link import Setup
from moorage.scheduler.daemon.supervisor.process import Ends
from moorage.scheduler.daemon.supervisor.supervisor_client import SupervisorClient
from moorage.scheduler.framework.logs import VERBOSITY

CYCLE_SECONDS: Final = 5.0
"""Time that a cycle waiting for a plugin has to end at shutdown."""
DRAIN_SECONDS: Final = 15.0
EVENT_SECONDS: Final = 3.0
FIRST_PAUSE: Final = 0.5
MAX_PAUSE: Final = 15.0
CATCH_UP_SECONDS: Final = 10.0
SETTLE_SECONDS: Final = 0.2
"""Time in which a reopened watch delivers missed events."""
FOLD_SECONDS: Final = 5.0
CONFIG_LEVEL: Final = 2
"""Log level from which the configuration is logged at start. Writing it takes a while."""

log = structlog.get_logger(__name__)


def run_daemon(options: Options, ends: Ends, services: Iterable[ServiceFactory] = ()) -> int:
    """Run under a supervisor until stopped, with optional services. Return the exit code."""
    import uvloop

    log.info("Starting Kubernetes Scheduler", version=version_line())
    for name, reason in options.flags.moot():
        log.info("flag has no effect", flag=f"--{name}", reason=reason)
    for name, reason in options.gates.moot.items():
        log.info("feature gate has no effect", gate=name, reason=reason)
    if options.gates.unsupported:
        log.warning("alpha features of an emulated version are unsupported", gates=[*options.gates.unsupported])
    if VERBOSITY.of(__name__) >= CONFIG_LEVEL:
        config_yaml = to_yaml(without_secrets(completed_view(options.config)))
        log.info("Using component config", v=CONFIG_LEVEL, config=config_yaml)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(Daemon(options, ends, services).run())
        except ApiError as error:
            log.error("command failed", err=str(error))  # noqa: TRY400 - the message names the fix
            return EXIT_FAILURE
    return 0


class Daemon:
    """One replica of the scheduler."""

    def __init__(self, options: Options, ends: Ends, services: Iterable[ServiceFactory] = ()) -> None:
        self.options = options
        gated = frozenset(metric for metric, gate in GATED.items() if not options.features.enabled(gate))
        metrics = replace(options.metrics, disabled=options.metrics.disabled | gated)
        self._registry = CellRegistry(metrics, select_metrics(options.features))
        self._setup = make_setup(options)
        self._supervisor = SupervisorClient(ends, self._setup, self._registry)
        self._stopping = self._supervisor.stopping
        self._informers_task: asyncio.Task[None] | None = None
        self._leader_task: asyncio.Task[None] | None = None
        self._is_scheduling = False
        self._factories = (*own_services(options), *services)
        self._services: list[DaemonService] = []
        self._reloads: Reloads

    async def run(self) -> None:
        """Start, work until stopped, and shut down in order."""
        registry, supervisor, lease = self._registry, self._supervisor, self._setup.lease
        connection = connect(self.options)  # an invalid kubeconfig is reported before anything is served
        await supervisor.open()
        instruments = Instruments(registry, SteadyClock())
        gate = (
            None if lease is None else WriteGate(supervisor.state.is_held, lease.lease_duration - lease.renew_deadline)
        )
        self._services = services = [make(self.options, instruments) for make in self._factories]
        parts = assemble_daemon(self.options, connection, instruments, gate, services)
        self._reloads = reloads = Reloads(self.options, parts, registry, supervisor)
        reloads.in_force.append(partial(self._watch_plugins, parts, instruments))
        reloads.in_force.append(self._reconfigure_services)
        self._watch_plugins(parts, instruments)
        supervisor.record = parts.connection.recorder.record_core
        supervisor.is_synced = lambda: parts.connection.informers.are_synced
        read_process(registry, self.options.features)
        read_scheduler(registry, parts.scheduler)
        read_client(registry, parts.connection.recorder, "" if lease is None else lease.name, supervisor.state.is_held)
        read_informers(registry, parts.connection.informers, parts.deliveries)
        debugger = Debugger(parts.scheduler, parts.connection.client, instruments.queue.story)
        asyncio.get_running_loop().add_signal_handler(signal.SIGUSR2, debugger.start)
        resources = PodResources(parts.scheduler.objects[Pod])
        self._add_pages(resources)
        async with AsyncExitStack() as ending:
            ending.callback(parts.close)
            for service in services:
                ending.push_async_callback(service.close)
            for service in services:
                service.start(parts, supervisor.router)
            # Usually done already, but a signal may arrive before or while plugins start.
            ending.push_async_callback(lambda: parts.scheduler.lifecycle.close())  # noqa: PLW0108 - the one in force then
            if await wait_for_server(parts.connection.client, self._stopping):
                await self._work(parts, resources)

    def _reconfigure_services(self) -> None:
        for service in self._services:
            service.reconfigure(self._reloads.options)

    def _watch_plugins(self, parts: DaemonParts, instruments: Instruments) -> None:
        """Time the active plugins, and watch them for blocking."""
        profiles = [runner.profile for runner in parts.scheduler.runners.values()]
        instruments.sampler.watch(profiles)
        instruments.attempts.profiles_changed()
        self._supervisor.watch(profiles, parts.scheduler.services.freeze)

    def _add_pages(self, resources: PodResources) -> None:
        options, router, reloads = self.options, self._supervisor.router, self._reloads
        sources = PageSources(
            metrics=self._registry,
            pod_resources=resources,
            configuration=lambda: without_secrets(completed_view(reloads.options.config)),
            flags=options.flags,
            features=options.features,
        )
        Pages(sources).add_to(router)
        if options.config.enable_profiling:
            from moorage.scheduler.daemon.serving.profiling import add_profiling

            add_profiling(router)
            router.add("PUT", "/debug/flags/v", set_verbosity)

    async def _work(self, parts: DaemonParts, resources: PodResources) -> None:
        """Lead, or wait to lead, until stopped."""
        if self._setup.lease is None or not self.options.config.delay_cache_until_active:
            self._start_informers(parts)
        self._leader_task = leading = asyncio.create_task(self._lead(parts, resources), name="leading")
        helpers = [
            keep_running(parts.connection.recorder.run, "event series"),
            keep_running(partial(_fold, self._registry), "folding metrics"),
            start_task(self._stop_on_signal(parts, leading), "waiting for a signal"),
        ]
        if self.options.flags["reload"]:
            follower = self._reloads.follower()
            asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, follower.request_reload)
            helpers.append(keep_running(follower.run, "following the configuration"))
        try:
            await leading
        except asyncio.CancelledError:
            if self._informers_task is not None and self._informers_task.done():
                self._informers_task.result()
            if not self._stopping.is_set():
                raise
        finally:
            tasks = [leading, *helpers, *([self._informers_task] if self._informers_task else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop_on_signal(self, parts: DaemonParts, leading: "asyncio.Task[None]") -> None:
        await self._stopping.wait()
        if self._is_scheduling:
            parts.loop.stop()
        else:
            leading.cancel()

    def _start_informers(self, parts: DaemonParts) -> None:
        if self._informers_task is None:
            self._informers_task = asyncio.create_task(parts.connection.informers.run(), name="informers")
            # Informers end only by an error. Without them, decisions would use outdated state.
            self._informers_task.add_done_callback(lambda _: self._leader_task.cancel() if self._leader_task else None)

    async def _lead(self, parts: DaemonParts, resources: PodResources) -> None:
        follows = self._setup.lease is not None and not await self._supervisor.leading()
        self._start_informers(parts)
        resources.is_leading = True
        await parts.connection.informers.synced()
        if follows:
            # Receive the last writes of the previous leader, even if the watches broke when it stopped.
            try:
                async with asyncio.timeout(CATCH_UP_SECONDS):
                    await parts.connection.informers.following()
            except TimeoutError:
                log.warning("leading while some watches are not open", problems=parts.connection.informers.problems)
            await asyncio.sleep(SETTLE_SECONDS)
        self._supervisor.show_synced()
        async with parts.changing:
            await parts.scheduler.lifecycle.start()
            freeze_gc()
            parts.deliveries.start_through_loop()
        self._is_scheduling = True
        log.info("scheduling", nodes=len(parts.scheduler.cache), pods=len(parts.scheduler.queue))
        if not self._stopping.is_set():
            await self._cycle(parts)
        # Wait for running bindings and status patches, close the plugins, then wait for events; all with timeouts.
        log.info("draining", tasks=len(parts.background))
        try:
            async with asyncio.timeout(DRAIN_SECONDS):
                await parts.background.drain()
        except TimeoutError:
            log.warning("stopping before all bindings have finished", tasks=len(parts.background))
        await parts.scheduler.lifecycle.close()
        try:
            async with asyncio.timeout(EVENT_SECONDS):
                await parts.connection.recorder.flush()
        except TimeoutError:
            log.warning("stopping before all events are written")

    async def _cycle(self, parts: DaemonParts) -> None:
        """Schedule until stopped; a plugin that never returns does not delay the shutdown."""
        cycling = asyncio.create_task(parts.loop.run(), name="scheduling")
        self._supervisor.cycling(cycling)
        stopping = asyncio.create_task(self._stopping.wait())
        background = [keep_running(service.run, type(service).__name__) for service in self._services]
        try:
            await asyncio.wait((cycling, stopping), return_when=asyncio.FIRST_COMPLETED)
            if not cycling.done():
                await asyncio.wait((cycling,), timeout=CYCLE_SECONDS)
            if not cycling.done():
                log.warning("stopping while a scheduling cycle waits for a plugin")
            else:
                cycling.result()
        finally:
            for task in (cycling, stopping, *background):
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)


def make_setup(options: Options) -> Setup:
    """Return the setup of the supervisor."""
    config, election, features = options.config, options.config.leader_election, options.features
    lease = LeaseSettings(
        identity=f"{socket.gethostname()}_{uuid.uuid4()}",
        name=election.resource_name,
        namespace=election.resource_namespace,
        lease_duration=election.lease_duration.seconds,
        renew_deadline=election.renew_deadline.seconds,
        retry_period=election.retry_period.seconds,
        version=f"{features.release}.0" if features.enabled("CoordinatedLeaderElection") else "",
    )
    return Setup(
        serving=options.serving,
        authentication=options.authentication,
        authorization=options.authorization,
        stuck_seconds=options.flags["stuck-timeout"].seconds,
        kubeconfig=config.client_connection.kubeconfig,
        master=options.flags["master"],
        lease=lease if election.leader_elect else None,
        component=config.profiles[0].scheduler_name or "",
    )


async def wait_for_server(client: ApiClient, stopping: asyncio.Event) -> bool:
    """Wait for the API server to respond. Return False if stopped first.

    Raise permanent errors, such as untrusted certificates and invalid credentials.
    """
    pause = FIRST_PAUSE
    while not stopping.is_set():
        try:
            await client.request("GET", "/version")
        except Forbidden:
            return True
        except (Unreachable, ServerError, TooManyRequests) as error:
            log.warning("waiting for the API server", error=str(error))
            with suppress(TimeoutError):
                async with asyncio.timeout(max(pause, error.retry_after or 0.0)):
                    await stopping.wait()
            pause = min(pause * 2, MAX_PAUSE)
        else:
            return True
    return False


async def _fold(registry: CellRegistry) -> None:
    while True:
        await asyncio.sleep(FOLD_SECONDS)
        registry.fold()
