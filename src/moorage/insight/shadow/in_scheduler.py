"""The shadow of a scheduler as its flags want it: what feeds it, what it is counted in, and its log."""

from pathlib import Path
from typing import Final

from moorage.common.clock import SteadyClock
from moorage.common.errors import InputError
from moorage.insight.explain.in_scheduler import request_of
from moorage.insight.shadow.feeding import ShadowFeed
from moorage.insight.shadow.messages import DIFFERS, Comparison
from moorage.insight.shadow.running import Shadow, ShadowEvents, ShadowPlan
from moorage.scheduler.daemon.decision_log.opening import limits_of
from moorage.scheduler.daemon.decision_log.writing import LineWriter, RotatedFile
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.options import Options
from moorage.scheduler.engine.scheduler import Scheduler

UP: Final = "moorage_shadow_up"
DECISIONS: Final = "moorage_shadow_decisions_total"
DIFFERENCES: Final = "moorage_shadow_differences_total"
DROPPED: Final = "moorage_shadow_dropped_total"


class SchedulerShadow(ShadowEvents):
    """Everything about the shadow of one daemon."""

    def __init__(self, options: Options, registry: CellRegistry) -> None:
        flags, path = options.flags, Path(options.flags["shadow"])
        if not 0 < flags["shadow-percent"] <= 100:
            raise InputError("--shadow-percent", f"{flags['shadow-percent']:g} is not a percentage above 0")
        if not path.is_file():
            hint = "name a KubeSchedulerConfiguration"
            raise InputError("--shadow", f"{path} is not a file", hint=hint)
        if options.config.extenders:
            raise InputError("--shadow", "a scheduler with extenders cannot have one: they would be asked twice")
        self.options = options
        """The options in force: another configuration in charge is another shadow."""
        self._plan = ShadowPlan(path, tuple(flags["shadow-plugin"]), flags["shadow-max-memory"])
        self._registry = registry
        self._log: LineWriter | None = None
        if flags["shadow-log"]:
            limits = limits_of(flags["decision-log-max-size"], flags["decision-log-max-files"])
            file = RotatedFile(Path(flags["shadow-log"]), limits)
            cells = {reason: registry[DROPPED].number(f"log-{reason}") for reason in ("buffer", "disk")}
            self._log = LineWriter(file, lambda reason, count: cells[reason].inc(count), "--shadow-log")
        self.feed = ShadowFeed(SteadyClock(), flags["shadow-percent"])
        self._shadow: Shadow | None = None
        registry[UP].number().set(0)

    def attach(self, scheduler: Scheduler) -> None:
        """Begin to follow a scheduler; InputError if the log cannot be written."""
        if self._log is not None:
            self._log.start()
        self.feed.watch(scheduler.cache)
        self._shadow = Shadow(self._plan, self.feed, scheduler, lambda: request_of(self.options), self)

    def change(self, options: Options) -> None:
        """Compare with another configuration from now on: it has come into force."""
        self.options = options
        if self._shadow is not None:
            self._shadow.restart()

    async def run(self) -> None:
        """Keep the shadow at work until cancelled."""
        assert self._shadow is not None
        await self._shadow.run()

    def close(self) -> None:
        """Write the last lines."""
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
        """Count what was not asked, or not answered."""
        self._registry[DROPPED].number(reason).inc(count)

    def is_up(self, *, up: bool) -> None:
        """Show whether it is asked."""
        self._registry[UP].number().set(int(up))
