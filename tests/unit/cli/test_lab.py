"""`moorage lab tune` on the command line: what it prints, what it refuses, and that Ctrl-C keeps what was found."""

import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest

from moorage.cli.main import run

pytest.importorskip("optuna", reason="needs Optuna: pip install 'moorage[tune]'")

EXPERIMENT = """
name: packing
traces: [{{preset: batch, pods: 20}}]
clusters: [{{name: c, pools: [{{name: p, count: 10, cpu: 8, memory: 32Gi}}]}}]
configurations: [{{name: default}}]
seeds: 2
options: {{arrivalsOnly: true, skipUnplaced: true, inflate: 0.6, podRows: false}}
tune:
  minimize: nodes.used
  candidates: {candidates}
  heldOut: 2
  args: {{NodeResourcesFit: {{scoringStrategy.type: [LeastAllocated, MostAllocated]}}}}
  weights: {{NodeResourcesFit: {{from: 1, to: 100}}, NodeResourcesBalancedAllocation: {{from: 0, to: 100}}}}
"""

# A shell that runs the tests in the background makes them and their child processes ignore Ctrl-C.
HEEDS_CTRL_C = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from moorage.cli.main import main; main()"
)


def written(folder: Path, candidates: int) -> Path:
    path = folder / "packing.yaml"
    path.write_text(EXPERIMENT.format(candidates=candidates))
    return path


def test_tune_prints_its_result_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "tune", str(written(tmp_path, 3)), "--workers", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3 candidates, ")
    assert lines[-1] == f"written: {tmp_path / 'packing-tuned' / 'best.yaml'}; kube-scheduler takes it as well"


def test_an_address_needs_ray(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "tune", str(written(tmp_path, 3)), "--ray-address", "10.0.0.7:6379"]) == 2
    assert "add --on ray" in capsys.readouterr().err


def test_ctrl_c_keeps_the_results(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HEEDS_CTRL_C, "lab", "tune", str(written(tmp_path, 1000)), "--workers", "1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = monotonic() + 60
        while not (tmp_path / "packing-tuned" / "best.yaml").exists():
            assert monotonic() < deadline
            assert process.poll() is None
            sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, noted = process.communicate(timeout=30)
    assert process.returncode == 130
    assert output.splitlines()[0].endswith(" 0 failed")
    assert "best: NodeResourcesFit" in output or "best: weight of NodeResourcesFit" in output
    assert noted.endswith("interrupted; run the same command to resume\n")
    assert "Traceback" not in noted
