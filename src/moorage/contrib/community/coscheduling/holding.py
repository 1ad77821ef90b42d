"""Delayed groups: their deadlines or conditions, and when their pods report them in events."""

from collections.abc import Callable
from typing import Final

from msgspec import Struct

from moorage.common.clock import Clock
from moorage.scheduler.framework.cycle import StateKey

TELL_AFTER: Final = 10.0
"""Delay before a problem of a group is reported, since its pods seldom arrive together."""
TELL_AGAIN: Final = 300.0


class Hold(Struct):
    """The state of a group that is or was delayed."""

    until: float = 0.0
    """When it may be tried again after a failure."""
    is_due: bool = False
    """Whether events of its pods must report the problem; an attempt without effect writes them."""
    told_at: float | None = None
    is_timed: bool = False


class Holds:
    """All groups that are held back; plugins of all profiles share them, as a group may have pods of several."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._of: dict[str, Hold] = {}

    def has_to_wait(self, key: str) -> bool:
        """Return whether a schedulable group must wait because it failed recently."""
        hold = self._of.get(key)
        return hold is not None and self._clock.now() < hold.until

    def is_to_be_told(self, key: str, remind: Callable[[float], None]) -> bool:
        """Return whether events are due; if not, let ``remind`` check again in some seconds."""
        hold = self._of.setdefault(key, Hold())
        if hold.told_at is not None and self._clock.now() - hold.told_at >= TELL_AGAIN:
            hold.is_due = True
        if not hold.is_due and hold.told_at is None and not hold.is_timed:
            hold.is_timed = True
            remind(TELL_AFTER)
        return hold.is_due

    def remind(self, key: str) -> bool:
        """Note that the time has come; return whether there is still a group to report on."""
        hold = self._of.get(key)
        if hold is None:
            return False
        hold.is_timed, hold.is_due = False, True
        return True

    def timed(self) -> list[tuple[str, float, bool]]:
        """Return the groups with a deadline, the seconds until it, and whether their pods report it then."""
        now = self._clock.now()
        waiting = [(key, hold.until - now, False) for key, hold in self._of.items() if hold.until > now]
        return waiting + [(key, TELL_AFTER, True) for key, hold in self._of.items() if hold.is_timed]

    def note_reported(self, key: str) -> None:
        """Record that events of pods reported the problem of their group."""
        hold = self._of.setdefault(key, Hold())
        hold.is_due, hold.told_at = False, self._clock.now()

    def back_off(self, key: str, seconds: float) -> None:
        """Have a group wait after a failure."""
        self._of.setdefault(key, Hold()).until = self._clock.now() + seconds

    def drop(self, key: str) -> None:
        """Forget a group: nothing is wrong with it, or it is gone."""
        self._of.pop(key, None)


HOLDS: Final = StateKey[Holds]("groups that are held back")
