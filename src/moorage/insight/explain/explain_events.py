"""`--explain-events`: an additional event for infeasible pods, with the first change that would make them fit.

A child process reads the cluster, computes the explanations and ends: the scheduler does not wait, and its memory does
not grow. Pods that are not explained in time are skipped.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

import msgspec
import structlog
from msgspec import Struct

from moorage.common.child_process import ChildEnded, ChildProcess, RestartPolicy
from moorage.common.clock import Clock, SteadyClock
from moorage.kube.api.records import EventNote
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import completed_view
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.services import DaemonParts, DaemonService
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

PAUSE_SECONDS: Final = 10.0
POD_SECONDS: Final = 60.0
"""Minimum time between two such events of a pod."""
MAX_PAUSE_SECONDS: Final = 300.0
BATCH_SECONDS: Final = 30.0
MAX_BATCH: Final = 20
WORKER: Final = "moorage.insight.explain.explain_worker"
REASON: Final = "WouldFit"

log = structlog.get_logger(__name__)


class ExplainRequest(Struct, frozen=True):
    """The setup of the scheduler and the pods to explain."""

    kubeconfig: str
    master: str
    config: dict[str, Any]
    plugins: tuple[str, ...]
    gates: dict[str, bool]
    release: str
    pods: tuple[str, ...] = ()
    seconds: float = BATCH_SECONDS

    def load_policy(self) -> Policy:
        """Load the configuration and the plugins."""
        gates = FeatureGates(self.gates, release=self.release)
        config = msgspec.json.encode(self.config).decode()
        return load_policy(collect_plugins(paths=self.plugins), config, features=gates)


Ask: TypeAlias = Callable[[ExplainRequest], Awaitable[dict[str, str]]]
"""Returns an explanation for some of the pods of a request."""

_replies: Final = msgspec.msgpack.Decoder(dict[str, str])


def request_from_options(options: Options) -> ExplainRequest:
    """Return a request with the setup of a scheduler."""
    connection, flags = options.config.client_connection, options.flags
    return make_explain_request(options.policy, connection.kubeconfig, flags["plugin"], flags["master"])


def make_explain_request(policy: Policy, kubeconfig: str, plugins: Sequence[str], master: str = "") -> ExplainRequest:
    """Return a request with the policy of a scheduler and the address of its API server."""
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
    """Periodically explain some of the pending pods, and record events."""

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
        self._ask = ask or explain_in_child
        self._reported: dict[str, float] = {}
        self._restarts = RestartPolicy(PAUSE_SECONDS, MAX_PAUSE_SECONDS, now=clock.now)

    async def run(self) -> None:
        """Run until cancelled. An error is logged and ends one round."""
        while True:
            await asyncio.sleep(max(PAUSE_SECONDS, self._restarts.remaining))
            try:
                await self.round()
            except (ChildEnded, OSError, TimeoutError, msgspec.MsgspecError) as error:
                self._restarts.failed()
                log.warning("cannot explain pending pods", error=str(error) or type(error).__name__)

    async def round(self) -> None:
        """Explain some of the pending pods that were not explained in the last minute."""
        now = self._clock.now()
        self._reported = {uid: explained for uid, explained in self._reported.items() if now - explained < POD_SECONDS}
        pending = (
            queued
            for queued in self._scheduler.queue
            if queued.rejectors and not queued.is_gated and queued.uid not in self._reported
        )
        batch = {queued.key: queued for queued in islice(pending, MAX_BATCH)}
        if not batch:
            return
        for queued in batch.values():
            self._reported[queued.uid] = now
        answers = await self._ask(msgspec.structs.replace(self._request(), pods=tuple(batch)))
        self._restarts.succeeded()
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
        self._events = ExplainEvents(parts.scheduler, record, clock, lambda: request_from_options(self._options))

    def reconfigure(self, options: Options) -> None:
        """Explain under a new configuration."""
        self._options = options

    async def run(self) -> None:
        """Explain pending pods until cancelled."""
        if self._events is not None:
            await self._events.run()


async def explain_in_child(request: ExplainRequest) -> dict[str, str]:
    """Return the reply of a child process. Raise TimeoutError or ChildEnded without a reply. No process remains."""
    async with asyncio.timeout(request.seconds * 2):
        child = await ChildProcess.start(WORKER)
        try:
            await child.send(request)
            return await child.receive(_replies)
        finally:
            await child.close()
