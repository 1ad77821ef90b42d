"""`moorage lab` on the command line: output, rejected options, and results after Ctrl-C."""

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

# Background jobs of a shell, and their child processes, ignore Ctrl-C by default.
HANDLE_CTRL_C = (
    "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); from moorage.cli.main import main; main()"
)


def write_experiment(directory: Path, candidates: int) -> Path:
    path = directory / "packing.yaml"
    path.write_text(EXPERIMENT.format(candidates=candidates))
    return path


def test_tune_prints_its_result_and_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "tune", str(write_experiment(tmp_path, 3)), "--workers", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("3 candidates, ")
    assert lines[-1] == f"written: {tmp_path / 'packing-tuned' / 'best.yaml'}; kube-scheduler accepts it, too"


def test_address_requires_ray(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "tune", str(write_experiment(tmp_path, 3)), "--ray-address", "10.0.0.7:6379"]) == 2
    assert "add --on ray" in capsys.readouterr().err


def test_ctrl_c_keeps_the_results(tmp_path: Path) -> None:
    command = [
        sys.executable,
        "-c",
        HANDLE_CTRL_C,
        "lab",
        "tune",
        str(write_experiment(tmp_path, 1000)),
        "--workers",
        "1",
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = monotonic() + 300
        while not (tmp_path / "packing-tuned" / "best.yaml").exists():
            assert monotonic() < deadline
            assert process.poll() is None
            sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert output.splitlines()[0].endswith(" 0 failed")
    assert "best: NodeResourcesFit" in output or "best: weight of NodeResourcesFit" in output
    assert errors.endswith("interrupted; run the same command to resume\n")
    assert "Traceback" not in errors


@pytest.mark.parametrize(("sent", "workers"), [(signal.SIGTERM, "2"), (signal.SIGINT, "1")])
def test_stopped_run_keeps_finished_trials_and_prints_how_to_resume(
    tmp_path: Path, sent: signal.Signals, workers: str
) -> None:
    path = write_experiment(tmp_path, 1)
    path.write_text(path.read_text().replace("seeds: 2", "seeds: 5000").replace("pods: 20", "pods: 200"))
    command = [sys.executable, "-c", HANDLE_CTRL_C, "lab", "run", str(path), "--workers", workers]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = monotonic() + 300
        while not list((tmp_path / "packing-results/trials").glob("*.json")):
            assert monotonic() < deadline
            assert process.poll() is None
            sleep(0.05)
        process.send_signal(sent)
        _, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert " of 5000 trials are stored" in errors
    assert errors.endswith("run the same command to resume\n")
    assert "Traceback" not in errors
    rows = (tmp_path / "packing-results/trials.jsonl").read_text().splitlines()
    assert 0 < len(rows) < 5000
    assert (tmp_path / "packing-results/report.html").exists()


def write_evolve_experiment(directory: Path, generations: int) -> Path:
    path = write_experiment(directory, 1)
    plan = f"evolve: {{minimize: nodes.used, generations: {generations}, population: 2, heldOut: 2}}\n"
    path.write_text(path.read_text().partition("tune:")[0] + plan)
    return path


def test_evolve_prints_its_result(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["lab", "evolve", str(write_evolve_experiment(tmp_path, 1)), "--quiet"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "2 candidates, 0 failed"
    assert (tmp_path / "packing-evolved/lineage.txt").exists()


def test_ctrl_c_keeps_the_lineage_and_ends_running_candidates(tmp_path: Path) -> None:
    path = write_evolve_experiment(tmp_path, 500)
    (tmp_path / "propose.py").write_text(
        "import json, sys\n"
        "hang = json.load(sys.stdin)['generation'] > 0\n"
        "print('def score(pod, node):\\n    ' + ('while True: pass' if hang else 'return 1'))\n"
    )
    propose = f"{sys.executable} {tmp_path / 'propose.py'}"
    command = [sys.executable, "-c", HANDLE_CTRL_C, "lab", "evolve", str(path), "--propose", propose]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        deadline = monotonic() + 300
        lineage = tmp_path / "packing-evolved/lineage.jsonl"
        while not lineage.exists() or lineage.read_bytes().count(b"\n") < 2:
            assert monotonic() < deadline
            assert process.poll() is None, process.communicate()
            sleep(0.05)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=300)
    assert process.returncode == 130
    assert output.splitlines()[0] == "2 candidates, 0 failed"
    assert errors.endswith("interrupted; run the same command to resume\n")
    assert "Traceback" not in errors


def test_commands_generate_and_import_traces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "t.jsonl"
    assert run(["lab", "generate", "--preset", "web", "--pods", "8", "--out", str(out)]) == 0
    assert "8 pods" in capsys.readouterr().out
    (tmp_path / "p.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np-0,12000,16384,1,1000\n")
    (tmp_path / "n.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\nn-0,96000,786432,8,G2\n")
    files = ["--nodes", str(tmp_path / "n.csv"), "--pods", str(tmp_path / "p.csv")]
    assert run(["lab", "import", "openb", *files, "--out", str(out)]) == 0
    assert "1 pod requesting 1 GPU, arriving within" in capsys.readouterr().out
    assert (tmp_path / "t-nodes.csv").exists()
