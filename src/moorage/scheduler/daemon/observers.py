"""Who else looks on while the daemon schedules: each is there, and imported, only if a flag asks for it."""

import asyncio
from typing import TYPE_CHECKING

from moorage.common.clock import SteadyClock
from moorage.kube.http.pool import Transport
from moorage.scheduler.daemon.assembly import DaemonParts
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.serving.routing import Router
from moorage.scheduler.engine.observing import AttemptObserver, observed_by
from moorage.scheduler.wiring.loop import Apply

if TYPE_CHECKING:
    from moorage.insight.page.in_scheduler import SchedulerPage
    from moorage.insight.shadow.in_scheduler import SchedulerShadow
    from moorage.scheduler.daemon.decision_log.opening import OpenDecisionLog
    from moorage.scheduler.daemon.tracing.attempts import Traces


class Onlookers:
    """The page, the decision log, the traces and the shadow of one daemon, as its flags want them."""

    def __init__(self, options: Options, instruments: Instruments) -> None:
        self._page = _page(options)
        self._log = _decision_log(options, instruments)
        self._traces = _traces(options, instruments)
        self._shadow = _shadow(options, instruments)
        self.observer: AttemptObserver = (
            observed_by(
                instruments.attempts,
                None if self._page is None else self._page.observer,
                None if self._log is None else self._log.observer,
                None if self._traces is None else self._traces.attempts,
                None if self._shadow is None else self._shadow.feed,
            )
            or instruments.attempts
        )

    def around(self, transport: Transport) -> Transport:
        """Put around what carries requests whatever looks on there."""
        return transport if self._traces is None else self._traces.around(transport)

    def around_apply(self, apply: Apply) -> Apply:
        """Put around what applies changes whatever follows them."""
        return apply if self._shadow is None else self._shadow.feed.around_apply(apply)

    def attach(self, parts: DaemonParts, router: Router) -> None:
        """Begin to look on; InputError if something that a flag names cannot be used."""
        if self._page is not None:
            self._page.add_to(router, parts.scheduler)
        if self._log is not None:
            self._log.start()
        if self._shadow is not None:
            self._shadow.attach(parts.scheduler)
        self.watch(parts)

    def watch(self, parts: DaemonParts) -> None:
        """Look at the plugins that are in use now."""
        if self._log is not None:
            self._log.observer.watch(parts.scheduler.cycles.values())
        if self._traces is not None:
            self._traces.attempts.watch(parts.scheduler.profiles)

    def change(self, parts: DaemonParts, options: Options) -> None:
        """Go on with another configuration, which has just come into force."""
        self.watch(parts)
        if self._page is not None:
            self._page.change(options)
        if self._shadow is not None:
            self._shadow.change(options)

    async def run(self) -> None:
        """Do what is to be done beside scheduling, until cancelled."""
        if self._shadow is not None:
            await self._shadow.run()

    async def stop(self) -> None:
        """Give everything back."""
        if self._page is not None:
            await self._page.stop()
        if self._log is not None:
            self._log.close()
        if self._shadow is not None:
            self._shadow.close()
        if self._traces is not None:
            await asyncio.to_thread(self._traces.close)


def _page(options: Options) -> "SchedulerPage | None":
    if not options.flags["ui"]:
        return None
    from moorage.insight.page.in_scheduler import SchedulerPage

    return SchedulerPage(options)


def _decision_log(options: Options, instruments: Instruments) -> "OpenDecisionLog | None":
    flags = options.flags
    if not flags["decision-log"]:
        return None
    from moorage.scheduler.daemon.decision_log.opening import OpenDecisionLog, limits_of

    limits = limits_of(flags["decision-log-max-size"], flags["decision-log-max-files"])
    registry = instruments.registry
    return OpenDecisionLog(
        flags["decision-log"], limits, SteadyClock(), lambda metric, *labels: registry[metric].number(*labels)
    )


def _traces(options: Options, instruments: Instruments) -> "Traces | None":
    flags = options.flags
    if not flags["tracing-endpoint"]:
        return None
    from moorage.scheduler.daemon.tracing.exporting import provider_for, sampled_share

    share, provider = sampled_share(flags["tracing-sampling-rate-per-million"]), provider_for(flags["tracing-endpoint"])
    # Only now: without OpenTelemetry this cannot be imported, and why is said above.
    from moorage.scheduler.daemon.tracing.attempts import Traces

    return Traces(provider, share, instruments.sampler)


def _shadow(options: Options, instruments: Instruments) -> "SchedulerShadow | None":
    if not options.flags["shadow"]:
        return None
    from moorage.insight.shadow.in_scheduler import SchedulerShadow

    return SchedulerShadow(options, instruments.registry)
