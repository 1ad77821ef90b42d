"""The GitHub Action, with a script that plays the runner: steps of action.yml in a repository with a pull request."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from release.dist import ROOT

ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
BROKEN = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparalelism: 3\n"
GOOD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


def pod(name: str, cpu: str) -> str:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    return yaml.safe_dump(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    )


class Runner:
    """Runs the steps of the action that are scripts, as GitHub's runner does for a pull request."""

    def __init__(self, directory: Path) -> None:
        self.workspace = directory / "workspace"
        self.summary, self.output = directory / "summary.md", directory / "output"
        self.programs = directory / "bin"
        for created in (self.workspace, self.programs):
            created.mkdir()
        launcher = self.programs / "moorage"
        launcher.write_text(f'#!/bin/sh\nexec {sys.executable} -c "from moorage.cli.main import main; main()" "$@"\n')
        launcher.chmod(0o755)
        (self.programs / "python").symlink_to(sys.executable)
        self.git("init", "-q", "-b", "main")
        (self.workspace / "cluster.yaml").write_text((ROOT / "examples/clusters/tour.yaml").read_text())
        self.commit("the cluster")
        self.git("update-ref", "refs/remotes/origin/main", "HEAD")

    def git(self, *arguments: str) -> None:
        identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(["git", *identity, *arguments], cwd=self.workspace, check=True, capture_output=True)

    def commit(self, message: str) -> None:
        self.git("add", "-A")
        self.git("commit", "-qm", message)

    def run(self, **inputs: str) -> "subprocess.CompletedProcess[str]":
        """Run the steps with inputs; return the result of the last one."""
        existing: dict[str, Any] = ACTION["inputs"]
        assert inputs.keys() <= {name.replace("-", "_") for name in existing}
        values = {name: inputs.get(name.replace("-", "_"), spec["default"]) for name, spec in existing.items()}
        result = None
        for step in ACTION["runs"]["steps"]:
            if "run" not in step or "pip install" in step["run"]:
                continue  # other actions; and the package is installed
            variables = {
                name: re.sub(r"\$\{\{ inputs\.([\w-]+) \}\}", lambda match: values[match[1]], text)
                for name, text in step["env"].items()
            }
            environment = {
                "PATH": f"{self.programs}:{os.environ['PATH']}",
                "HOME": os.environ.get("HOME", "/"),
                "GITHUB_ACTION_PATH": str(ROOT),
                "GITHUB_BASE_REF": "main",
                "GITHUB_STEP_SUMMARY": str(self.summary),
                "GITHUB_OUTPUT": str(self.output),
                **variables,
            }
            result = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=self.workspace, env=environment, capture_output=True, text=True, check=False,
            )  # fmt: skip
        assert result is not None
        return result


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


def test_pods_of_a_pull_request_are_simulated(runner: Runner) -> None:
    (runner.workspace / "small.yaml").write_text(pod("small", "1"))
    (runner.workspace / "huge.yaml").write_text(pod("huge", "99"))
    (runner.workspace / "values.yaml").write_text("replicas: 2\n")
    runner.commit("two pods")
    result = runner.run(snapshot="cluster.yaml")
    summary = runner.summary.read_text()
    assert result.returncode == 1, result.stderr
    assert "2 manifests: **1 pods fit, 1 do not.**" in summary
    assert "`default/small` | fits on `" in summary
    assert re.search(r"`default/huge` \| \*\*unschedulable\*\*: 0/3 nodes are available", summary)
    assert runner.output.read_text() == "unschedulable=1\n"


def test_unschedulable_pods_may_be_reported_only(runner: Runner) -> None:
    (runner.workspace / "huge.yaml").write_text(pod("huge", "99"))
    runner.commit("a pod")
    assert runner.run(snapshot="cluster.yaml", fail_on_unschedulable="false").returncode == 0
    assert "1 do not" in runner.summary.read_text()


def test_configurations_are_checked_where_they_are_wrong(runner: Runner) -> None:
    (runner.workspace / "good.yaml").write_text(GOOD)
    (runner.workspace / "broken.yaml").write_text(BROKEN)
    result = runner.run(configurations="good.yaml broken.yaml")
    assert result.returncode == 1
    assert "::error file=broken.yaml::" in result.stdout
    assert "paralelism" in result.stdout
    assert "| `good.yaml` | valid |" in runner.summary.read_text()


def test_a_change_without_manifests_passes(runner: Runner) -> None:
    (runner.workspace / "README.md").write_text("text\n")
    runner.commit("text")
    assert runner.run(snapshot="cluster.yaml").returncode == 0
    assert "No manifest changes." in runner.summary.read_text()


def test_a_pattern_without_files_is_an_error(runner: Runner) -> None:
    result = runner.run(configurations="missing/*.yaml")
    assert result.returncode == 1
    assert "no file matches missing/*.yaml" in result.stderr
