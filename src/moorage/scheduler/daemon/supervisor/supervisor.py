"""The process that keeps lease, health and signals while the scheduler is busy, and ends with it.

Any error here ends the scheduler, and the supervisor ends with the scheduler: there is one way out. It runs no plugin,
and nothing that could take long.
"""

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec
import structlog

from moorage.common.background import keep_running
from moorage.common.clock import boot_time
from moorage.common.errors import LeadershipLost, MoorageError
from moorage.common.forked_process import EXIT_FAILURE
from moorage.common.version import USER_AGENT
from moorage.kube.api.codec import encode
from moorage.kube.api.records import EventNote
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.leader import LeaderElector, LeaseSettings
from moorage.kube.client.rest import ApiClient, Exchange
from moorage.kube.http.messages import HttpRequest, Reply, ReplyStream
from moorage.scheduler.daemon.supervisor.forwarding import Forwarding, LinkMeter
from moorage.scheduler.daemon.supervisor.link import (
    Announcement,
    Answered,
    Campaign,
    Lead,
    Link,
    Located,
    Message,
    SchedulerFailed,
    Setup,
    Stop,
)
from moorage.scheduler.daemon.supervisor.process import HELD_UNTIL, IS_STOPPING, IS_SYNCED, Child, Ends, SharedState
from moorage.scheduler.daemon.supervisor.watchdog import BEAT_SECONDS, Incidents, Watchdog

if TYPE_CHECKING:
    from moorage.kube.client.candidate import Candidacy
    from moorage.scheduler.daemon.serving.health import HealthCheck
    from moorage.scheduler.daemon.serving.routing import StreamingHandler
    from moorage.scheduler.daemon.serving.server import Server

    Forward: TypeAlias = Callable[[HttpRequest], Awaitable[Reply]]
    ExtendPages: TypeAlias = Callable[[StreamingHandler, Forward], tuple[StreamingHandler, Mapping[str, int]]]

END_SECONDS: Final = 25.0
"""The time a scheduler has to stop. A kubelet waits for 30 seconds before it kills."""
BLOCKED_END_SECONDS: Final = 5.0
"""The time a scheduler has if its loop is blocked: it cannot finish anything."""
FINISH_SECONDS: Final = 3.5
"""The time that remains to release the lease."""

log = structlog.get_logger(__name__)


def supervise(ends: Ends, extend_pages: "ExtendPages | None" = None) -> int:
    """Run the supervisor until the scheduler has ended. Return the exit code of the program.

    ``extend_pages`` adds pages that the supervisor serves itself: it forwards requests, but no streams.
    """

    async def run() -> int:
        link = await Link.over(ends.socket)
        try:
            return await Supervisor(ends, link, extend_pages).run()
        finally:
            link.close()
            # The transport closes its socket in the loop's next turn.
            await asyncio.sleep(0)

    with asyncio.Runner() as runner:
        return runner.run(run())


class Supervisor:
    """The supervisor of a scheduler."""

    def __init__(self, ends: Ends, link: Link, extend_pages: "ExtendPages | None" = None) -> None:
        self._state = ends.state
        self._extend_pages = extend_pages
        self._link = link
        self._meter = LinkMeter(link)
        self._child = Child(ends.other)
        self._watchdog = Watchdog(ends.state)
        self._incidents = Incidents(self._watchdog, self._child, ends.stacks, self._meter)
        self._forwarding = Forwarding(link, self._watchdog, self._incidents, self._meter)
        self._setup: Setup | None = None
        self._server: Server | None = None
        self._elector: LeaderElector | None = None
        self._candidacy: Candidacy | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_stopping = False
        self._is_ready = asyncio.Event()
        self._gone = asyncio.Event()
        self._error: Exception | None = None
        self._code: int | None = None

    async def run(self) -> int:
        """Supervise until the scheduler has ended. Return the exit code of the program."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGUSR2, self._child.send, signal.SIGUSR2)
        if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:  # it does not end us: it is for the scheduler
            loop.add_signal_handler(signal.SIGHUP, self._child.send, signal.SIGHUP)
        watching = keep_running(self._incidents.watch, "watchdog")
        async for message in self._link.messages():
            self._take(message)
        code = await self._child.wait()
        watching.cancel()
        # Release the lease, now that all writes have ended, and stop serving.
        self._gone.set()
        self._forwarding.end()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=FINISH_SECONDS)
        if self._server is not None:
            await self._server.stop()
        if self._error is not None:
            raise self._error
        return exit_code(code) if self._code is None else self._code

    def _take(self, message: Message) -> None:
        match message:
            case Setup():
                self._setup = message
                self._watchdog.limit = message.stuck_seconds
                if message.lease is not None:
                    self._start(self._elect(message, message.lease))
                if message.serving.port:
                    self._start(self._serve(message))
            case Located(spans):
                self._incidents.spans = spans
            case Campaign():
                self._is_ready.set()
            case Answered():
                self._forwarding.answered(message)
            case SchedulerFailed(text):
                self._error = MoorageError(text)
            case _:
                raise AssertionError(f"{type(message).__name__} is not for the supervisor")

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guard(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guard(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except LeadershipLost as error:
            log.error("command failed", err=str(error))  # noqa: TRY400 - the message is complete
            self._end()
        except Exception as error:  # run() raises it when the scheduler has ended
            self._error = error
            self._end()

    def _end(self) -> None:
        """Kill the scheduler immediately: its connections are aborted."""
        self._code = EXIT_FAILURE
        self._child.kill()

    def _on_signal(self, number: int) -> None:
        if self._is_stopping:
            self._end()
            return
        self._is_stopping = True
        log.info("stopping", signal=signal.Signals(number).name)
        self._link.send(Stop(signal.Signals(number).name))
        self._start(self._kill_after_timeout())

    async def _kill_after_timeout(self) -> None:
        deadline = boot_time() + END_SECONDS
        while boot_time() < deadline and self._watchdog.blocked < BLOCKED_END_SECONDS:
            with suppress(TimeoutError):
                async with asyncio.timeout(BEAT_SECONDS):
                    await self._gone.wait()
                    return
        log.warning(
            "shutdown timed out (is a plugin blocking?); the scheduler is killed", plugin=self._incidents.plugin
        )
        self._end()

    async def _serve(self, setup: Setup) -> None:
        # The scheduler imports its modules now: this runs in parallel, and is not in its memory.
        from moorage.scheduler.daemon.serving.health import HealthChecks
        from moorage.scheduler.daemon.serving.pages import HealthPages
        from moorage.scheduler.daemon.serving.routing import Router
        from moorage.scheduler.daemon.serving.server import Server

        router = Router()
        checks = list_checks(self._state, self._watchdog, self._is_overdue, self._is_known)
        HealthPages(HealthChecks(checks)).add_to(router)

        async def page(request: HttpRequest) -> Reply | ReplyStream:
            return await (router.answer if router.has(request.path) else self._forwarding.page)(request)

        serve: StreamingHandler = page
        bodies: Mapping[str, int] = {}
        if self._extend_pages is not None:
            serve, bodies = self._extend_pages(page, self._forwarding.page)
        self._server = Server(setup.serving, serve, self._meter, bodies)
        await self._server.start(setup.authentication, setup.authorization)

    def _is_overdue(self) -> bool:
        return self._elector is not None and self._elector.election.is_overdue()

    def _is_known(self) -> bool:
        """Whether the API server has our candidacy, if it coordinates the election."""
        setup = self._setup
        needs = setup is not None and setup.lease is not None and setup.lease.is_coordinated
        return not needs or (self._candidacy is not None and self._candidacy.is_synced)

    async def _elect(self, setup: Setup, lease: LeaseSettings) -> None:
        """Lead, or wait to lead, until the scheduler has ended.

        While the scheduler starts, the connection is opened and the lease is read, so that one write remains.
        """
        connection = load_connection(setup.kubeconfig, setup.master)
        async with AsyncExitStack() as stack:
            client = await stack.enter_async_context(
                ApiClient(connection, user_agent=f"{USER_AGENT}/leader-election", on_exchange=self._count_exchange)
            )
            self._elector = LeaderElector(
                client,
                lease,
                record=self._announce,
                component=setup.component,
                on_held=lambda until: self._state.__setitem__(HELD_UNTIL, until),
                may_renew=lambda: not self._watchdog.is_stuck,
            )
            ending = asyncio.ensure_future(self._gone.wait())
            getting_ready = asyncio.ensure_future(self._get_ready(self._elector))
            await asyncio.wait((getting_ready, ending), return_when=asyncio.FIRST_COMPLETED)
            if self._gone.is_set():
                getting_ready.cancel()
                return
            await getting_ready
            if lease.is_coordinated:
                from moorage.kube.client.candidate import Candidacy

                self._candidacy = Candidacy(client, lease)
                standing = asyncio.ensure_future(self._candidacy.run())
                stack.callback(standing.cancel)
            electing = asyncio.ensure_future(self._elector.run(self._lead))
            await asyncio.wait((electing, ending), return_when=asyncio.FIRST_COMPLETED)
            ending.cancel()
            if not self._state[HELD_UNTIL]:
                # The scheduler ended before this replica led. A leader ends the election and releases the lease itself.
                electing.cancel()
            with suppress(asyncio.CancelledError):
                await electing

    async def _get_ready(self, elector: LeaderElector) -> None:
        """Check the lease until the scheduler is ready. An unresponsive API server delays nothing."""
        looking = asyncio.ensure_future(elector.look())
        try:
            await self._is_ready.wait()
            if looking.done():
                looking.result()
        finally:
            looking.cancel()

    async def _lead(self) -> None:
        assert self._elector is not None
        self._link.send(Lead(self._elector.election.is_first))
        await self._gone.wait()

    def _announce(self, note: EventNote) -> None:
        self._link.send(Announcement(note.note, msgspec.json.encode(encode(note.regarding))))

    def _count_exchange(self, exchange: Exchange) -> None:
        assert self._elector is not None
        method, status, seconds, _, _ = exchange
        host = self._elector.client.connection.server.partition("://")[2]
        self._meter.count("rest_client_requests_total", str(status or "<error>"), method, host)
        self._meter.observe("rest_client_request_duration_seconds", seconds, method, host)


def exit_code(code: int) -> int:
    """Return the exit code of the program for that of the scheduler. As in a shell, 128 and more are signals."""
    if code >= 0:
        return code
    log.error("the scheduler was killed", signal=signal.Signals(-code).name)
    return 128 - code


def list_checks(
    state: SharedState, watchdog: Watchdog, is_overdue: Callable[[], bool], is_candidate_known: Callable[[], bool]
) -> "dict[str, dict[str, HealthCheck]]":
    """Return the checks and names of kube-scheduler, and the watchdog. No check waits for the scheduler."""
    checks: dict[str, HealthCheck] = {
        "ping": lambda: None,
        "leaderElection": lambda: "failed election to renew leadership on lease" if is_overdue() else None,
        "watchdog": lambda: "the scheduler is stuck" if watchdog.is_stuck else None,
        "shutdown": lambda: "process is shutting down" if state[IS_STOPPING] else None,
        "sched-handler-sync": lambda: None if state[IS_SYNCED] else "handlers are not fully synchronized",
        "lease-candidate-sync": lambda: None if is_candidate_known() else "lease candidate is not synchronized",
    }
    endpoints = {
        "healthz": ("ping", "leaderElection", "watchdog"),
        "livez": ("ping", "watchdog"),
        "readyz": ("ping", "leaderElection", "shutdown", "sched-handler-sync", "lease-candidate-sync"),
    }
    return {endpoint: {name: checks[name] for name in names} for endpoint, names in endpoints.items()}
