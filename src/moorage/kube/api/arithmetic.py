"""Go's arithmetic: integer division toward zero and rounding half away from zero.

Scores must equal upstream's exactly, so scoring code uses neither ``//`` on values that may be negative, nor ``round``
or ``np.round``.
"""

import math

import numpy as np

from moorage.common.arrays import NDArray


def truncated_div(numerator: int, denominator: int) -> int:
    """Divide as Go does, toward zero."""
    quotient = abs(numerator) // abs(denominator)
    return quotient if (numerator < 0) == (denominator < 0) else -quotient


def truncated_div_nodes(numerators: NDArray[np.int64], denominators: NDArray[np.int64] | int) -> NDArray[np.int64]:
    """Divide a column as Go does."""
    quotients, rests = np.divmod(numerators, denominators)
    # Not by absolute values: the lowest integer has none.
    quotients += (rests != 0) & ((numerators < 0) != np.less(denominators, 0))
    return quotients


def wrap_int64(value: int) -> int:
    """Return the value that Go's int64 has after an overflow."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def round_half_away(value: float) -> int:
    """Round as Go's ``math.Round`` does: halves go away from zero."""
    floor = math.floor(abs(value))
    # Not floor(x + 0.5): for 0.49999999999999994 the sum is already 1.0.
    magnitude = floor + 1 if abs(value) - floor >= 0.5 else floor
    return int(math.copysign(magnitude, value))


def round_half_away_nodes(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """Round a column as Go's ``math.Round`` does."""
    rounded = np.rint(values)
    # NumPy rounds halves to even. Nothing else differs, and the difference to a whole number is exact.
    if np.count_nonzero(np.abs(values - rounded) == 0.5):
        magnitudes = np.abs(values)
        floors = np.floor(magnitudes)
        rounded = np.copysign(floors + (magnitudes - floors >= 0.5), values)
    return rounded.astype(np.int64)
