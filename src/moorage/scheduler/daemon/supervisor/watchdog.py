"""The watchdog: for how long the scheduler has not taken a turn, or a cycle has waited for a plugin."""

from typing import Final

from moorage.scheduler.daemon.supervisor.page import BEAT, WAITING_SINCE, SharedPage

BEAT_SECONDS: Final = 0.25
"""How often the scheduler shows that its loop turns, and how often somebody looks."""
WARN_SECONDS: Final = 1.0
"""After so long it is logged and counted."""


class Watchdog:
    """Adds up what it sees.

    Only time that passed under its own eyes counts, in steps: when keeper and scheduler, or the whole machine, were
    frozen together, the scheduler first gets the chance to show that it is well. ``limit`` is 0 for no limit.
    """

    def __init__(self, page: SharedPage, limit: float = 0.0) -> None:
        self.limit = limit
        self.blocked = 0.0
        """For how many seconds the loop has not turned."""
        self.waiting = 0.0
        """For how many seconds a cycle has waited for a plugin while the loop turned."""
        self._page = page
        self._last_look = 0.0
        self._last = (0.0, 0.0)

    def look(self, now: float) -> None:
        """Compare with the last look; to be called every :data:`BEAT_SECONDS`."""
        step = min(now - self._last_look, 2 * BEAT_SECONDS)
        beat, since = seen = (self._page[BEAT], self._page[WAITING_SINCE])
        self.blocked = self.blocked + step if beat and beat == self._last[0] else 0.0
        self.waiting = self.waiting + step if since and since == self._last[1] else 0.0
        self._last_look, self._last = now, seen

    @property
    def is_blocked(self) -> bool:
        """Whether the loop has been blocked for long enough to say so."""
        return self.blocked >= WARN_SECONDS

    @property
    def is_stuck(self) -> bool:
        """Whether it has gone on for so long that another had better lead."""
        return 0 < self.limit <= max(self.blocked, self.waiting)
