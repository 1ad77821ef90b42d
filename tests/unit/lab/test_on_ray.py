"""Trials on Ray: the same rows as on one machine, byte by byte, also when a worker is lost."""

import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.common.errors import InputError
from moorage.lab.experiment import load_experiment
from moorage.lab.on_ray import connect_to_ray
from moorage.lab.results import Results, RunTrials, run_experiment, run_here

NEEDS_RAY = "needs Ray: pip install 'moorage[ray]', or make ray"
PLUGIN = "tests.support.dying_plugin:DiesOnce"


def rows(experiment: Path, directory: Path, run: RunTrials) -> dict[str, bytes]:
    """Run an experiment, and return every file that it leaves."""
    results = Results(directory)
    results.combine(run_experiment(load_experiment(experiment), results, run))
    return {str(path.relative_to(directory)): path.read_bytes() for path in directory.rglob("*.json*")}


# Ray leaves sockets and files to the garbage collector.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_rows_equal_local_rows_after_losing_a_worker(tmp_path: Path) -> None:
    if find_spec("ray") is None:  # not imported here: it looks at its environment when it is
        pytest.skip(NEEDS_RAY)
    mark = tmp_path / "it died"
    dying = {"name": "dies", "enabled": ["DiesOnce"], "plugins": [PLUGIN], "args": {"DiesOnce": {"mark": str(mark)}}}
    experiment: dict[str, Any] = {
        "name": "lost",
        "traces": [{"preset": "batch", "pods": 20}],
        "clusters": [{"name": "c", "pools": [{"name": "p", "count": 4, "cpu": 16, "memory": "64Gi"}]}],
        "configurations": [{"name": "default"}, dying],
        "seeds": 2,
    }
    path = tmp_path / "experiment.yaml"
    path.write_text(yaml.safe_dump(experiment))
    with connect_to_ray(workers=2) as run:
        on_ray = rows(path, tmp_path / "ray", run)
    assert mark.exists(), "no worker was lost"
    assert on_ray == rows(path, tmp_path / "here", run_here)
    assert len(on_ray) == 4 + 4


def test_missing_ray_reports_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'moorage\[ray\]'"), connect_to_ray():
        pass
