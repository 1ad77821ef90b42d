"""Durations as users write them in annotations and options."""

import re
from typing import Final

from moorage.common.errors import InputError

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}


def parse_duration(text: str, *, where: str) -> float:
    """Return the seconds of a duration like ``500ms``, ``1m30s`` or ``7d``. Raise InputError if invalid.

    A number without a unit is in seconds; options require a unit.

    >>> parse_duration("1m30s", where="--for")
    90.0
    """
    if re.fullmatch(r"\d{1,12}(\.\d+)?", text, re.ASCII):
        if where.startswith("--") and float(text):
            raise InputError(where, f"{text} has no unit", hint=f"write {text}s, {text}m or {text}h")
        return float(text)
    parts = re.findall(r"(\d{1,9}(?:\.\d+)?)(ms|s|m|h|d)", text, re.ASCII)
    if not parts or "".join(amount + unit for amount, unit in parts) != text:
        raise InputError(where, f"{text[:40]!r} is not a duration", hint="use a duration such as 30s, 1m30s or 500ms")
    return sum(float(amount) * _UNITS[unit] for amount, unit in parts)
