"""Semantic versions: their order, their strict format, and the normalization of lax ones."""

from itertools import pairwise

import pytest

from moorage.scheduler.plugins.dynamic_resources.cel.semantic_versions import normalized, parse_version

ORDERED = [
    "0.9.9",
    "1.0.0-1",
    "1.0.0-2",
    "1.0.0-10",
    "1.0.0-alpha",
    "1.0.0-alpha.1",
    "1.0.0-alpha.beta",
    "1.0.0-beta",
    "1.0.0-beta.2",
    "1.0.0-beta.11",
    "1.0.0-rc.1",
    "1.0.0",
    "1.0.1",
    "1.2.0",
    "1.10.0",
    "2.0.0",
]


def test_versions_are_ordered_as_the_specification_says() -> None:
    for lower, higher in pairwise(ORDERED):
        assert parse_version(lower) < parse_version(higher)
        assert parse_version(higher) > parse_version(lower)
        assert parse_version(lower) != parse_version(higher)


def test_build_metadata_does_not_count() -> None:
    assert parse_version("1.2.3+a") == parse_version("1.2.3+b.7")
    assert parse_version("1.2.3-rc.1+a").tagged == {"@semver": "1.2.3-rc.1"}
    assert parse_version("1.2.3+a").tagged == {"@semver": "1.2.3"}
    assert parse_version("1.2.3") != "1.2.3"


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "v1.2.3", "01.2.3", "1.2.3-", "1.2.3-01", "1.2.3-a..b", "1.2.3 ", "1.2.3+"]
)
def test_invalid_version_is_reported(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not major\.minor\.patch"):
        parse_version(text)


NORMALIZED = {
    "a prefix": ("v1.2.3", "1.2.3"),
    "missing numbers": ("1", "1.0.0"),
    "leading zeros": ("01.002.0", "1.2.0"),
    "a suffix stays": ("v1.02.3-rc.01+b", "1.2.3-rc.01+b"),
    "an empty number stays invalid": ("1..3", "1..3"),
}


@pytest.mark.parametrize(("text", "version"), NORMALIZED.values(), ids=NORMALIZED)
def test_lax_versions_are_normalized(text: str, version: str) -> None:
    assert normalized(text) == version


def test_suffix_needs_three_numbers() -> None:
    with pytest.raises(ValueError, match="too few numbers before its suffix"):
        normalized("1.2-rc")
