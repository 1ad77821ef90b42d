"""Files of an experiment: names, write errors and Parquet."""

import json
from pathlib import Path
from typing import Any

import pytest
from tests.support.lab import EXPERIMENT

from moorage.common.errors import InputError
from moorage.lab.experiment import LoadedExperiment, load_experiment
from moorage.lab.formats import convert_to_parquet, pyarrow_or_none, read_parquet
from moorage.lab.results import Results, run_experiment, run_here
from moorage.lab.trial import Trial


@pytest.fixture
def loaded(tmp_path: Path) -> LoadedExperiment:
    (tmp_path / "small.yaml").write_text(EXPERIMENT)
    return load_experiment(tmp_path / "small.yaml")


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
    assert "free disk space, and rerun the command" in str(caught.value)
    assert len(list((tmp_path / "out" / "trials").iterdir())) == 1, "incomplete files are removed"


def test_uncreatable_directory_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot create the directory: Not a directory") as caught:
        Results(tmp_path / "file" / "out")
    assert "disk" not in str(caught.value)


def test_file_of_a_trial_depends_on_its_seed(loaded: LoadedExperiment, tmp_path: Path) -> None:
    results = Results(tmp_path / "out")
    trial = next(loaded.trials())
    another = Trial(trial.trace, trial.cluster, trial.policy, trial.seed + 1, trial.conditions)
    assert results.find_path(trial) == results.find_path(next(loaded.trials()))
    assert results.find_path(trial) != results.find_path(another)


@pytest.mark.skipif(pyarrow_or_none() is None, reason="needs pyarrow")
def test_points_with_other_tenants_in_a_later_block_become_parquet(tmp_path: Path) -> None:
    # pyarrow reads blocks of 1 MiB and cannot combine objects with different fields.
    lines, parquet = tmp_path / "points.jsonl", tmp_path / "points.parquet"
    tenants = [{"a": 0.5}] * 40_000 + [{"b": 1.0}] * 40_000
    lines.write_text("".join(f"{json.dumps({'at': n, 'tenants': share})}\n" for n, share in enumerate(tenants)))
    convert_to_parquet(lines, parquet, has_objects=True)
    last = list(read_parquet(parquet))[-1][1]
    assert last == {"at": 79_999, "tenants": {"a": None, "b": 1.0}}
