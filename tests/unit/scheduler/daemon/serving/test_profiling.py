"""Profiling pages."""

import sys

import pytest
from tests.support.page_visits import visit


@pytest.mark.parametrize(
    ("page", "text"),
    {
        "/debug/pprof/": "goroutine",
        "/debug/pprof/goroutine": " tasks",
        "/debug/pprof/heap": " objects",
        "/debug/pprof/profile?seconds=0": "function calls",
        "/debug/pprof/cmdline": sys.argv[0],
    }.items(),
)
def test_profiling(page: str, text: str) -> None:
    assert text in visit(page).text


@pytest.mark.parametrize("seconds", ["long", "nan", "-nan", "inf", "-1", "1e999", "", "9" * 5000])
def test_a_profile_of_no_number_of_seconds(seconds: str) -> None:
    assert visit(f"/debug/pprof/profile?seconds={seconds}").status == 400
