"""`--explain-events`: a second event for pods that fit nowhere, with the first change that would let them run.

Worked out in a process of its own, which reads the cluster for itself and ends with its answer: the scheduler neither
waits for it nor lends it memory. What it does not get to in time is dropped.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec
import structlog
from msgspec import Struct

from moorage.common.clock import Clock, SteadyClock
from moorage.kube.client.event_note import EventNote
from moorage.scheduler.config import completed_view
from moorage.scheduler.daemon.assembly import DaemonParts
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.services import DaemonService
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.wiring.policy import Policy

PAUSE_SECONDS: Final = 10.0
POD_SECONDS: Final = 60.0
"""A pod gets one such event in this time at most."""
BATCH_SECONDS: Final = 30.0
MAX_BATCH: Final = 20
NICENESS: Final = 10
REASON: Final = "WouldFit"

log = structlog.get_logger(__name__)


class ExplainRequest(Struct, frozen=True):
    """What the process beside us has to know."""

    kubeconfig: str
    master: str
    config: dict[str, Any]
    plugins: tuple[str, ...]
    gates: dict[str, bool]
    release: str
    pods: tuple[str, ...] = ()
    seconds: float = BATCH_SECONDS


Ask: TypeAlias = Callable[[ExplainRequest], Awaitable[dict[str, str]]]
"""Answers a request with a sentence for some of the pods."""


def request_of(options: Options) -> ExplainRequest:
    """Say how this scheduler was set up."""
    connection, flags = options.config.client_connection, options.flags
    return request_for(options.policy, connection.kubeconfig, flags["plugin"], flags["master"])


def request_for(policy: Policy, kubeconfig: str, plugins: Sequence[str], master: str = "") -> ExplainRequest:
    """Say how a scheduler was set up, and how its API server is reached."""
    features = policy.features
    return ExplainRequest(
        kubeconfig=kubeconfig,
        master=master,
        config=completed_view(policy.config),
        plugins=tuple(plugins),
        gates={name: features.enabled(name) for name in features.gates},
        release=features.release,
    )


class ExplainEvents:
    """Looks from time to time who waits, has some of them explained, and records what would help."""

    def __init__(
        self,
        scheduler: Scheduler,
        record: Callable[[EventNote], None],
        clock: Clock,
        request: Callable[[], ExplainRequest],
        ask: Ask | None = None,
    ) -> None:
        self._scheduler = scheduler
        self._record = record
        self._clock = clock
        self._request = request
        self._ask = ask or ask_beside
        self._reported: dict[str, float] = {}

    async def run(self) -> None:
        """Go on until cancelled; what goes wrong is logged and costs one round."""
        while True:
            await asyncio.sleep(PAUSE_SECONDS)
            try:
                await self.round()
            except (OSError, TimeoutError, msgspec.MsgspecError) as error:
                log.warning("pending pods were not explained", error=str(error) or type(error).__name__)

    async def round(self) -> None:
        """Explain some of the pods that wait, none of which was explained in the last minute."""
        now = self._clock.now()
        self._reported = {uid: explained for uid, explained in self._reported.items() if now - explained < POD_SECONDS}
        waiting = (
            queued
            for queued in self._scheduler.queue
            if queued.rejectors and not queued.is_gated and queued.uid not in self._reported
        )
        batch = {queued.key: queued for queued in islice(waiting, MAX_BATCH)}
        if not batch:
            return
        for queued in batch.values():
            self._reported[queued.uid] = now
        answers = await self._ask(msgspec.structs.replace(self._request(), pods=tuple(batch)))
        for key, text in answers.items():
            explained = batch.get(key)
            if explained is not None and self._scheduler.queue.find(explained.pod) is not None:
                self._record(EventNote(explained.pod, REASON, "Scheduling", text, explained.scheduler_name))


class ExplainEventsService(DaemonService):
    """`--explain-events` as a service of the daemon."""

    def __init__(self, options: Options, instruments: Instruments) -> None:
        self._options = options
        self._events: ExplainEvents | None = None

    def start(self, parts: DaemonParts, router: Router) -> None:
        """Follow the pending pods of a scheduler."""
        record, clock = parts.connection.recorder.record, SteadyClock()
        self._events = ExplainEvents(parts.scheduler, record, clock, lambda: request_of(self._options))

    def reconfigure(self, options: Options) -> None:
        """Explain under a new configuration."""
        self._options = options

    async def run(self) -> None:
        """Explain pending pods until cancelled."""
        if self._events is not None:
            await self._events.run()


async def ask_beside(request: ExplainRequest) -> dict[str, str]:
    """Have a process of its own answer; TimeoutError, and no process left, if that takes too long."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "moorage.insight.explain.process",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        preexec_fn=be_nice,
    )
    try:
        async with asyncio.timeout(request.seconds * 2):
            said, _ = await process.communicate(msgspec.json.encode(request))
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return msgspec.json.decode(said, type=dict[str, str]) if said else {}


def be_nice() -> None:
    """Leave the machine to the scheduler."""
    os.nice(NICENESS)
