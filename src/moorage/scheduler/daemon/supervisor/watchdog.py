"""The watchdog measures how long the loop has been blocked, or a cycle has waited for a plugin."""

import asyncio
import os
from typing import Final

import structlog

from moorage.common.clock import boot_time
from moorage.scheduler.daemon.supervisor.process import BEAT, STACK_SIGNAL, WAITING_SINCE, Child, SharedState
from moorage.scheduler.daemon.supervisor.stacks import Span, find_blocking_plugin, read_stack
from moorage.scheduler.framework.metering import Meter

BEAT_SECONDS: Final = 0.25
"""The interval of heartbeats of the scheduler's loop, and of checks."""
WARN_SECONDS: Final = 1.0
"""Time after which a block is logged and counted."""


class Watchdog:
    """Adds up the time in which the scheduler was blocked.

    Only time that the watchdog itself observed counts, in steps: when supervisor and scheduler, or the entire machine,
    were frozen together, the scheduler first gets a chance to respond. ``limit`` is 0 for no limit.
    """

    def __init__(self, state: SharedState, limit: float = 0.0) -> None:
        self.limit = limit
        self.blocked = 0.0
        """Seconds since the last iteration of the loop."""
        self.waiting = 0.0
        """Seconds for which a cycle has waited for a plugin while the loop ran."""
        self._state = state
        self._last_look = 0.0
        self._last = (0.0, 0.0)

    def look(self, now: float) -> None:
        """Compare with the last look. To be called every :data:`BEAT_SECONDS`."""
        step = min(now - self._last_look, 2 * BEAT_SECONDS)
        beat, waiting_since = reading = (self._state[BEAT], self._state[WAITING_SINCE])
        self.blocked = self.blocked + step if beat and beat == self._last[0] else 0.0
        self.waiting = self.waiting + step if waiting_since and waiting_since == self._last[1] else 0.0
        self._last_look, self._last = now, reading

    @property
    def is_blocked(self) -> bool:
        """Whether the loop has been blocked long enough for a report."""
        return self.blocked >= WARN_SECONDS

    @property
    def is_stuck(self) -> bool:
        """Whether the block has lasted so long that another scheduler should lead."""
        return 0 < self.limit <= max(self.blocked, self.waiting)


STACK_SECONDS: Final = 0.2
"""Time limit for writing a stack. A stopped process does not write it."""
MAX_STACK: Final = 1 << 16
METRIC: Final = "moorage_stuck_total"

log = structlog.get_logger(__name__)


class Incidents:
    """Watches one scheduler. ``counts`` is how often each plugin blocked it, readable during a block."""

    def __init__(self, watchdog: Watchdog, child: Child, stacks: int, meter: Meter) -> None:
        self.spans: list[Span] = []
        self.counts: dict[str, int] = {}
        self.plugin = ""
        """The plugin that blocks the scheduler, or the last one that did."""
        self._watchdog = watchdog
        self._child = child
        self._stacks = stacks
        self._meter = meter

    async def watch(self) -> None:
        """Check until cancelled."""
        is_reported = is_stuck = False
        while True:
            await asyncio.sleep(BEAT_SECONDS)
            self._watchdog.look(boot_time())
            if self._watchdog.is_blocked and not is_reported:
                is_reported = True
                self._read()
                self._child.send(STACK_SIGNAL)
                await asyncio.sleep(STACK_SECONDS)
                stack = read_stack(self._read())
                self.plugin, frame = find_blocking_plugin(stack, self.spans)
                self.counts[self.plugin] = self.counts.get(self.plugin, 0) + 1
                self._meter.count(METRIC, self.plugin)
                log.warning(
                    "the scheduler is blocked" if not self.plugin else "a plugin blocks the scheduler",
                    plugin=self.plugin,
                    where=str(frame or (stack[0] if stack else "unknown (the process is not running)")),
                    seconds=round(self._watchdog.blocked, 1),
                    stack="\n".join(map(str, stack)),
                )
            elif is_reported and not self._watchdog.is_blocked:
                is_reported = False
                log.info("the scheduler is no longer blocked", plugin=self.plugin)
            if self._watchdog.is_stuck and not is_stuck:
                problem = "stuck for too long: /livez fails and the lease is no longer renewed"
                log.error(problem, plugin=self.plugin, limit_seconds=self._watchdog.limit)
            is_stuck = self._watchdog.is_stuck

    def _read(self) -> str:
        try:
            return os.read(self._stacks, MAX_STACK).decode(errors="replace")
        except BlockingIOError:
            return ""
