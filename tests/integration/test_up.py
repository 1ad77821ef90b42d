"""`moorage up` as users run it: in a separate process."""

import json
import os
import signal
import stat
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import yaml

from moorage.cli import main
from moorage.cli.up.running import KubeconfigFile, check_overwritable
from moorage.common.errors import InputError

POOL = Path(__file__).parents[2] / "examples" / "clusters" / "pool.yaml"
NODES = ("old-1", "old-2", "new-1", "new-2")
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
    assert "1 pending, shop/model-server: 0/10 nodes are available: 10 Insufficient cpu" in result.stdout
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


def test_an_interrupted_plan_is_continued_and_ends_as_predicted(tmp_path: Path) -> None:
    kubeconfig, plan_file = str(tmp_path / "kubeconfig"), tmp_path / "plan.json"
    moorage, common = COMMAND[:-1], ("--kubeconfig", kubeconfig, "-q")

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run((*moorage, *arguments), capture_output=True, text=True, timeout=ENOUGH, check=False)

    up = (*COMMAND, "--nodes", "0", "-f", str(POOL), "--kubeconfig", kubeconfig, "--no-ui")
    with subprocess.Popen(up, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout is not None
        while "pods: 7 running" not in cluster.stdout.readline():
            assert cluster.poll() is None
        plan_file.write_text(call("plan", "drain", "-l", "pool=old", "--force", "-o", "json", *common).stdout)
        evictions = [item for step in json.loads(plan_file.read_text())["steps"] for item in step["evict"]]
        apply = ("plan", "apply", str(plan_file), "--all", *common)
        # Background jobs of a shell, and their child processes, ignore Ctrl-C by default.
        handling = f"import signal; signal.signal(signal.SIGINT, signal.default_int_handler); {moorage[-1]}"
        with subprocess.Popen(
            (*moorage[:-1], handling, *apply), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as interrupted:
            assert interrupted.stdout is not None
            assert interrupted.stdout.readline() == "step 1 of 5: done\n"
            os.kill(interrupted.pid, signal.SIGINT)
            _, errors = interrupted.communicate(timeout=ENOUGH)
        assert interrupted.returncode == 130
        assert "interrupted" in errors
        assert "repeat the command to continue" in errors
        again = call(*apply)
        assert (again.returncode, again.stdout.splitlines()[-1]) == (0, "step 5 of 5: done"), again
        assert call(*apply).stdout == "all steps of the plan are done\n"
        nodes = json.loads(call("plan", "rebalance", "-o", "json", *common).stdout)["nodes"]
        plan_file.write_text(call("plan", "drain", *NODES, "-o", "json", *common).stdout)
        incomplete = call(*apply)
        assert incomplete.returncode == 1
        assert "the plan does not reach its goal" in incomplete.stdout
        os.kill(cluster.pid, signal.SIGINT)
        cluster.communicate(timeout=ENOUGH)
    pods = Counter({"old-1": 3, "old-2": 3, "new-1": 1})
    pods.subtract(item["from"] for item in evictions)
    pods.update(item["to"] for item in evictions if "to" in item)
    assert {item["name"]: item["podsBefore"] for item in nodes} == {name: pods[name] for name in NODES}


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
