"""Go's durations: "1h2m", "1.5s" and "300ms" as exact nanoseconds, printed the way Go prints them."""

import re
from datetime import UTC, datetime
from typing import Final, Self

from msgspec import Struct

_UNITS: Final = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_TERM: Final = re.compile(r"(\d+\.?\d*|\.\d+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_WHOLE: Final = re.compile(rf"[+-]?(?:{_TERM.pattern})+", re.ASCII)
_LIMIT: Final = 2**63


def _parse_whole(number: str, unit: int) -> int:
    if number.isdecimal():
        return int(number) * unit
    from fractions import Fraction

    return int(Fraction(number) * unit)


class Duration(Struct, frozen=True, order=True):
    """A length of time.

    >>> str(Duration.parse("600s")), Duration.parse("1.5s").seconds
    ('10m0s', 1.5)
    """

    nanoseconds: int = 0

    @classmethod
    def of(cls, *, seconds: int) -> Self:
        """Return a duration of whole seconds."""
        return cls(seconds * _UNITS["s"])

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse Go's notation. Raise ValueError with Go's message."""
        if text in ("0", "+0", "-0"):
            return cls()
        if not _WHOLE.fullmatch(text):
            raise ValueError(_complaint(text))
        # Go truncates to nanoseconds, term by term.
        total = sum(_parse_whole(number, _UNITS[unit]) for number, unit in _TERM.findall(text))
        if total >= _LIMIT:
            raise ValueError(f'time: invalid duration "{text}"')
        return cls(-total if text.startswith("-") else total)

    @property
    def seconds(self) -> float:
        """The duration in seconds, for clocks and timers."""
        return self.nanoseconds / _UNITS["s"]

    def __bool__(self) -> bool:
        return self.nanoseconds != 0

    def __str__(self) -> str:
        sign, remainder = ("-" if self.nanoseconds < 0 else ""), abs(self.nanoseconds)
        if remainder == 0:
            return "0s"
        for unit, next_unit in (("ns", "us"), ("µs", "ms"), ("ms", "s")):
            if remainder < _UNITS[next_unit]:
                return f"{sign}{_decimal(remainder, _UNITS[unit])}{unit}"
        minutes, nanoseconds = divmod(remainder, _UNITS["m"])
        text = f"{_decimal(nanoseconds, _UNITS['s'])}s"
        if minutes:
            hours, minutes = divmod(minutes, 60)
            text = (f"{hours}h" if hours else "") + f"{minutes}m{text}"
        return sign + text


def _decimal(count: int, unit: int) -> str:
    quotient, remainder = divmod(count, unit)
    fraction = str(remainder).zfill(len(str(unit)) - 1).rstrip("0") if remainder else ""
    return f"{quotient}.{fraction}" if fraction else str(quotient)


def _complaint(text: str) -> str:
    if re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)", text, re.ASCII):
        return f'time: missing unit in duration "{text}"'
    if unknown := re.fullmatch(rf"[+-]?(?:{_TERM.pattern})*(?:\d+\.?\d*|\.\d+)([^\d.]+).*", text, re.ASCII):
        return f'time: unknown unit "{unknown[3]}" in duration "{text}"'
    return f'time: invalid duration "{text}"'


RFC3339: Final = "2006-01-02T15:04:05Z07:00"

_PARTS: Final = {
    "January": "%B",
    "Jan": "%b",
    "Monday": "%A",
    "Mon": "%a",
    "2006": "%Y",
    "01": "%m",
    "02": "%d",
    "15": "%H",
    "03": "%I",
    "04": "%M",
    "05": "%S",
    "06": "%y",
    "PM": "%p",
    "Z07:00": "%z",
    "-07:00": "%z",
    "Z0700": "%z",
    "-0700": "%z",
    "MST": "%Z",
}
_PART: Final = re.compile("|".join(sorted(map(re.escape, _PARTS), key=len, reverse=True)))
_FRACTION: Final = re.compile(r"(?<=:\d\d)[.,]\d+")
_MAX_LENGTH: Final = 64


class GoLayout(Struct, frozen=True):
    """A layout, ready to read times by.

    >>> GoLayout.parse("2006-01-02").seconds("1970-01-02")
    86400.0
    """

    format: str

    @classmethod
    def parse(cls, layout: str) -> Self:
        """Parse a layout. Raise ValueError for an unknown element or a missing year."""
        without_fraction = re.sub(r"(?<=05)[.,](?:0+|9+)", "", layout)
        remainder = _PART.sub("", without_fraction)
        if digits := re.search(r"\d", remainder):
            raise ValueError(f"{digits[0]!r} has no meaning in a layout")
        if "2006" not in layout and "06" not in layout:
            raise ValueError("the year (2006) is missing")
        return cls(_PART.sub(lambda part: _PARTS[part[0]], without_fraction.replace("%", "%%")))

    def seconds(self, text: str) -> float:
        """Return the Unix time of a text. Raise ValueError if it does not match the layout. Fractions are optional.

        The default zone is UTC.
        """
        if len(text) > _MAX_LENGTH:
            raise ValueError("not a time")
        try:
            read = datetime.strptime(_FRACTION.sub("", text), self.format)
            return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
        except OverflowError as error:
            raise ValueError(str(error)) from error
