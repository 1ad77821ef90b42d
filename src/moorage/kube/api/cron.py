"""Cron schedules: when a line of five fields, or a word such as ``@hourly``, is due."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from moorage.common.caches import cached
from moorage.common.errors import InputError

_MONTHS: Final = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_WORDS: Final = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_EVERY: Final = re.compile(r"@every (?:(\d{1,9})h)?(?:(\d{1,9})m)?(?:(\d{1,9})s)?", re.ASCII)
_HORIZON: Final = timedelta(days=5 * 366)
"""A schedule that is not due for so long, such as the 30th of February, is never due."""
_END: Final = datetime(9990, 1, 1, tzinfo=UTC).timestamp()
"""A status may contain a time in the last year that Python supports."""


class Schedule(Struct, frozen=True):
    """The minutes, hours, days, months and weekdays of a schedule, or an interval (``every``) in seconds.

    Days and weekdays are alternatives unless one of them is unrestricted.
    """

    minutes: frozenset[int] = frozenset()
    hours: frozenset[int] = frozenset()
    days: frozenset[int] = frozenset()
    months: frozenset[int] = frozenset()
    weekdays: frozenset[int] = frozenset()
    either_day: bool = False
    every: int = 0

    def after(self, moment: float, zone: tzinfo = UTC) -> float | None:
        """Return the first time after a moment at which the schedule is due, or ``None`` if it never is.

        >>> parse("30 4 * * *").after(0.0)
        16200.0
        """
        if self.every:
            return float(int(moment) + self.every)
        if moment > _END:
            return None
        start = datetime.fromtimestamp(moment, zone).replace(second=0, microsecond=0, tzinfo=None)
        candidate = start + timedelta(minutes=1)
        while candidate < start + _HORIZON:
            later = self._later(candidate)
            if later is None:
                timestamp = candidate.replace(tzinfo=zone).timestamp()
                if timestamp > moment:
                    return timestamp
                later = candidate + timedelta(minutes=1)
            candidate = later
        return None

    def _later(self, moment: datetime) -> datetime | None:
        """Return the next moment worth looking at, or ``None`` if this one is it."""
        if moment.month not in self.months:
            return (moment.replace(day=1, hour=0, minute=0) + timedelta(days=32)).replace(day=1)
        day, weekday = moment.day in self.days, moment.isoweekday() % 7 in self.weekdays
        if not ((day or weekday) if self.either_day else (day and weekday)):
            return moment.replace(hour=0, minute=0) + timedelta(days=1)
        if moment.hour not in self.hours:
            return moment.replace(minute=0) + timedelta(hours=1)
        return None if moment.minute in self.minutes else moment + timedelta(minutes=1)

    def latest(self, start: float, end: float, zone: tzinfo = UTC) -> float | None:
        """Return the last time after ``start``, up to ``end``, at which the schedule was due."""
        for span in (3600.0, 86400.0, 31 * 86400.0, end - start):
            last, next_time = None, self.after(max(start, end - span), zone)
            while next_time is not None and next_time <= end:
                last, next_time = next_time, self.after(next_time, zone)
            if last is not None:
                return last
        return None


@cached(1024)
def parse(text: str) -> Schedule:
    """Parse a schedule. Raise InputError if it is invalid."""
    if match := _EVERY.fullmatch(text):
        hours, minutes, seconds = (int(part or 0) for part in match.groups())
        every = hours * 3600 + minutes * 60 + seconds
        if every:
            return Schedule(every=every)
    fields = _WORDS.get(text, text).split()
    if len(fields) != 5:
        hint = "write minute, hour, day, month and weekday, like 0 4 * * 1-5, or a word such as @hourly"
        raise InputError("schedule", f"{text!r} has {len(fields)} fields instead of 5", hint=hint)
    minute, hour, day, month, weekday = fields
    return Schedule(
        frozenset(_field(minute, 0, 59)),
        frozenset(_field(hour, 0, 23)),
        frozenset(_field(day, 1, 31)),
        frozenset(_field(month, 1, 12, _MONTHS, 1)),
        frozenset(_field(weekday, 0, 6, _DAYS, 0)),
        either_day=day not in ("*", "?") and weekday not in ("*", "?"),
    )


def _field(text: str, least: int, most: int, names: tuple[str, ...] = (), first: int = 0) -> Iterator[int]:
    numbers = {name: number for number, name in enumerate(names, first)}
    for part in text.split(","):
        match = re.fullmatch(r"(\*|\?|\w+)(?:-(\w+))?(?:/(\d{1,9}))?", part, re.ASCII)
        bounds = _bounds(match, numbers, least, most) if match else None
        if match is None or bounds is None:
            hint = f"write numbers from {least} to {most}, ranges like 1-5, steps like */2, or lists of them"
            raise InputError("schedule", f"{part!r} is not a schedule", hint=hint)
        yield from range(bounds[0], bounds[1] + 1, int(match[3] or 1))


def _bounds(match: re.Match[str], numbers: dict[str, int], least: int, most: int) -> tuple[int, int] | None:
    begin, end, step = match.groups()
    if step is not None and int(step) == 0:
        return None
    if begin in ("*", "?"):
        return (least, most) if end is None else None
    bounds = [numbers.get(text.lower(), _number(text)) for text in (begin, end or begin)]
    if end is None and step is not None:
        bounds[1] = most
    return (bounds[0], bounds[1]) if least <= bounds[0] <= bounds[1] <= most else None


def _number(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= 9 else -1


def find_zone(name: str | None) -> tzinfo:
    """Return the time zone of a name. None is UTC."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise InputError("timeZone", f"{name!r} is unknown", hint="write a name like Europe/Berlin") from error
