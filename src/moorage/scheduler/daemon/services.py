"""Optional services of the daemon. Each is selected by a flag and imported only if the flag is set."""

import asyncio
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, TypeAlias

from moorage.common.clock import SteadyClock
from moorage.kube.http.pool import Transport
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.wiring.scheduling_loop import Apply

if TYPE_CHECKING:
    from moorage.scheduler.daemon.daemon_assembly import DaemonParts


class DaemonService:
    """A service that observes the daemon or runs in its background; subclasses override the hooks they need."""

    @property
    def observer(self) -> AttemptObserver | None:
        """The observer of scheduling attempts, if the service has one."""
        return None

    def wrap_transport(self, transport: Transport) -> Transport:
        """Wrap the transport of the scheduler's API requests."""
        return transport

    def wrap_apply(self, apply: Apply) -> Apply:
        """Wrap the function that applies changes of objects to the scheduler."""
        return apply

    def start(self, parts: "DaemonParts", router: Router) -> None:
        """Attach to an assembled daemon and register pages. Raise InputError if a flag's value is unusable."""

    def reconfigure(self, options: Options) -> None:
        """Use a reloaded configuration, which has just become active."""

    async def run(self) -> None:
        """Do background work while the daemon schedules; cancelled at shutdown."""

    async def close(self) -> None:
        """Release all resources; called once, even if the service was never started."""


ServiceFactory: TypeAlias = Callable[[Options, Instruments], DaemonService]


class DecisionLogService(DaemonService):
    """`--decision-log`: one line per decision."""

    def __init__(self, options: Options, instruments: Instruments) -> None:
        from moorage.scheduler.daemon.decision_log.recording import OpenDecisionLog
        from moorage.scheduler.daemon.decision_log.writing import check_limits

        flags, registry = options.flags, instruments.registry
        limits = check_limits(flags["decision-log-max-size"], flags["decision-log-max-files"])
        self._log: OpenDecisionLog = OpenDecisionLog(
            flags["decision-log"], limits, SteadyClock(), lambda metric, *labels: registry[metric].number(*labels)
        )

    @property
    def observer(self) -> AttemptObserver:
        """The observer that writes the lines."""
        return self._log.observer

    def start(self, parts: "DaemonParts", router: Router) -> None:
        """Open the file."""
        self._log.start()

    async def close(self) -> None:
        """Write the last lines."""
        self._log.close()


class TracingService(DaemonService):
    """`--tracing-endpoint`: spans of sampled attempts."""

    def __init__(self, options: Options, instruments: Instruments) -> None:
        from moorage.scheduler.daemon.tracing.exporting import provider_for, sampled_share

        flags = options.flags
        share = sampled_share(flags["tracing-sampling-rate-per-million"])
        provider = provider_for(flags["tracing-endpoint"])
        # After provider_for, which reports a missing OpenTelemetry: this import needs it.
        from moorage.scheduler.daemon.tracing.attempts import Traces

        self._traces: Traces = Traces(provider, share, instruments.sampler)

    @property
    def observer(self) -> AttemptObserver:
        """The observer that starts and ends spans."""
        return self._traces.attempts

    def wrap_transport(self, transport: Transport) -> Transport:
        """Trace API requests."""
        return self._traces.around(transport)

    async def close(self) -> None:
        """Send the last spans, in a thread: the exporter blocks."""
        await asyncio.to_thread(self._traces.close)


def own_services(options: Options) -> Iterator[ServiceFactory]:
    """Yield the factories of the daemon's own services that the flags select."""
    if options.flags["decision-log"]:
        yield DecisionLogService
    if options.flags["tracing-endpoint"]:
        yield TracingService
