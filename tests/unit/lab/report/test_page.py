"""The HTML report: structure, escaping and the summary."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.support.lab import EXPERIMENT

from moorage.cli.main import run as moorage
from moorage.lab.experiment import LoadedExperiment, load_experiment
from moorage.lab.report.page import (
    arrival_cells,
    arrivals_as_html,
    arrivals_as_text,
    measures_as_latex,
    report_page,
)
from moorage.lab.results import run_here
from moorage.lab.trial import PointRow, TrialResult, TrialRow


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedExperiment:
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return load_experiment(tmp_path / "small.yaml")


def test_command_writes_rows_and_a_self_contained_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT)
    assert moorage(["lab", "run", str(path), "--workers", "1", "-q"]) == 0
    assert "4 of 4 trials" in capsys.readouterr().out
    page = (tmp_path / "small-results" / "report.html").read_text()
    outside = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?(?:https?:)?//', page)
    assert outside == []
    assert "<script" not in page
    assert page.count("<svg") >= 6
    for heading in ("Compared with default", "Pareto", "Pods with other results", "pack", "Energy"):
        assert heading in page
    for opened in ("table", "section", "figure", "svg", "details", "ul"):
        assert len(re.findall(rf"<{opened}[ >]", page)) == page.count(f"</{opened}>")


def test_report_escapes_names_and_lists_failures(loaded: LoadedExperiment) -> None:
    results = [result for _, result in run_here(list(loaded.trials())[:2])]
    row = results[0].trial
    bad = TrialResult(TrialRow(row.trace, row.cluster, "<b>evil", row.seed, error="plugin <X> failed"))
    page = report_page(loaded.experiment, [*results, bad])
    assert "&lt;b&gt;evil" in page
    assert "plugin &lt;X&gt; failed" in page


@pytest.mark.parametrize(
    ("costs", "repeats", "message"),
    [
        (
            (60.0, 62.0, 64.0),
            2,
            "Better than default, and not significantly worse in any measure: <b>pack</b> (Cost of nodes in use: 38.00",
        ),
        ((140.0, 142.0, 144.0), 2, "Worse than default: <b>pack</b> (Cost of nodes in use: 42.00 or 42% more)"),
        ((99.0, 100.0, 101.0), 2, "No significant difference from default with 6 seeds: <b>pack</b>."),
        ((60.0, 62.0, 64.0), 1, "No significant difference from default with 3 seeds: <b>pack</b>."),
    ],
)
def test_report_begins_with_the_better_policy(
    loaded: LoadedExperiment, costs: tuple[float, float, float], repeats: int, message: str
) -> None:
    by_name = {"default": (100.0,) * 3 * repeats, "pack": costs * repeats}
    rows = [
        TrialResult(TrialRow("mixed", "c", name, seed, 5, 5, 0, {"cost.used": cost}))
        for name, paid in by_name.items()
        for seed, cost in enumerate(paid)
    ]
    page = report_page(loaded.experiment, rows)
    assert message in page
    assert ("3 seeds are not enough" in page) is (repeats == 1)
    assert page.index("Summary") < page.index("Compared with") < page.index("All measures")


def test_cluster_without_gpus_has_no_gpu_table() -> None:
    row = TrialRow("t", "c", "default", 1, 5, 5, 0, {"allocation.cpu": 1.0})
    at = {"nodes": 1, "running": 5, "waiting": 0, "cpu": 1.0, "memory": 1.0, "gpu": 0.0}
    points = tuple(PointRow("t", "c", "default", 1, at=share, asked=share / 100, **at) for share in range(1, 131))
    assert list(arrivals_as_text([TrialResult(row, points)])) == []
    with_gpus = tuple(replace(point, fragmentation=0.5) for point in points)
    assert len(list(arrivals_as_text([TrialResult(row, with_gpus)]))) == 3


def make_result(trace: str, name: str, seed: int, gpu: float, fragmentation: float, most: int = 130) -> TrialResult:
    """Make a trial with allocation and fragmentation that grow with the requested share."""
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
        "GPUs allocated in %, one seed, when 100% / 130% of them are requested",
        "                      p            q",
        "t           50.00/65.00            –",
        "u                     –  25.00/32.50",
    ]
    html = arrivals_as_html(results)
    assert "<tr><th>t</th><td><b>50.00 / 65.00</b></td><td>–</td></tr>" in html
    assert "<tr><th>u, 40%</th><td>–</td><td>4.0</td></tr>" in html
    assert arrivals_as_html([]) == ""


def test_clusters_are_named_if_there_are_several() -> None:
    result = make_result("t", "p", 1, 0.005, 0.0)
    other = TrialResult(replace(result.trial, cluster="d"), result.points)
    assert [line.split("  ")[0] for line in arrivals_as_text([result, other])][2:] == ["t on c", "t on d"]


def test_fixed_trace_is_reported_with_one_seed_and_without_bands(tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text('{"name":"a","runs":60,"cpuMilli":1000}\n{"name":"b","arrives":30}\n')
    path = tmp_path / "fixed.yaml"
    path.write_text(
        "name: fixed\ntraces: [{file: trace.jsonl}]\nseeds: 3\n"
        "clusters: [{name: c, pools: [{name: p, count: 1, cpu: 4, memory: 4Gi}]}]\nconfigurations: [{name: default}]\n"
    )
    assert moorage(["lab", "run", str(path), "--workers", "1", "-q"]) == 0
    page = (tmp_path / "fixed-results" / "report.html").read_text()
    assert "<b>1</b> seed<" in page
    assert "Median of all seeds" not in page


def test_latex_has_captions_directions_intervals_and_significance(loaded: LoadedExperiment) -> None:
    def result(name: str, seed: int, cpu: float, wait: float) -> TrialResult:
        return TrialResult(TrialRow("t_1", "c", name, seed, measures={"allocation.cpu": cpu, "wait.p50": wait}))

    results = [
        trial
        for seed in range(6)
        for trial in (
            result("default", seed, 0.5, 60.0 + 2 * seed),
            result("pack", seed, 0.6 + seed / 100, 90.0 + 2 * seed),
        )
    ]
    latex = measures_as_latex(loaded.experiment, results)
    assert r"\caption{t\_1 on c. Median of 6 seeds and its 95\% bootstrap interval." in latex
    assert r"Bold: significantly better than default; italic: worse." in latex
    assert r"CPU allocated $\uparrow$ & 50.0\% & \textbf{62.5\%} \\" in latex
    assert r" &  & {\scriptsize 60.5--64.5\%} \\" in latex
    assert r"Waiting, median $\downarrow$ & 1m5s & \textit{1m35s} \\" in latex
    for opened in ("table*", "tabular"):
        assert latex.count(f"\\begin{{{opened}}}") == latex.count(f"\\end{{{opened}}}") == 1


def test_measure_without_visible_differences_has_no_chart(loaded: LoadedExperiment) -> None:
    def page(*cpu: float) -> str:
        rows = (
            TrialRow("t", "c", name, 1, measures={"allocation.cpu": share})
            for name, share in zip("ab", cpu, strict=True)
        )
        names = [replace(loaded.experiment.configurations[0], name=name) for name in "ab"]
        experiment = replace(loaded.experiment, configurations=tuple(names), baseline="a")
        return report_page(experiment, [TrialResult(row) for row in rows])

    chart = "<figcaption>CPU allocated</figcaption>"
    assert chart in page(0.5, 0.6)
    assert chart not in page(0.5, 0.50001)
