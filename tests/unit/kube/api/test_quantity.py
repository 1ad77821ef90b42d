from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from moorage.common.errors import QuantityError
from moorage.kube.api.quantity import MAX_INT64, MIN_INT64, NANO, milli_value, nano_to_unit, nano_value, unit_value

# Text, thousandths, units: as kube-scheduler's own library reads them.
GOOD: dict[str, tuple[int, int]] = {
    "0": (0, 0),
    "1": (1000, 1),
    "+1": (1000, 1),
    "00012": (12000, 12),
    "5.": (5000, 5),
    ".5": (500, 1),
    "1.5": (1500, 2),
    "1n": (1, 1),
    "1u": (1, 1),
    "100u": (1, 1),
    "1001u": (2, 1),
    "100m": (100, 1),
    "1500m": (1500, 2),
    "1k": (1_000_000, 1000),
    "1M": (10**9, 10**6),
    "1G": (10**12, 10**9),
    "1T": (10**15, 10**12),
    "1P": (10**18, 10**15),
    "1Ki": (1_024_000, 1024),
    "1.5Ki": (1_536_000, 1536),
    "1.1Ki": (1_126_400, 1127),
    "1Mi": (2**20 * 1000, 2**20),
    "1Gi": (2**30 * 1000, 2**30),
    "1Ti": (2**40 * 1000, 2**40),
    "1Pi": (2**50 * 1000, 2**50),
    "1e3": (10**6, 1000),
    "1E3": (10**6, 1000),
    "1e+3": (10**6, 1000),
    "1e-3": (1, 1),
    "1e0": (1000, 1),
    "0.0000000001": (1, 1),
    "0.9999999999": (1000, 1),
    "1.0000000001": (1001, 2),
    "-1": (-1000, -1),
    "-1.5": (-1500, -2),
    "-100u": (-1, -1),
}


@pytest.mark.parametrize(("text", "want"), GOOD.items(), ids=GOOD)
def test_text(text: str, want: tuple[int, int]) -> None:
    assert (milli_value(text), unit_value(text)) == want


NUMBERS: dict[str, tuple[Any, int]] = {
    "an integer": (2, 2000),
    "a float": (0.1, 100),
    "a float that prints with an exponent": (1e-07, 1),
    "a large float": (1e21, MAX_INT64),
}


@pytest.mark.parametrize(("number", "want"), NUMBERS.values(), ids=NUMBERS)
def test_json_numbers(number: float, want: int) -> None:
    assert milli_value(number) == want


LARGE = {
    "exa": ("1E", 10**18),
    "exbi": ("7Ei", 7 * 2**60),
    "the largest": ("9223372036854775807", MAX_INT64),
    "more than the largest is the largest": ("8Ei", MAX_INT64),
    "also in decimals": ("10E", MAX_INT64),
    "also with an absurd exponent": ("1e999999999", MAX_INT64),
    "and downward": ("-9Ei", -MAX_INT64),
    "an absurdly small one is one": ("1e-999999999", 1),
}


@pytest.mark.parametrize(("text", "want"), LARGE.values(), ids=LARGE)
def test_limits(text: str, want: int) -> None:
    assert unit_value(text) == want
    assert MIN_INT64 <= milli_value(text) <= MAX_INT64


BAD = [
    "",
    ".",
    "+",
    "m",
    "Ki",
    "1K",
    "1e",
    "1ee3",
    "1 Gi",
    "1Gi ",
    " 1",
    "1gi",
    "0x10",
    "1_0",
    "1,5",
    "1.2.3",
    "NaN",
    "1m3",
]


@pytest.mark.parametrize("text", BAD)
def test_invalid_quantity_is_rejected_with_a_hint(text: str) -> None:
    with pytest.raises(QuantityError, match=r"is not a quantity; write a number .* like 500m, 2, 1.5Gi or 1e3"):
        nano_value(text)


def test_boolean_is_not_a_quantity() -> None:
    assert nano_value(1) == 10**9
    with pytest.raises(QuantityError):
        nano_value(True)


@given(st.integers(-(10**15), 10**15))
def test_billionths_are_exact(nano: int) -> None:
    assert nano_value(f"{nano}n") == nano


@given(st.integers(0, 10**12), st.integers(0, 999_999_999))
def test_rounding_never_gives_less_than_requested(whole: int, fraction: int) -> None:
    text = f"{whole}.{fraction:09d}"
    assert unit_value(text) * NANO >= nano_value(text) > (unit_value(text) - 1) * NANO
    assert milli_value(text) * 10**6 >= nano_value(text) > (milli_value(text) - 1) * 10**6


SATURATED = {
    # Text, value and thousandths in Kubernetes 1.38; 1.37 overflows.
    "10E": (MAX_INT64, MAX_INT64),
    "1e19": (MAX_INT64, MAX_INT64),
    "1e20": (MAX_INT64, MAX_INT64),
    "1e1000": (MAX_INT64, MAX_INT64),
    "9.3E": (MAX_INT64, MAX_INT64),
    "1000E": (MAX_INT64, MAX_INT64),
    "10000E": (MAX_INT64, MAX_INT64),
    "18446744073709551616": (MAX_INT64, MAX_INT64),
    "-10E": (MIN_INT64, MIN_INT64),
    "1E": (10**18, MAX_INT64),
    "9E": (9 * 10**18, MAX_INT64),
    "1e18": (10**18, MAX_INT64),
    "999999999999999999": (10**18 - 1, MAX_INT64),
    "1000000000000000000": (10**18, MAX_INT64),
    "1234567890123456789": (1234567890123456789, MAX_INT64),
    "9223372036854775": (9223372036854775, 9223372036854775000),
    "9223372036854776": (9223372036854776, MAX_INT64),
    "9223372036854775807": (MAX_INT64, MAX_INT64),
    "9223372036854775808": (MAX_INT64, MAX_INT64),
    "9223372036854775808m": (9223372036854776, MAX_INT64),
    "8Ei": (MAX_INT64, MAX_INT64),
    "100Ei": (MAX_INT64, MAX_INT64),
    "-9223372036854775808": (MIN_INT64, MIN_INT64),
    "-9223372036854775809": (MIN_INT64, MIN_INT64),
    "-8Ei": (-MAX_INT64, MIN_INT64),
    "-9Ei": (-MAX_INT64, MIN_INT64),
    "-0.9n": (-1, -1),
    "-1000000000000000000000.5": (MIN_INT64, MIN_INT64),
    "1.5": (2, 1500),
    "-1.5": (-2, -1500),
    "0.9n": (1, 1),
    "0.1m": (1, 1),
    "1.2345": (2, 1235),
    "1.": (1, 1000),
    "1e+3": (1000, 10**6),
}


@pytest.mark.parametrize(("text", "want"), SATURATED.items(), ids=SATURATED)
def test_quantities_saturate_as_in_1_38(text: str, want: tuple[int, int]) -> None:
    assert (unit_value(text), milli_value(text)) == want


def test_sums_saturate() -> None:
    for text in ("6Ei", "10E"):
        assert nano_to_unit(nano_value(text) + nano_value(text)) == MAX_INT64
