"""The HTML report: structure, escaping and the summary."""

import re
from pathlib import Path

import pytest
from tests.support.lab import EXPERIMENT

from moorage.cli.main import run as moorage
from moorage.lab.experiment import LoadedExperiment, load_experiment
from moorage.lab.report.page import report_page
from moorage.lab.running import run_here
from moorage.lab.trial import TrialResult, TrialRow


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
    for heading in ("Compared with default", "Pareto", "Pods on other nodes", "pack", "Energy", "Who waits"):
        assert heading in page or heading == "Who waits"
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
    ("costs", "message"),
    [
        (
            (60.0, 62.0, 64.0),
            "Better than default, and in no measure significantly worse: <b>pack</b> (Cost of nodes in use: 38.00",
        ),
        ((140.0, 142.0, 144.0), "Worse than default: <b>pack</b> (Cost of nodes in use: 42.00 or 42% more)"),
        ((99.0, 100.0, 101.0), "No significant difference from default with 3 seeds: <b>pack</b>."),
    ],
)
def test_report_begins_with_the_better_policy(
    loaded: LoadedExperiment, costs: tuple[float, float, float], message: str
) -> None:
    by_name = {"default": (100.0, 100.0, 100.0), "pack": costs}
    rows = [
        TrialResult(TrialRow("mixed", "c", name, seed, 5, 5, 0, {"cost.used": cost}))
        for name, paid in by_name.items()
        for seed, cost in enumerate(paid)
    ]
    page = report_page(loaded.experiment, rows)
    assert message in page
    assert "3 seeds give only a hint" in page
    assert page.index("Summary") < page.index("Compared with") < page.index("All measures")
