"""Whole experiments: repeated and skipped trials, error messages, and the report."""

import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from tests.support.lab import EXPERIMENT

from moorage.cli.main import run as moorage
from moorage.common.errors import InputError
from moorage.lab.experiment import LoadedExperiment, load_experiment
from moorage.lab.report.arrivals import arrivals_as_text
from moorage.lab.report.page import report_page
from moorage.lab.results import Results
from moorage.lab.rows import PointRow, TrialResult, TrialRow
from moorage.lab.running import run_experiment, run_here, run_on_cores
from moorage.lab.trial import Trial


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedExperiment:
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return load_experiment(tmp_path / "small.yaml")


def test_rerun_runs_only_missing_trials_and_gives_the_same_bytes(loaded: LoadedExperiment, tmp_path: Path) -> None:
    ran: list[str] = []

    def counting(trials):
        for trial, result in run_here(trials):
            ran.append(str(trial.id))
            yield trial, result

    first = Results(tmp_path / "first")
    rows = run_experiment(loaded, first, counting)
    first.combine(rows)
    assert len(ran) == len(rows) == 4
    assert len((tmp_path / "first" / "pods.jsonl").read_bytes().splitlines()) == 120, "rows of all seeds"
    assert run_experiment(loaded, first, counting) == rows
    assert len(ran) == 4
    damaged = sorted((tmp_path / "first" / "trials").iterdir())[1]
    damaged.write_bytes(damaged.read_bytes()[:100])
    assert run_experiment(loaded, first, counting) == rows
    assert len(ran) == 5, "a file that was cut off is not taken for done"
    second = Results(tmp_path / "second")
    second.combine(run_experiment(loaded, second, run_here))
    for name in ("trials.jsonl", "points.jsonl", "pods.jsonl"):
        assert (tmp_path / "second" / name).read_bytes() == (tmp_path / "first" / name).read_bytes()


def test_processes_give_the_same_rows(loaded: LoadedExperiment, tmp_path: Path) -> None:
    here = run_experiment(loaded, Results(tmp_path / "here"), run_here)
    cores = run_experiment(loaded, Results(tmp_path / "cores"), lambda trials: run_on_cores(trials, 2))
    assert cores == here


def test_stopped_experiment_keeps_finished_trials(loaded: LoadedExperiment, tmp_path: Path) -> None:
    def stopped(trials):
        for index, pair in enumerate(run_here(trials)):
            if index == 2:
                raise KeyboardInterrupt
            yield pair

    results = Results(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        run_experiment(loaded, results, stopped)
    assert len(list((tmp_path / "out" / "trials").iterdir())) == 2


def test_full_disk_is_reported_and_keeps_finished_results(
    loaded: LoadedExperiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = Results(tmp_path / "out")
    opened, parts = Path.open, []

    def full(self: Path, mode: str = "r", *args: Any, **kwargs: Any) -> Any:
        if mode == "wb":
            parts.append(self)
            if len(parts) == 2:
                return opened(Path("/dev/full"), mode, *args, **kwargs)
        return opened(self, mode, *args, **kwargs)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(InputError, match="No space left on device") as caught:
        run_experiment(loaded, results, run_here)
    assert "free disk space, and run the same command again" in str(caught.value)
    assert len(list((tmp_path / "out" / "trials").iterdir())) == 1, "half a file is none"


def test_other_conditions_are_other_trials(loaded: LoadedExperiment, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    trial = next(loaded.trials())
    again = Trial(trial.trace, trial.cluster, trial.policy, trial.seed + 1, trial.conditions)
    assert results.path_of(trial) == results.path_of(next(loaded.trials()))
    assert results.path_of(trial) != results.path_of(again)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (("preset: mixed", "preset: mixd"), "did you mean 'mixed'"),
        (("seeds: 2", "seeds: 0"), "seeds"),
        (("seeds: 2", "sedes: 2"), "sedes"),
        (("name: pack", "name: default"), "two are named 'default'"),
        (("seeds: 2", "baseline: nobody"), "no configuration is named 'nobody'"),
        (("enabled: [GpuShare]}", "enabled: [GpuSahre]}"), "GpuSahre"),
        (("{preset: mixed, pods: 30}", "{file: missing.jsonl}"), "file not found"),
        (("{preset: mixed, pods: 30}", "{}"), "a file or a preset"),
        (("preset: mixed, pods: 30", "preset: mixed, pods: -3"), "traces[0].pods"),
        (("seeds: 2", "options: {nodeFailures: {meanSecondsBetween: 0}}"), "meanSecondsBetween"),
        (("seeds: 2", "options: {horizon: -1}"), "options.horizon"),
    ],
)
def test_a_bad_experiment_is_one_message(
    change: tuple[str, str], told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(EXPERIMENT.replace(*change))
    assert moorage(["lab", "run", str(path), "--workers", "1"]) == 2
    message = capsys.readouterr().err
    assert told in message
    assert "Traceback" not in message


def test_the_command_writes_rows_and_a_report_that_needs_nothing_else(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "small.yaml"
    path.write_text(EXPERIMENT)
    assert moorage(["lab", "run", str(path), "--workers", "1", "-q"]) == 0
    assert "4 of 4 trials" in capsys.readouterr().out
    page = (tmp_path / "small-results" / "report.html").read_text()
    outside = re.findall(r'(?:src|href|url)\s*[=(]\s*["\']?(?:https?:)?//', page)
    assert outside == []
    assert "<script" not in page
    assert page.count("<svg") >= 6
    for heading in ("Compared with default", "Pareto", "Which pods went elsewhere", "pack", "Energy", "Who waits"):
        assert heading in page or heading == "Who waits"
    for opened in ("table", "section", "figure", "svg", "details", "ul"):
        assert len(re.findall(rf"<{opened}[ >]", page)) == page.count(f"</{opened}>")


def test_a_report_escapes_names_and_lists_failures(loaded: LoadedExperiment) -> None:
    results = [result for _, result in run_here(list(loaded.trials())[:2])]
    row = results[0].trial
    bad = TrialResult(TrialRow(row.trace, row.cluster, "<b>evil", row.seed, error="plugin <X> failed"))
    page = report_page(loaded.experiment, [*results, bad])
    assert "&lt;b&gt;evil" in page
    assert "plugin &lt;X&gt; failed" in page


@pytest.mark.parametrize(
    ("costs", "told"),
    [
        (
            (60.0, 62.0, 64.0),
            "Better than default, and surely worse in nothing: <b>pack</b> (Cost of nodes in use: 38.00",
        ),
        ((140.0, 142.0, 144.0), "Worse than default: <b>pack</b> (Cost of nodes in use: 42.00 or 42% more)"),
        ((99.0, 100.0, 101.0), "No difference from default that 3 seeds can show: <b>pack</b>."),
    ],
)
def test_report_begins_with_the_better_policy(
    loaded: LoadedExperiment, costs: tuple[float, float, float], told: str
) -> None:
    by_name = {"default": (100.0, 100.0, 100.0), "pack": costs}
    rows = [
        TrialResult(TrialRow("mixed", "c", name, seed, 5, 5, 0, {"cost.used": cost}))
        for name, paid in by_name.items()
        for seed, cost in enumerate(paid)
    ]
    page = report_page(loaded.experiment, rows)
    assert told in page
    assert "3 seeds are few: take this as a hint" in page
    assert page.index("In short") < page.index("Compared with") < page.index("All measures")


def test_a_cluster_without_gpus_has_no_table_of_gpus() -> None:
    row = TrialRow("t", "c", "default", 1, 5, 5, 0, {"allocation.cpu": 1.0})
    at = {"nodes": 1, "running": 5, "waiting": 0, "cpu": 1.0, "memory": 1.0, "gpu": 0.0}
    points = tuple(PointRow("t", "c", "default", 1, at=share, asked=share / 100, **at) for share in range(1, 131))
    assert list(arrivals_as_text([TrialResult(row, points)])) == []
    with_gpus = tuple(replace(point, fragmentation=0.5) for point in points)
    assert len(list(arrivals_as_text([TrialResult(row, with_gpus)]))) == 3


def test_traces_are_generated_and_imported_by_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.jsonl"
    assert moorage(["lab", "generate", "--preset", "web", "--pods", "8", "-o", str(out)]) == 0
    assert "8 pods" in capsys.readouterr().out
    (tmp_path / "p.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,12000,16384,1,1000\n")
    (tmp_path / "n.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn-0,96000,786432,8,G2\n")
    files = ["--nodes", str(tmp_path / "n.csv"), "--pods", str(tmp_path / "p.csv")]
    assert moorage(["lab", "import", "openb", *files, "-o", str(out)]) == 0
    assert "1 pods, which request 1 GPUs" in capsys.readouterr().out
    assert (tmp_path / "t-nodes.csv").exists()
