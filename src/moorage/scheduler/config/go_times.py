"""Times in layouts of Go, which show how January 2, 2006, 15:04:05 is written."""

import re
from datetime import UTC, datetime
from typing import Final, Self

from msgspec import Struct

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
        """Read a layout; ValueError if a part of it means nothing, or no year is in it."""
        without_fraction = re.sub(r"(?<=05)[.,](?:0+|9+)", "", layout)
        remainder = _PART.sub("", without_fraction)
        if digits := re.search(r"\d", remainder):
            raise ValueError(f"{digits[0]!r} has no meaning in a layout")
        if "2006" not in layout and "06" not in layout:
            raise ValueError("there is no year (2006) in it")
        return cls(_PART.sub(lambda part: _PARTS[part[0]], without_fraction.replace("%", "%%")))

    def seconds(self, text: str) -> float:
        """Return the Unix time of a text; raise ValueError if it does not match the layout. Fractions are optional.

        The default zone is UTC.
        """
        if len(text) > _MAX_LENGTH:
            raise ValueError("this is no time")
        try:
            read = datetime.strptime(_FRACTION.sub("", text), self.format)
            return (read if read.tzinfo is not None else read.replace(tzinfo=UTC)).timestamp()
        except OverflowError as error:
            raise ValueError(str(error)) from error
