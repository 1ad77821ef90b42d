"""Tables of allocation by requested share."""

import pytest
from msgspec.structs import replace

from moorage.lab.report.arrivals import arrival_cells, arrivals_as_html, arrivals_as_text
from moorage.lab.trial import PointRow, TrialResult, TrialRow


def test_cluster_without_gpus_has_no_gpu_table() -> None:
    row = TrialRow("t", "c", "default", 1, 5, 5, 0, {"allocation.cpu": 1.0})
    at = {"nodes": 1, "running": 5, "waiting": 0, "cpu": 1.0, "memory": 1.0, "gpu": 0.0}
    points = tuple(PointRow("t", "c", "default", 1, at=share, asked=share / 100, **at) for share in range(1, 131))
    assert list(arrivals_as_text([TrialResult(row, points)])) == []
    with_gpus = tuple(replace(point, fragmentation=0.5) for point in points)
    assert len(list(arrivals_as_text([TrialResult(row, with_gpus)]))) == 3


def make_result(trace: str, name: str, seed: int, gpu: float, fragmentation: float, most: int = 130) -> TrialResult:
    """Make a trial whose allocation and fragmentation grow with the requested share."""
    points = tuple(
        PointRow(
            trace, "c", name, seed, percent, percent / 100, 1, 0, 0, 0.0, 0.0, gpu * percent, fragmentation * percent
        )
        for percent in range(1, most + 1)
    )
    return TrialResult(TrialRow(trace, "c", name, seed), points)


def test_cells_are_means_over_the_seeds_at_the_first_point_of_each_share() -> None:
    results = [make_result("t", "p", 1, 0.001, 0.002), make_result("t", "p", 2, 0.003, 0.004)]
    cell = arrival_cells(results)["t", "c"]["p"]
    assert cell.allocated == (pytest.approx(20.0), pytest.approx(26.0))
    assert cell.deviation == pytest.approx((39.0 - 13.0) / 2**0.5)
    assert cell.fragmented == tuple(pytest.approx(100 * 0.003 * percent) for percent in (40, 60, 80, 90, 100))
    assert cell.seeds == 2


def test_cell_needs_all_seeds_up_to_the_last_share() -> None:
    complete, short = make_result("t", "p", 1, 0.001, 0.0), make_result("t", "p", 2, 0.001, 0.0, most=129)
    assert arrival_cells([complete, short]) == {}
    assert arrival_cells([complete])["t", "c"]["p"].deviation == 0.0
    failed = TrialResult(TrialRow("t", "c", "failed", 1, error="failed"), complete.points)
    assert list(arrival_cells([complete, failed])["t", "c"]) == ["p"]


def test_table_has_a_row_for_each_trace_and_a_column_for_each_policy() -> None:
    results = [make_result("t", "p", 1, 0.005, 0.0), make_result("u", "q", 1, 0.0025, 0.001)]
    assert list(arrivals_as_text(results)) == [
        "GPUs allocated in %, mean of 1 seeds, when 100% / 130% of them are requested",
        "                      p            q",
        "t           50.00/65.00            –",
        "u                     –  25.00/32.50",
    ]
    html = arrivals_as_html(results)
    assert "<tr><th>t</th><td><b>50.00 / 65.00</b><small>± 0.00</small></td><td>–</td></tr>" in html
    assert "<tr><th>u, 40%</th><td>–</td><td>4.0</td></tr>" in html
    assert arrivals_as_html([]) == ""


def test_clusters_are_named_if_there_are_several() -> None:
    result = make_result("t", "p", 1, 0.005, 0.0)
    other = TrialResult(replace(result.trial, cluster="d"), result.points)
    assert [line.split("  ")[0] for line in arrivals_as_text([result, other])][2:] == ["t on c", "t on d"]
