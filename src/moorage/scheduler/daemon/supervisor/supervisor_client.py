"""The scheduler's side: it sends heartbeats, leads while the supervisor holds the lease, and serves pages."""

import asyncio
import faulthandler
import os
import signal
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

import structlog

from moorage.common.clock import boot_time
from moorage.common.forked_process import EXIT_FAILURE
from moorage.kube.api.codec import decode
from moorage.kube.api.records import EventNote, Lease
from moorage.kube.http.messages import HttpRequest
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.daemon.supervisor.link import (
    Announcement,
    Answered,
    Asked,
    Campaign,
    Lead,
    Link,
    Located,
    Measured,
    Setup,
    Stop,
)
from moorage.scheduler.daemon.supervisor.process import BEAT, IS_STOPPING, IS_SYNCED, STACK_SIGNAL, WAITING_SINCE, Ends
from moorage.scheduler.daemon.supervisor.stacks import Span, coroutine_stack, find_blocking_plugin, find_spans
from moorage.scheduler.daemon.supervisor.watchdog import BEAT_SECONDS, METRIC, WARN_SECONDS
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.services import Freeze
from moorage.scheduler.framework.metering import Meter

log = structlog.get_logger(__name__)

RecordEvent = Callable[[EventNote], None]


class SupervisorClient:
    """The scheduler's view of its supervisor. ``stopping`` is set by any request to stop."""

    def __init__(self, ends: Ends, setup: Setup, meter: Meter) -> None:
        self.state = ends.state
        self.stopping = asyncio.Event()
        self.router = Router()
        self.record: RecordEvent = lambda _note: None
        self.lease: Lease | None = None
        """The lease at the last announcement of its holder."""
        self.is_synced: Callable[[], bool] = lambda: False
        self._ends = ends
        self._setup = setup
        self._meter = meter
        self._link: Link
        self._may_lead = asyncio.Event()
        self._is_first = False
        self._signals = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._spans: list[Span] = []
        self._cycles = Cycles()

    async def open(self) -> None:
        """Start heartbeats and messages on the running loop."""
        # A handler in C: the supervisor requests the stack when no Python code can run.
        faulthandler.register(STACK_SIGNAL, file=self._ends.stacks, all_threads=False)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._on_signal, number)
        self._link = await Link.over(self._ends.socket)
        self._link.send(self._setup)
        self._start(self._listen())
        self._beat()

    def watch(self, profiles: Iterable[Profile], freeze: Freeze) -> None:
        """Send the locations of the plugins' code, and watch the cycles that wait for a plugin."""
        plugins = {name: plugin for profile in profiles for name, plugin in profile.plugins.items()}
        self._spans = [span for name, plugin in plugins.items() for span in find_spans(name, plugin)]
        self._link.send(Located(self._spans))
        self._cycles.freeze = freeze

    def cycling(self, task: "asyncio.Task[None]") -> None:
        """Remember the task that runs the cycles, so that reports can name the location of a waiting cycle."""
        self._cycles.task = task

    def show_synced(self) -> None:
        """Report immediately whether informers are synced: the first plugin call may block the heartbeat."""
        self.state[IS_SYNCED] = float(self.is_synced())

    async def leading(self) -> bool:
        """Wait until this replica leads. Return whether it is the first that ever did."""
        self._link.send(Campaign())
        await self._may_lead.wait()
        return self._is_first

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _on_signal(self, number: int) -> None:
        # A terminal sends one to both processes, and the supervisor also forwards it: only our own signals are counted.
        self._signals += 1
        if self._signals > 1:
            os._exit(EXIT_FAILURE)
        self._stop(signal.Signals(number).name)

    def _stop(self, reason: str) -> None:
        if not self.stopping.is_set():
            log.info("draining on request", reason=reason)
        self.state[IS_STOPPING] = 1.0
        self.stopping.set()

    async def _listen(self) -> None:
        async for message in self._link.messages():
            match message:
                case Lead(is_first):
                    self._is_first = is_first
                    self._may_lead.set()
                case Announcement(note, lease):
                    self.lease = decode(Lease, lease)
                    self.record(EventNote(self.lease, "LeaderElection", "LeaderElection", note, self._setup.component))
                case Stop(reason):
                    self._stop(reason)
                case Asked():
                    self._start(self._answer(message))
                case Measured(metric, labels, number, values):
                    for _ in range(number):
                        self._meter.count(metric, *labels)
                    for value in values:
                        self._meter.observe(metric, value, *labels)
                case _:
                    raise AssertionError(f"{type(message).__name__} is not for the scheduler")
        # Without a supervisor there is no lease, no health and no signals. On Linux the kernel has killed us already.
        os._exit(EXIT_FAILURE)

    async def _answer(self, message: Asked) -> None:
        request = HttpRequest(message.method, message.target, message.headers, message.body, asyncio.BaseTransport())
        try:
            reply = await self.router.answer(request)
        except Exception:
            log.exception("HTTP request failed", path=request.path)
            self._link.send(Answered(message.number, 500, b"internal server error\n", "text/plain; charset=utf-8"))
        else:
            self._link.send(Answered(message.number, reply.status, reply.body, reply.content_type, reply.headers))

    def _beat(self) -> None:
        """Record that the loop runs, a few times per second."""
        now = boot_time()
        self.state[BEAT] = now
        self.show_synced()
        self.state[WAITING_SINCE] = self._cycles.waiting_since(now)
        if self._cycles.is_news(now):
            stack = coroutine_stack(self._cycles.task.get_coro() if self._cycles.task else None)
            plugin, frame = find_blocking_plugin(stack, self._spans)
            if not plugin:
                self._cycles.excuse()  # an extender, which has its own time limit
            else:
                self._meter.count(METRIC, plugin)
                log.warning(
                    "a plugin does not return; scheduling is blocked",
                    plugin=plugin,
                    where=str(frame),
                    seconds=round(now - self._cycles.since, 1),
                    stack="\n".join(map(str, stack)),
                )
        if self._may_lead.is_set() and not self.state.is_held():
            # The supervisor kills us when this happens. If it is stopped, no other process ends the work in progress.
            log.error("command failed", err="Leaderelection lost")
            os._exit(EXIT_FAILURE)
        asyncio.get_running_loop().call_later(BEAT_SECONDS, self._beat)


class Cycles:
    """The start of the current wait of a cycle. Sampled from outside: cycles do nothing for it."""

    def __init__(self) -> None:
        self.freeze: Freeze | None = None
        self.task: asyncio.Task[None] | None = None
        self.since = 0.0
        self._seen: asyncio.Event | None = None
        self._is_reported = False
        self._is_excused = False

    def waiting_since(self, now: float) -> float:
        """Return since when a cycle waits for a plugin; 0 if none does."""
        thawed = self.freeze.thawed if self.freeze is not None else None
        if thawed is not self._seen:
            self._seen, self._is_reported, self._is_excused = thawed, False, False
            self.since = now if thawed is not None else 0.0
        return 0.0 if self._is_excused else self.since

    def is_news(self, now: float) -> bool:
        """Return whether a cycle has waited long enough for a report, once."""
        if not self.since or self._is_reported or now - self.since < WARN_SECONDS:
            return False
        self._is_reported = True
        return True

    def excuse(self) -> None:
        """Ignore the current wait: it is not for a plugin."""
        self._is_excused = True
