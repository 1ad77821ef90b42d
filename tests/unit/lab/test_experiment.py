"""Experiment files: error messages."""

from pathlib import Path

import pytest
from tests.support.lab import EXPERIMENT

from moorage.cli.main import run as moorage


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("preset: mixed", "preset: mixd"), "did you mean 'mixed'"),
        (("seeds: 2", "seeds: 0"), "seeds"),
        (("seeds: 2", "sedes: 2"), "sedes"),
        (("name: pack", "name: default"), "two are named 'default'"),
        (("seeds: 2", "baseline: missing"), "no configuration is named 'missing'"),
        (("enabled: [GpuShare]}", "enabled: [GpuSahre]}"), "GpuSahre"),
        (("{preset: mixed, pods: 30}", "{file: missing.jsonl}"), "the file does not exist"),
        (("{preset: mixed, pods: 30}", "{}"), "a file or a preset"),
        (("preset: mixed, pods: 30", "preset: mixed, pods: -3"), "traces[0].pods"),
        (("seeds: 2", "options: {nodeFailures: {meanSecondsBetween: 0}}"), "meanSecondsBetween"),
        (("seeds: 2", "options: {horizon: -1}"), "options.horizon"),
    ],
)
def test_invalid_experiment_is_reported_without_a_traceback(
    change: tuple[str, str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(EXPERIMENT.replace(*change))
    assert moorage(["lab", "run", str(path), "--workers", "1"]) == 2
    errors = capsys.readouterr().err
    assert message in errors
    assert "Traceback" not in errors
