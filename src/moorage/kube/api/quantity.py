"""Kubernetes quantities: "500m", "1.5Gi", "2e3" as exact integers.

A quantity is stored in its wire format (text or a JSON number) and read through three functions: :func:`nano_value`
is exact, :func:`milli_value` and :func:`unit_value` round up, away from zero, as upstream's do.

>>> milli_value("500m"), unit_value("1.5Gi"), milli_value("100u"), unit_value("2e3")
(500, 1610612736, 1, 2000)
"""

import re
from typing import Final, TypeAlias

from moorage.common.caches import cached
from moorage.common.errors import QuantityError

Quantity: TypeAlias = str | int | float
ResourceList: TypeAlias = dict[str, Quantity]

NANO: Final = 10**9
MAX_INT64: Final = 2**63 - 1
MIN_INT64: Final = -(2**63)
MAX_LENGTH: Final = 128
"""Kubernetes accepts any number of digits. Quantities are cached here, so their length is limited."""

_GRAMMAR: Final = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?(?:([numkMGTPE]|[KMGTPE]i)|[eE]([+-]?\d+))?\Z", re.ASCII)
_BINARY: Final = {suffix + "i": 1024**power for power, suffix in enumerate("KMGTPE", start=1)}
_PLAIN: Final = re.compile(r"(\d{1,6})(m|[KMG]i|)\Z", re.ASCII)
_PLAIN_FACTORS: Final[dict[str, int]] = {
    "": NANO,
    "m": 10**6,
    **{suffix: NANO * _BINARY[suffix] for suffix in ("Ki", "Mi", "Gi")},
}
_DECIMAL: Final = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@cached(2048)
def nano_value(quantity: Quantity) -> int:
    """Return the quantity in billionths, the smallest unit of Kubernetes. Smaller parts are rounded away from zero."""
    text = quantity if isinstance(quantity, str) else _format_number(quantity)
    if (plain := _PLAIN.match(text)) is not None and not isinstance(quantity, bool):
        # Fast path for the usual form: every pod with a unique shape has two quantities that are not cached.
        return int(plain[1]) * _PLAIN_FACTORS[plain[2]]
    match = _GRAMMAR.match(text) if len(text) <= MAX_LENGTH else None
    if match is None or not (match[2] or match[3]) or isinstance(quantity, bool):
        hint = "write a number with an optional suffix, like 500m, 2, 1.5Gi or 1e3"
        raise QuantityError(f"{text[:MAX_LENGTH]!r} is not a quantity; {hint}")
    sign, integer, fraction, suffix, exponent = match.groups()
    fraction = fraction or ""
    digits = int((integer + fraction) or "0") * _BINARY.get(suffix or "", 1)
    power = 9 - len(fraction) + (int(exponent) if exponent else _DECIMAL.get(suffix or "", 0))
    # An absurd exponent must cost a comparison, not the memory for a billion digits.
    power = max(min(power, 60), -len(str(digits)) - 1)
    magnitude: int = digits * 10**power if power >= 0 else -(-digits // 10**-power)
    if sign == "-" and suffix not in _BINARY:
        return max(-magnitude, MIN_INT64 * NANO)
    magnitude = min(magnitude, MAX_INT64 * NANO)
    return -magnitude if sign == "-" else magnitude


def _format_number(number: float) -> str:
    """Write a number as text, unless it has more digits than any quantity."""
    if isinstance(number, int) and number.bit_length() > 4 * MAX_LENGTH:
        return "a number without end"
    return repr(number)


def milli_value(quantity: Quantity) -> int:
    """Return thousandths, rounded up: the unit of CPU."""
    return nano_to_milli(nano_value(quantity))


def unit_value(quantity: Quantity) -> int:
    """Return whole units, rounded up: the unit of all resources except CPU."""
    return nano_to_unit(nano_value(quantity))


def nano_to_milli(nano: int) -> int:
    """Round billionths up to thousandths, away from zero, limited to the range of int64."""
    return _clip(-(-nano // 10**6) if nano >= 0 else nano // 10**6)


def nano_to_unit(nano: int) -> int:
    """Round billionths up to whole units, away from zero, limited to the range of int64."""
    return _clip(-(-nano // NANO) if nano >= 0 else nano // NANO)


def _clip(amount: int) -> int:
    return amount if MIN_INT64 <= amount <= MAX_INT64 else MAX_INT64 if amount > 0 else MIN_INT64


def canonical(quantity: Quantity, *, in_millis: bool = False) -> str:
    """Write a quantity as the API server encodes it. ``in_millis`` rounds it up to thousandths before.

    >>> canonical("1000m"), canonical(0.5), canonical("1024Mi"), canonical("2000"), canonical("1e4")
    ('1', '500m', '1Gi', '2k', '10e3')
    """
    nano, text = nano_value(quantity), str(quantity)
    if in_millis and nano % 10**6:
        nano = milli_value(quantity) * 10**6
    if text.endswith("i") and abs(nano) >= 1024 * NANO:
        return format_nanos(nano, is_binary=True)
    plain = format_nanos(nano, is_binary=False)
    if not isinstance(quantity, str) or "e" not in text.lower().removesuffix("e"):
        return plain
    number, suffix = (plain[:-1], plain[-1]) if plain[-1] in _DECIMAL else (plain, "")
    return f"{number}e{_DECIMAL[suffix]}" if suffix else number


def format_nanos(nano: int, *, is_binary: bool) -> str:
    """Write billionths as a quantity, with the largest suffix that leaves a whole number.

    >>> format_nanos(1500 * 10**6, is_binary=False), format_nanos(2**31 * NANO, is_binary=True)
    ('1500m', '2Gi')
    """
    units, remainder = divmod(nano, NANO)
    if not nano:
        return "0"
    if is_binary and not remainder:
        suffixes = (suffix for suffix, factor in reversed(_BINARY.items()) if not units % factor)
        suffix = next(suffixes, "")
        return f"{units // _BINARY.get(suffix, 1)}{suffix}"
    powers = sorted(((power + 9, suffix) for suffix, power in (*_DECIMAL.items(), ("", 0))), reverse=True)
    power, suffix = next((power, suffix) for power, suffix in powers if not nano % 10**power)
    return f"{nano // 10**power}{suffix}"
