"""The scheduler's side of the shadow: a child process that is restarted, and disabled if it keeps failing.

The scheduler never waits for the shadow. It writes into a bounded buffer. A shadow that does not read the buffer, does
not respond, or uses too much memory is killed.
"""

import asyncio
import hashlib
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Final

import msgspec
import structlog

from moorage.common.child_process import ChildEnded, ChildProcess, RestartPolicy, encode_frame
from moorage.common.errors import InputError
from moorage.common.text import format_traceback
from moorage.common.user_files import read_file
from moorage.insight.explain.explain_events import ExplainRequest
from moorage.insight.shadow.feed import ShadowFeed
from moorage.insight.shadow.messages import (
    ERROR,
    Comparison,
    InitialObjectsSent,
    ShadowBroken,
    ShadowMessage,
    ShadowSetup,
    ShadowSynced,
    encode_object,
)
from moorage.kube.api.kinds import find_kind
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.faults import described
from moorage.scheduler.wiring.assembly import find_watched_kinds

WORKER: Final = "moorage.insight.shadow.shadow_worker"
MAX_BUFFER: Final = 32 << 20
"""The limit of bytes buffered for the shadow. Above it, the shadow is too slow to follow the cluster."""
MAX_REQUESTS: Final = 256
RESPONSE_SECONDS: Final = 30.0
START_SECONDS: Final = 120.0
FLUSH_SECONDS: Final = 0.01
CHECK_SECONDS: Final = 1.0
SLICE: Final = 200
"""The number of objects per batch when the shadow receives the cluster."""
MAX_FAILURES: Final = 3
"""Failures within :data:`FORGIVEN_SECONDS` after which it is disabled."""
FORGIVEN_SECONDS: Final = 600.0
MIN_SECONDS: Final = 2.0
"""It is not started more often than this."""
MAX_ERRORS: Final = 50
"""The number of consecutive errors after which requests end."""

BUSY: Final = "busy"
STARTING: Final = "starting"
LOST: Final = "lost"

log = structlog.get_logger(__name__)


class ShadowPlan(msgspec.Struct, frozen=True):
    """The configuration and plugins of the shadow, and its memory limit."""

    file: Path
    plugins: tuple[str, ...] = ()
    max_memory: int = 4 << 30


class ShadowEvents:
    """Base of the observers of the shadow: metrics, and its log. Each overrides the methods it needs."""

    def compared(self, comparison: Comparison) -> None:
        """Take a comparison."""

    def dropped(self, reason: str, count: int) -> None:
        """Count requests that were not sent, or got no response."""

    def is_up(self, *, up: bool) -> None:
        """Receive whether a shadow is active."""


class ShadowOff(Exception):
    """The shadow is broken. The message describes how."""


class ShadowUnusable(ShadowOff):
    """The shadow is broken in a way that a restart does not fix."""


class Shadow:
    """Runs a shadow next to a scheduler until :meth:`run` is cancelled. ``request`` has the active configuration."""

    def __init__(
        self,
        plan: ShadowPlan,
        feed: ShadowFeed,
        scheduler: Scheduler,
        request: Callable[[], ExplainRequest],
        events: ShadowEvents,
    ) -> None:
        self.plan, self._feed, self._scheduler, self._request, self._events = plan, feed, scheduler, request, events
        self._changed = asyncio.Event()
        self.current: ShadowRun | None = None

    def restart(self) -> None:
        """Restart, also if disabled: the active configuration changed."""
        self._changed.set()

    async def run(self) -> None:
        """Keep a shadow running; one that keeps failing is disabled until its file changes."""
        # The pause does not grow: a shadow that keeps breaking is disabled after a few starts.
        restarts = RestartPolicy(MIN_SECONDS, MIN_SECONDS, max_failures=MAX_FAILURES, window=FORGIVEN_SECONDS)
        while True:
            version = self._version()
            self._changed.clear()
            starts_at, is_final = monotonic(), False
            self.current = ShadowRun(self.plan, self._feed, self._scheduler, self._events)
            try:
                await self.current.run_until(partial(self._wait_for_change, version), self._request())
            except ShadowOff as error:
                log.warning("the shadow process ended", file=str(self.plan.file), reason=str(error))
                restarts.failed()
                is_final = restarts.is_exhausted or isinstance(error, ShadowUnusable)
            else:
                restarts.succeeded()
            finally:
                await self.current.close()
            # Saving a file every second does not start a new process every time.
            await asyncio.sleep(max(restarts.remaining, starts_at + MIN_SECONDS - monotonic()))
            if is_final:
                log.error("the shadow is disabled until its file changes", file=str(self.plan.file))
                await self._wait_for_change(version)
                restarts.succeeded()

    async def _wait_for_change(self, version: str) -> None:
        while self._version() == version and not self._changed.is_set():
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._changed.wait()

    def _version(self) -> str:
        """Return a fingerprint of the file's content. A missing file has its own fingerprint."""
        try:
            return hashlib.sha256(read_file(self.plan.file)).hexdigest()
        except InputError as error:
            return str(error)


class ShadowRun:
    """One process of the shadow, from its start to its end.

    :meth:`put`, :meth:`accepts_requests`, :meth:`take` and :meth:`find_problem` change or read the state without I/O.
    The tasks below :meth:`run_until` connect them with the process.
    """

    def __init__(self, plan: ShadowPlan, feed: ShadowFeed, scheduler: Scheduler, events: ShadowEvents) -> None:
        self._plan, self._feed, self._scheduler, self._events = plan, feed, scheduler, events
        self._start = monotonic()
        self.process: ChildProcess | None = None
        self._out: list[bytes] = []
        self.pending_bytes = 0
        """The size of the messages that the shadow has not read."""
        self._is_synced = False
        self._overflow = asyncio.Event()
        self._errors = 0

    def put(self, message: bytes) -> None:
        """Buffer a message for the shadow. A shadow with too many pending messages is ended."""
        if self._overflow.is_set():
            return
        self.pending_bytes += len(message)
        self._out.append(message)
        # Until the shadow has the entire cluster, its size sets the limit; _send_objects waits for the shadow.
        if self.pending_bytes > MAX_BUFFER and self._is_synced:
            self._overflow.set()
            self._out.clear()

    def accepts_requests(self) -> bool:
        """Return whether another request may be sent now. Count it as dropped if not."""
        reason = ""
        if not self._is_synced:
            reason = STARTING
        elif self._overflow.is_set():
            reason = LOST
        elif len(self._feed.pending_requests) >= MAX_REQUESTS:
            reason = BUSY
        if reason:
            self._events.dropped(reason, 1)
        return not reason

    def take(self, message: ShadowMessage) -> None:
        """Handle a message of the shadow. Raise ShadowUnusable if a restart would not help."""
        match message:
            case ShadowBroken(problem):
                raise ShadowUnusable(problem)
            case ShadowSynced():
                self._is_synced = True
                self._events.is_up(up=True)
                log.info("the shadow is ready", file=str(self._plan.file))
            case Comparison():
                self._feed.pending_requests.pop(message.number, None)
                self._events.compared(message)
                self._errors = self._errors + 1 if message.result == ERROR else 0
                if self._errors >= MAX_ERRORS:
                    raise ShadowUnusable(f"{MAX_ERRORS} errors in a row, the last: {message.message}")

    def find_problem(self, now: float, memory: int) -> str:
        """Return why the process must end, or an empty string if it is healthy."""
        if self._overflow.is_set():
            return f"it is too slow: {MAX_BUFFER >> 10} KiB of changes are pending"
        if now - min(self._feed.pending_requests.values(), default=now) > RESPONSE_SECONDS:
            return f"no response for {RESPONSE_SECONDS:.0f} s"
        if not self._is_synced and now - self._start > START_SECONDS:
            return f"not ready within {START_SECONDS:.0f} s"
        if memory > self._plan.max_memory:
            return f"it uses {memory >> 20} MiB of memory; the limit is {self._plan.max_memory >> 20} MiB"
        return ""

    async def run_until(self, changed: Callable[[], Awaitable[None]], request: ExplainRequest) -> None:
        """Run the process until ``changed`` returns. Raise ShadowOff if it breaks."""
        kinds = tuple(find_kind(kind).full_name for kind in find_watched_kinds(self._scheduler.objects))
        self.process = process = await ChildProcess.start(WORKER)
        self.put(encode_frame(ShadowSetup(request, str(self._plan.file), self._plan.plugins, kinds)))
        self._feed.accepts_requests, self._feed.send = self.accepts_requests, self.put
        try:
            async with asyncio.TaskGroup() as group:
                work = self._listen(process), self._send_objects(), self._flush(process), self._supervise(process)
                tasks = [group.create_task(coroutine, name="shadow") for coroutine in work]
                await changed()
                for task in tasks:
                    task.cancel()
        except BaseExceptionGroup as group_of_errors:
            off, other_errors = group_of_errors.split(ShadowOff)
            if off is not None:
                # A reason that a restart does not fix is first.
                errors = [error for error in off.exceptions if isinstance(error, ShadowOff)]
                raise min(errors, key=lambda error: not isinstance(error, ShadowUnusable)) from None
            if other_errors is None or not isinstance(other_errors, ExceptionGroup):
                raise
            # An error of this code or of the event loop ends the shadow, and nothing else.
            log.warning("supervision of the shadow failed", exception=format_traceback(other_errors))
            raise ShadowOff(f"supervision failed: {described(other_errors.exceptions[0])}") from other_errors

    async def _send_objects(self) -> None:
        """Send all objects in small batches: changes in that time are sent, too, and arrive later."""
        objects = self._scheduler.objects
        for kind in find_watched_kinds(objects):
            keys = [kube_object.key for kube_object in objects[kind].list()]
            for first in range(0, len(keys), SLICE):
                for key in keys[first : first + SLICE]:
                    # The current state: the object may have been changed or deleted.
                    if (kube_object := objects[kind].find(key)) is not None:
                        self.put(encode_frame(encode_object(kube_object)))
                await asyncio.sleep(0)
                while self.pending_bytes > MAX_BUFFER // 2:
                    await asyncio.sleep(FLUSH_SECONDS)
        assumed = [(pod.key, pod.node_name) for pod in self._scheduler.cache.assumed_pods()]
        self.put(encode_frame(InitialObjectsSent(assumed)))

    async def _flush(self, process: ChildProcess) -> None:
        """Write queued messages periodically. Only this task waits for the shadow to read them."""
        try:
            while True:
                if not self._out:
                    await asyncio.sleep(FLUSH_SECONDS)
                    continue
                data = b"".join(self._out)
                self._out.clear()
                process.write(data)
                await process.drain()
                self.pending_bytes = max(0, self.pending_bytes - len(data))
        except ChildEnded as error:
            raise ShadowOff(str(error)) from error

    async def _listen(self, process: ChildProcess) -> None:
        decoder: msgspec.msgpack.Decoder[ShadowMessage] = msgspec.msgpack.Decoder(ShadowMessage)
        try:
            while True:
                self.take(await process.receive(decoder))
        except ChildEnded as error:
            raise ShadowOff(str(error)) from error
        except msgspec.MsgspecError as error:
            raise ShadowOff(f"invalid message from its process: {error}") from error

    async def _supervise(self, process: ChildProcess) -> None:
        """Check the process once per second, and immediately after an overflow."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):
                    await self._overflow.wait()
            if problem := self.find_problem(monotonic(), _resident(process.pid)):
                raise ShadowOff(problem)

    async def close(self) -> None:
        """Kill the process, and stop sending requests."""
        self._feed.send = None
        if self._feed.pending_requests:
            self._events.dropped(LOST, len(self._feed.pending_requests))
            self._feed.pending_requests.clear()
        self._is_synced = False
        self._events.is_up(up=False)
        if self.process is not None:
            await self.process.close()


def _resident(pid: int) -> int:
    """Return the memory of a process in bytes; 0 if it is unknown."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return 0
