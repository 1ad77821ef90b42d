"""`moorage up` as users run it: in a separate process."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from moorage.cli import main
from moorage.cli.up.running import KubeconfigFile, check_overwritable
from moorage.common.errors import InputError

SHOP = Path(__file__).parents[2] / "examples" / "workloads" / "shop.yaml"
COMMAND = (sys.executable, "-c", "from moorage.cli.main import main; main()", "up")
ENOUGH = 90.0


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run((*COMMAND, *arguments), capture_output=True, text=True, timeout=ENOUGH, check=False)


def test_bounded_run_places_a_workload_and_exits(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    result = run("--nodes", "10", "-f", str(SHOP), "--for", "6s", "--kubeconfig", str(file))
    assert result.returncode == 0, result.stderr
    assert str(file) in result.stdout
    assert "pods scheduled" in result.stdout
    assert "(e.g. shop/model-server): 0/10 nodes are available: 10 Insufficient cpu" in result.stdout
    assert not file.exists(), "the kubeconfig is removed"


def test_interrupt_stops_the_cluster(tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    arguments = (*COMMAND, "--nodes", "2", "--kubeconfig", str(file))
    with subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while not running.stdout.readline().startswith("nodes 2/2 ready"):
            assert running.poll() is None
        assert file.stat().st_mode & 0o077 == 0, "it contains a token"
        assert yaml.safe_load(file.read_text())["current-context"] == "moorage"
        os.kill(running.pid, signal.SIGINT)
        _, errors = running.communicate(timeout=ENOUGH)
        assert (running.returncode, errors) == (0, "")


BAD = {
    "an invalid shape": (("--shape", "cpu:8"), "use a form such as cpu=8"),
    "an invalid duration": (("--for", "soon"), "use a duration such as 30s"),
    "a missing file": (("-f", "missing.yaml"), "missing.yaml: the file does not exist"),
    "an unknown plugin": (("--plugin", "missing:It"), "cannot be imported"),
    "a missing configuration": (("--config", "missing.yaml"), "the file does not exist"),
}


@pytest.mark.parametrize(("arguments", "message"), BAD.values(), ids=BAD)
def test_invalid_options_give_one_message(
    arguments: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(("up", *arguments)) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert message in errors


def test_rejected_manifest_is_reported_with_its_location(tmp_path: Path) -> None:
    file = tmp_path / "bad.yaml"
    file.write_text("apiVersion: example.org/v1\nkind: Unheard\nmetadata: {name: a}\n")
    result = run("--nodes", "0", "-f", str(file), "--for", "1s")
    assert result.returncode == 2
    assert f"{file}, document 1: the cluster does not serve Unheard in example.org/v1" in result.stderr


def test_unknown_field_is_reported_with_its_location(tmp_path: Path) -> None:
    file = tmp_path / "typo.yaml"
    file.write_text("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndta: {a: b}\n")
    result = run("--nodes", "0", "-f", str(file), "--for", "1s")
    assert result.returncode == 2
    assert f"{file}, document 1: " in result.stderr
    assert 'unknown field "dta"' in result.stderr


def test_existing_kubeconfig_is_never_overwritten(tmp_path: Path) -> None:
    file = tmp_path / "config"
    check_overwritable(file)
    file.write_text(yaml.safe_dump({"contexts": [{"name": "production"}]}))
    with pytest.raises(InputError, match="contains other clusters"):
        check_overwritable(file)
    file.write_text(yaml.safe_dump({"contexts": [{"name": "moorage"}]}))
    check_overwritable(file)


def test_written_kubeconfig_is_private(tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(yaml.safe_dump({"contexts": [{"name": "moorage"}]}))
    file.chmod(0o644)
    with KubeconfigFile({"contexts": []}, file) as path:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert yaml.safe_load(path.read_text()) == {"contexts": []}


def test_persistent_cluster_is_restored(tmp_path: Path) -> None:
    data = ("--data-dir", str(tmp_path / "data"), "--nodes", "3")
    assert run(*data, "-f", str(SHOP), "--for", "3s").returncode == 0
    again = run(*data, "--for", "3s")
    assert again.returncode == 0, again.stderr
    assert "nodes 3/3 ready" in again.stdout
    assert "shop/model-server" in again.stdout
