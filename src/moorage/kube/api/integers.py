"""Integers in text: labels, annotations, names and versions."""

import re
from typing import Final

_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,19})\Z").match


def to_int64(text: str) -> int | None:
    """Parse an integer as Go's ``ParseInt`` does. Return ``None`` if it is invalid or exceeds 64 bits.

    ``int`` accepts digits of any script, and raises for thousands of digits.

    >>> to_int64("-42"), to_int64("9" * 5000), to_int64("1_000")
    (-42, None, None)
    """
    match = _INTEGER(text)
    if match is None:
        return None
    number = int(match[1] + match[2])
    return number if -(2**63) <= number < 2**63 else None
