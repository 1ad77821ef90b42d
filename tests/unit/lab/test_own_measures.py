"""Measures of users: loading, results and failures; modules next to the experiment."""

from pathlib import Path

import pytest
from tests.support.lab import EXPERIMENT

from moorage.cli.main import run as moorage
from moorage.lab.experiment import load_experiment
from moorage.lab.measuring import run_trial

MODULE = "def share(result):\n    return result.trial.placed / result.trial.pods\n"


def write(directory: Path, module: str, options: str) -> Path:
    (directory / "own_measures_of_a_test.py").write_text(module)
    path = directory / "e.yaml"
    path.write_text(f"{EXPERIMENT}options: {{measures: ['own_measures_of_a_test:{options}']}}\n")
    return path


@pytest.fixture(autouse=True)
def _forget_module(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "own_measures_of_a_test", raising=False)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return result.trial.placed / result.trial.pods", {"f": 1.0}),
        ("return {'x': 1, 'y': 2.5}", {"x": 1.0, "y": 2.5}),
    ],
)
def test_function_next_to_the_experiment_adds_measures(tmp_path: Path, body: str, expected: dict[str, float]) -> None:
    path = write(tmp_path, f"def f(result):\n    {body}\n", "f")
    trial = next(load_experiment(path).trials())
    measures = run_trial(trial).trial.measures
    assert expected.items() <= measures.items()
    assert "allocation.cpu" in measures


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 'much'", "returned 'much'"),
        ("return float('nan')", "returned nan"),
        ("return True", "returned True"),
        ("return result.nothing", "raised AttributeError"),
    ],
)
def test_failing_measure_fails_the_trial_with_its_reason(tmp_path: Path, body: str, message: str) -> None:
    path = write(tmp_path, f"def f(result):\n    {body}\n", "f")
    assert message in run_trial(next(load_experiment(path).trials())).trial.error


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        (MODULE, "shar", "did you mean 'share'"),
        (MODULE, "", "write module:function"),
        ("import nothing_of_this_name\n", "f", "ModuleNotFoundError"),
    ],
)
def test_missing_function_is_reported_before_the_first_trial(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], module: str, name: str, message: str
) -> None:
    assert moorage(["lab", "run", str(write(tmp_path, module, name)), "--workers", "1"]) == 2
    assert message in capsys.readouterr().err
