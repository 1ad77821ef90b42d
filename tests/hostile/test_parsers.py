"""The fuzz targets accept valid input, reject mutated input with their own errors, and notice others."""

import pytest

from tests.hostile.parsers import TARGETS, Target, problems_of


@pytest.mark.parametrize("name", TARGETS)
def test_parser_survives_mutated_input(name: str) -> None:
    count, problems = problems_of(name, TARGETS[name], "1", 0.1)
    assert count > 0
    assert problems == []


def test_unexpected_exception_is_reported_with_its_input() -> None:
    _, problems = problems_of("text", Target(bytes.decode, [b"abc"]), "1", 1.0)
    assert problems
    assert all("UnicodeDecodeError" in problem and "b'" in problem for problem in problems)
