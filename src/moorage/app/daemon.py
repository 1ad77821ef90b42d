"""The daemon: starts everything, works while it leads, and ends in order.

SIGTERM and SIGINT drain: no new cycles, bindings in flight finish, the lease is released; a second one ends at once.
SIGUSR2 has the debugger compare cache and queue with the API.
"""

import asyncio
import os
import signal
from contextlib import AsyncExitStack, suppress
from typing import Final

import structlog

from moorage.api.pod import Pod
from moorage.app.assembly import Parts, assemble, connect
from moorage.app.debugger import Debugger
from moorage.app.garbage import keep_everything
from moorage.app.metrics.cells import CellRegistry
from moorage.app.metrics.instruments import Instruments
from moorage.app.metrics.readings import PodResources, read_client, read_informers, read_process, read_scheduler
from moorage.app.options import Options
from moorage.app.serving.pages import PageSources
from moorage.app.serving.starting import Server
from moorage.app.version import version_line
from moorage.app.wellness import health_checks
from moorage.client.rest import ApiClient
from moorage.clock import SystemClock
from moorage.config import completed_view, to_yaml, without_secrets
from moorage.errors import ApiError, Forbidden, LeadershipLost, ServerError, TooManyRequests, Unreachable

DRAIN_SECONDS: Final = 25.0
"""A kubelet waits for 30 seconds before it kills."""
EVENT_SECONDS: Final = 3.0
FIRST_PAUSE: Final = 0.5
LONGEST_PAUSE: Final = 15.0
FOLD_SECONDS: Final = 5.0
EXIT_FAILURE: Final = 1

log = structlog.get_logger(__name__)


def run_daemon(options: Options) -> int:
    """Run until told to stop; return the exit code."""
    import uvloop

    log.info("starting", version=version_line())
    for name, reason in options.flags.moot():
        log.info("flag has no effect", flag=f"--{name}", reason=reason)
    for name, reason in options.gates.moot.items():
        log.info("feature gate has no effect", gate=name, reason=reason)
    if options.gates.unsupported:
        log.warning("alpha features of an emulated version are unsupported", gates=[*options.gates.unsupported])
    log.info("using configuration", v=2, config=to_yaml(without_secrets(completed_view(options.config))))
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        try:
            runner.run(Daemon(options).run())
        except (LeadershipLost, ApiError) as error:
            log.error("command failed", err=str(error))  # noqa: TRY400 - the message says what to mend
            return EXIT_FAILURE
    return 0


class Daemon:
    """One replica."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self._registry = CellRegistry(options.metrics)
        self._stopping = asyncio.Event()
        self._informing: asyncio.Task[None] | None = None
        self._leading: asyncio.Task[None] | None = None
        self._is_scheduling = False

    async def run(self) -> None:
        """Start everything, work until told to stop, and end in order."""
        registry = self._registry
        instruments = Instruments(registry, SystemClock())
        parts = assemble(self.options, connect(self.options), instruments)
        instruments.sampler.watch(placement.profile for placement in parts.scheduler.placements.values())
        read_process(registry, self.options.features)
        read_scheduler(registry, parts.scheduler)
        read_client(registry, parts.recorder, parts.elector)
        read_informers(registry, parts.informers, parts.deliveries)
        self._heed_signals(Debugger(parts.scheduler, parts.client, instruments.queue.story))
        _tell_forms(parts)
        async with AsyncExitStack() as ending:
            ending.callback(parts.close)
            resources = PodResources(parts.scheduler.objects[Pod])
            _, is_reachable = await asyncio.gather(
                self._serve(parts, registry, resources, ending), self._is_reachable(parts.client)
            )
            if is_reachable:
                await self._work(parts, resources)

    def _heed_signals(self, debugger: Debugger) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGUSR2, debugger.start)

    def _on_signal(self, number: int) -> None:
        if self._stopping.is_set():
            os._exit(EXIT_FAILURE)
        log.info("stopping", signal=signal.Signals(number).name)
        self._stopping.set()

    async def _serve(
        self, parts: Parts, registry: CellRegistry, resources: PodResources, ending: AsyncExitStack
    ) -> None:
        options = self.options
        if options.serving.port == 0:
            return
        sources = PageSources(
            health=health_checks(parts, self._stopping),
            metrics=registry,
            pod_resources=resources,
            configuration=lambda: completed_view(options.config),
            flags=options.flags,
            features=options.features,
        )
        server = Server(options.serving, sources, with_profiling=options.config.enable_profiling)
        ending.push_async_callback(server.stop)
        await server.start(options.authentication, options.authorization)

    async def _is_reachable(self, client: ApiClient) -> bool:
        """Wait for the API server to answer; False if we are told to stop first.

        What would never mend itself is raised: a certificate that nobody trusts, credentials that nobody takes.
        """
        pause = FIRST_PAUSE
        while not self._stopping.is_set():
            try:
                await client.request("GET", "/version")
            except Forbidden:
                return True
            except (Unreachable, ServerError, TooManyRequests) as error:
                log.warning("waiting for the API server", error=str(error))
                with suppress(TimeoutError):
                    async with asyncio.timeout(max(pause, error.retry_after or 0.0)):
                        await self._stopping.wait()
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                return True
        return False

    async def _work(self, parts: Parts, resources: PodResources) -> None:
        """Lead, or wait to lead, until told to stop."""
        if parts.elector is None or not self.options.config.delay_cache_until_active:
            self._start_informers(parts)
        self._leading = leading = asyncio.create_task(self._lead(parts, resources), name="leading")
        helpers = [
            asyncio.create_task(parts.recorder.run(), name="event series"),
            asyncio.create_task(_fold(self._registry), name="folding metrics"),
            asyncio.create_task(self._stop_on_signal(parts, leading), name="waiting for a signal"),
        ]
        try:
            await leading
        except asyncio.CancelledError:
            if self._informing is not None and self._informing.done():
                self._informing.result()
            if not self._stopping.is_set():
                raise
        finally:
            tasks = [leading, *helpers, *([self._informing] if self._informing else [])]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _stop_on_signal(self, parts: Parts, leading: "asyncio.Task[None]") -> None:
        await self._stopping.wait()
        if self._is_scheduling:
            parts.loop.stop()
        else:
            leading.cancel()

    def _start_informers(self, parts: Parts) -> None:
        if self._informing is None:
            self._informing = asyncio.create_task(parts.informers.run(), name="informers")
            # Informers never end by themselves; without them we would decide on a world that is no more.
            self._informing.add_done_callback(lambda _: self._leading.cancel() if self._leading else None)

    async def _lead(self, parts: Parts, resources: PodResources) -> None:
        async def work() -> None:
            self._start_informers(parts)
            resources.is_leading = True
            await self._schedule(parts)

        if parts.elector is None:
            await work()
        else:
            await parts.elector.run(work)

    async def _schedule(self, parts: Parts) -> None:
        """Schedule until stopped, then let everything under way finish; the lease is ours all the while."""
        await parts.informers.synced()
        keep_everything()
        parts.deliveries.start_through_loop()
        self._is_scheduling = True
        log.info("scheduling", nodes=len(parts.scheduler.cache), pods=len(parts.scheduler.queue))
        if not self._stopping.is_set():
            await parts.loop.run()
        await _drain(parts)


async def _fold(registry: CellRegistry) -> None:
    while True:
        await asyncio.sleep(FOLD_SECONDS)
        registry.fold()


async def _drain(parts: Parts) -> None:
    """Wait for bindings and status patches under way, then for events, but not for ever."""
    log.info("draining", tasks=len(parts.background))
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            await parts.background.drain()
        async with asyncio.timeout(EVENT_SECONDS):
            await parts.recorder.flush()
    except TimeoutError:
        log.warning("stopping with work under way", tasks=len(parts.background))


def _tell_forms(parts: Parts) -> None:
    """Say which plugins go node by node: that is slow, and never silent."""
    for name, placement in parts.scheduler.placements.items():
        if slow := placement.profile.per_node_plugins():
            log.info("plugins that judge node by node", profile=name, plugins=", ".join(slow))
