"""`moorage scheduler` up to the point where it would talk to a cluster."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from moorage.cli.main import run

MASTER = "--master=http://127.0.0.1:1"


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scheduler", "--help"]) == 0
    assert "Leader election flags:" in capsys.readouterr().out
    assert run(["scheduler", "--version"]) == 0
    assert capsys.readouterr().out.startswith("moorage ")
    assert run(["scheduler", "--version=raw"]) == 0
    assert json.loads(capsys.readouterr().out)["minor"] == "37"


def test_the_completed_configuration_is_written(tmp_path: Path) -> None:
    path = tmp_path / "out.yaml"
    assert run(["scheduler", f"--write-config-to={path}", "--leader-elect=false"]) == 0
    assert "leaderElect: false" in path.read_text()


MISTAKES = {
    "an unknown flag": (["--confg=x"], "unknown flag: --confg"),
    "a word": (["start"], '"kube-scheduler" does not take any arguments, got ["start"]'),
    "a place that cannot be written": (["--write-config-to=/nowhere/x"], "/nowhere/x: the file cannot be written"),
}


@pytest.mark.parametrize(("arguments", "message"), MISTAKES.values(), ids=MISTAKES)
def test_invalid_flag_is_one_message(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["scheduler", *arguments]) == 1, "kube-scheduler's exit code"
    errors = capsys.readouterr().err
    assert message in errors
    assert "Traceback" not in errors


LATER_MISTAKES = {
    "a gate that there is not": (["--feature-gates=NoSuchGate=true"], "NoSuchGate"),
    "a file that is not there": (["--config=/nowhere/config.yaml"], "/nowhere/config.yaml"),
    "a plugin that is not there": (["--plugin=nowhere_at_all:X"], "nowhere_at_all"),
    "a port that cannot be had": (["--secure-port=1", "--bind-address=192.0.2.1", MASTER], "cannot listen"),
}


@pytest.mark.parametrize(("arguments", "message"), LATER_MISTAKES.values(), ids=LATER_MISTAKES)
def test_mistake_with_two_processes_is_one_message(arguments: list[str], message: str) -> None:
    program = [sys.executable, "-c", "from moorage.cli.main import main; main()", "scheduler", *arguments]
    ran = subprocess.run(program, capture_output=True, text=True, check=False, timeout=120)
    assert ran.returncode == 1
    assert ran.stderr.count("error: ") == 1
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
