"""`moorage scheduler --shadow`: the shadow of a running scheduler, with its metrics and its log."""

from pathlib import Path
from typing import Final

from moorage.common.clock import SteadyClock
from moorage.common.errors import InputError
from moorage.common.observers import Observer
from moorage.common.user_files import read_file
from moorage.insight.explain.explain_events import request_from_options
from moorage.insight.shadow.feed import ShadowFeed
from moorage.insight.shadow.messages import DIFFERS, Comparison
from moorage.insight.shadow.shadow_process import Shadow, ShadowEvents, ShadowPlan
from moorage.scheduler.daemon.decision_log.recording import LineWriter, RotatedFile, check_limits
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.daemon.services import DaemonParts, DaemonService
from moorage.scheduler.daemon.serving.routing import Router

UP: Final = "moorage_shadow_up"
DECISIONS: Final = "moorage_shadow_decisions_total"
DIFFERENCES: Final = "moorage_shadow_differences_total"
DROPPED: Final = "moorage_shadow_dropped_total"


class SchedulerShadow(DaemonService, ShadowEvents):
    """The shadow of a daemon."""

    def __init__(self, options: Options, instruments: Instruments) -> None:
        flags, path, registry = options.flags, Path(options.flags["shadow"]), instruments.registry
        if not 0 < flags["shadow-percent"] <= 100:
            raise InputError("--shadow-percent", f"{flags['shadow-percent']:g} is not a percentage above 0")
        read_file(path, where="--shadow", hint="pass a KubeSchedulerConfiguration")
        if options.config.extenders:
            raise InputError("--shadow", "not supported with extenders: they would be called twice")
        self.options = options
        """The active options. A change of configuration restarts the shadow."""
        self._plan = ShadowPlan(path, tuple(flags["shadow-plugin"]), flags["shadow-max-memory"])
        self._registry = registry
        self._log: LineWriter | None = None
        if flags["shadow-log"]:
            limits = check_limits(flags["decision-log-max-size"], flags["decision-log-max-files"])
            file = RotatedFile(Path(flags["shadow-log"]), limits)
            cells = {reason: registry[DROPPED].number(f"log-{reason}") for reason in ("buffer", "disk")}
            self._log = LineWriter(file, lambda reason, count: cells[reason].inc(count), "--shadow-log")
        self._feed = ShadowFeed(SteadyClock(), flags["shadow-percent"])
        self._shadow: Shadow | None = None
        registry[UP].number().set(0)

    @property
    def observer(self) -> Observer:
        """The observer that sends attempts and changes to the shadow."""
        return self._feed

    def start(self, parts: DaemonParts, router: Router) -> None:
        """Follow a scheduler. Raise InputError if the log cannot be written."""
        if self._log is not None:
            self._log.start()
        self._shadow = Shadow(self._plan, self._feed, parts.scheduler, lambda: request_from_options(self.options), self)

    def reconfigure(self, options: Options) -> None:
        """Restart the shadow to compare with a new configuration."""
        self.options = options
        if self._shadow is not None:
            self._shadow.restart()

    async def run(self) -> None:
        """Run the shadow until cancelled."""
        assert self._shadow is not None
        await self._shadow.run()

    async def close(self) -> None:
        """Write the last lines of the log."""
        if self._log is not None:
            self._log.close()

    def compared(self, comparison: Comparison) -> None:
        """Count a comparison, and write it down."""
        self._registry[DECISIONS].number(comparison.profile, comparison.result).inc()
        if comparison.result == DIFFERS:
            self._registry[DIFFERENCES].number(comparison.profile, comparison.because).inc()
        if self._log is not None:
            self._log.put(comparison)

    def dropped(self, reason: str, count: int) -> None:
        """Count requests that were not sent, or got no response."""
        self._registry[DROPPED].number(reason).inc(count)

    def is_up(self, *, up: bool) -> None:
        """Show whether the shadow receives requests."""
        self._registry[UP].number().set(int(up))
