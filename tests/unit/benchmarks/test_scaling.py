"""The benchmark of growth fills clusters of the requested size, and finds steps that are worse than linear."""

import asyncio
from typing import Any

import pytest
from benchmarks import scaling


def row(sweep: str, size: int, microseconds: float) -> dict[str, Any]:
    return {"sweep": sweep, "size": size, "us_per_pod": microseconds}


def test_growth_is_the_exponent_between_sizes_of_one_sweep() -> None:
    rows = [row("shapes", 10, 50.0), row("shapes", 100, 50.0), row("shapes", 1000, 5000.0), row("gates", 1, 70.0)]
    scaling.with_growth(rows)
    assert [each["growth"] for each in rows] == [None, 0.0, 2.0, None]


@pytest.mark.parametrize("sweep", ["shapes", "gates", "groups"])
def test_waiting_pods_wait_and_other_pods_are_bound(sweep: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scaling, "FIXED_NODES", 10)
    monkeypatch.setattr(scaling, "BATCHES", 1)
    monkeypatch.setattr(scaling, "freeze_gc", lambda: None)
    measured = asyncio.run(scaling.measured(sweep, 3))
    assert measured["size"] == 3
    assert measured["us_per_pod"] > 0
