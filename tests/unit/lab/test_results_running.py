"""Running of experiments: repeated, interrupted and parallel trials."""

from pathlib import Path

import pytest
from tests.support.lab import EXPERIMENT

from moorage.lab.experiment import LoadedExperiment, load_experiment
from moorage.lab.results import Results, run_experiment, run_here, run_on_cores


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
    assert len(ran) == 5, "an incomplete file does not count as finished"
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
