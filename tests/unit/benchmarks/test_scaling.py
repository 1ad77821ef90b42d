"""The benchmark of growth fills clusters of the requested size, and finds steps that are worse than linear."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from benchmarks import scaling
from benchmarks.live import charts


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


def test_plots_show_linear_growth_as_a_diagonal(tmp_path: Path) -> None:
    rows = [row("shapes", size, 10.0 * size) | {"mib": 60.0, "reload_ms": 0.0} for size in (1, 10, 100)]
    scaling.write_plots(rows, tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {
        f"scale-{value}-numbers.svg" for value in ("cpu", "memory", "reload")
    }
    drawn = (tmp_path / "scale-cpu-numbers.svg").read_text()
    points = re.search(r'<path d="M([^"]*)" fill="none" stroke="#2f6fde"', drawn)
    assert points is not None
    (a, b), (c, d), (e, f) = (map(float, point.split()) for point in points[1].split("L"))
    assert (c - a, d - b) == pytest.approx((e - c, f - d), abs=0.2)
    assert (a, f) == (charts.MARGIN, charts.TOP), "from the left edge to the top"
