"""Trials as an indexed Job: the manifest, the shards of its indexes, and the same rows as on one machine."""

from pathlib import Path
from typing import Any

import pytest
from tests.support.lab import EXPERIMENT

from moorage.cli.main import run as moorage
from moorage.common.errors import InputError
from moorage.lab.experiment import load_experiment
from moorage.lab.on_kubernetes import JobSettings, collect_results, make_job
from moorage.lab.results import Results, run_experiment, run_here


@pytest.fixture
def experiment(tmp_path: Path) -> Path:
    path = tmp_path / "experiment.yaml"
    path.write_text(EXPERIMENT)
    return path


def files(directory: Path) -> dict[str, bytes]:
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.json*")}


class IndexedJob:
    """Runs the command of one more index at each request of the status, as pods would."""

    def __init__(self, job: dict[str, Any]) -> None:
        (container,) = job["spec"]["template"]["spec"]["containers"]
        self.command, self.completions, self.index = container["command"], job["spec"]["completions"], 0

    def status(self) -> dict[str, Any]:
        if self.index < self.completions:
            arguments = [part.replace("$(JOB_COMPLETION_INDEX)", str(self.index)) for part in self.command[1:]]
            assert moorage(arguments) == 0
            self.index += 1
            return {"active": 1}
        return {"conditions": [{"type": "Complete", "status": "True"}]}


def test_rows_of_a_job_equal_local_rows(experiment: Path) -> None:
    out = experiment.parent / "on kubernetes"
    loaded, results = load_experiment(experiment), Results(out)
    job = make_job(JobSettings("moorage", "claim", experiment.parent, pods=3), experiment, out, len(loaded))
    simulated = IndexedJob(job)
    waits: list[float] = []
    trials = run_experiment(
        loaded, results, lambda missing: collect_results(missing, results, simulated.status, waits.append)
    )
    results.combine(trials)
    assert simulated.index == 3
    local = Results(experiment.parent / "here")
    local.combine(run_experiment(load_experiment(experiment), local, run_here))
    assert files(out) == files(local.directory)


def test_manifest_is_an_indexed_job_with_the_volume_at_the_same_path(experiment: Path) -> None:
    directory = experiment.parent
    job = make_job(JobSettings("repo/moorage:1", "data", directory, "team"), experiment, directory / "out", 40)
    assert job["metadata"]["namespace"] == "team"
    assert job["metadata"]["name"].startswith("experiment-")
    spec = job["spec"]
    assert (spec["completionMode"], spec["completions"], spec["backoffLimitPerIndex"]) == ("Indexed", 16, 3)
    (container,) = spec["template"]["spec"]["containers"]
    assert container["volumeMounts"] == [{"name": "experiment", "mountPath": str(directory.resolve())}]
    assert "$(JOB_COMPLETION_INDEX)/16" in container["command"]


def test_results_outside_the_volume_are_rejected(experiment: Path) -> None:
    settings = JobSettings("moorage", "claim", experiment.parent / "mounted")
    with pytest.raises(InputError, match="is outside of the volume"):
        make_job(settings, experiment, experiment.parent / "out", 1)


ENDS = {
    "failed": ("Failed", "the Job failed: Job has exceeded its limit"),
    "complete without files": ("Complete", "has ended without a result"),
}


@pytest.mark.parametrize("name", ENDS)
def test_job_that_ends_without_results_is_reported(experiment: Path, name: str) -> None:
    kind, problem = ENDS[name]
    condition = {"type": kind, "status": "True", "message": "Job has exceeded its limit"}
    loaded, results = load_experiment(experiment), Results(experiment.parent / "out")
    with pytest.raises(InputError, match=problem):
        list(collect_results(list(loaded.trials())[:1], results, lambda: {"conditions": [condition]}, lambda _: None))


@pytest.mark.parametrize("text", ["4/4", "a/b", "1", "-1/2", "0/0"])
def test_invalid_shard_is_rejected(experiment: Path, text: str) -> None:
    assert moorage(["lab", "run", str(experiment), f"--shard={text}"]) == 2


def test_kubernetes_needs_image_and_claim(experiment: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert moorage(["lab", "run", str(experiment), "--on", "kubernetes"]) == 2
    assert "needs --image and --claim" in capsys.readouterr().err
