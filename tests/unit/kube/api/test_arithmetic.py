import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.kube.api.arithmetic import (
    round_half_away,
    round_half_away_nodes,
    truncated_div,
    truncated_div_nodes,
    wrap_int64,
)

DIVISIONS = {
    "exact": (6, 3, 2),
    "cut": (7, 3, 2),
    "a negative dividend is truncated toward zero": (-7, 3, -2),
    "a negative divisor, too": (7, -3, -2),
    "both": (-7, -3, 2),
    "zero": (0, -3, 0),
    "the lowest there is": (-(2**63), 2**62 - 1, -2),
}


@pytest.mark.parametrize(("numerator", "denominator", "want"), DIVISIONS.values(), ids=DIVISIONS)
def test_truncated_div(numerator: int, denominator: int, want: int) -> None:
    assert truncated_div(numerator, denominator) == want
    assert truncated_div_nodes(np.array([numerator]), np.array([denominator])).tolist() == [want]


@pytest.mark.parametrize("value", [0, 2**63 - 1, 2**63, 100 << 61, 100 << 62, -(2**63), -(2**63) - 1])
def test_int64_overflow_wraps_as_in_go(value: int) -> None:
    assert wrap_int64(value) == int(np.array([value % 2**64], dtype=np.uint64).view(np.int64)[0])


ROUNDINGS = {
    "down": (2.4, 2),
    "up": (2.6, 3),
    "halves go away from zero": (2.5, 3),
    "also from odd ones": (3.5, 4),
    "also below zero": (-2.5, -3),
    "the float just below a half": (0.49999999999999994, 0),
    "zero": (0.0, 0),
}


@pytest.mark.parametrize(("number", "want"), ROUNDINGS.values(), ids=ROUNDINGS)
def test_round_half_away(number: float, want: int) -> None:
    assert round_half_away(number) == want
    assert round_half_away_nodes(np.array([number])).tolist() == [want]


@given(st.lists(st.floats(-1e9, 1e9), min_size=1))
def test_columns_round_as_single_numbers_do(numbers: list[float]) -> None:
    assert round_half_away_nodes(np.array(numbers)).tolist() == [round_half_away(number) for number in numbers]


@given(st.integers(-(2**62), 2**62), st.integers(-(2**62), 2**62).filter(bool))
def test_the_quotient_is_cut(numerator: int, denominator: int) -> None:
    quotient = truncated_div(numerator, denominator)
    assert abs(numerator - quotient * denominator) < abs(denominator)
    assert quotient == 0 or math.copysign(1, quotient) == math.copysign(1, numerator) * math.copysign(1, denominator)
