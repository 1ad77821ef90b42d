"""Recipes of the docs on a real control plane: five commands to a placed pod, and nodes of kwok."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from release.chart import find_helm

from moorage.kube.api.pod import Pod
from tests.live.cluster import PATIENCE, LiveCluster
from tests.live.conftest import Story
from tests.live.scheduler import scheduler
from tests.live.test_chart import run
from tests.support.control_plane import ROOT, ControlPlane, program


def read_commands() -> list[str]:
    """Return the commands of the tested block in the page."""
    page = (ROOT / "docs/how-to/recipes.md").read_text(encoding="utf-8")
    block = re.search(r"test_recipes.py runs these commands -->\n```console\n(.*?)```", page, re.DOTALL)
    assert block is not None
    return [line.removeprefix("$ ") for line in block[1].splitlines()]


def test_five_commands_place_a_pod_as_an_ordinary_account(
    plane: ControlPlane, live: Callable[[Story], None], tmp_path: Path
) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    for name, target in {"kubectl": program("kubectl"), "helm": find_helm()}.items():
        (programs / name).symlink_to(target)
    for name, line in {
        "pip": "true",  # `make dist` installs the wheel into clean environments
        "moorage": f'exec {sys.executable} -c "from moorage.cli.main import main; main()" "$@"',
    }.items():
        (programs / name).write_text(f"#!/bin/sh\n{line}\n")
        (programs / name).chmod(0o755)
    (tmp_path / "deploy").symlink_to(ROOT / "deploy")
    (tmp_path / "dist").mkdir()
    environment = os.environ | {"PATH": f"{programs}:{os.environ['PATH']}", "KUBECONFIG": str(plane.kubeconfig())}
    commands = read_commands()
    assert len(commands) == 5
    # Another test may have created the same objects without Helm.
    rendered = tmp_path / "rendered.yaml"
    rendered.write_text(
        run(find_helm(), "template", "moorage", ROOT / "deploy/helm/moorage", "--namespace=kube-system")
    )
    run(program("kubectl"), f"--kubeconfig={plane.kubeconfig()}", "delete", "--ignore-not-found", "-f", rendered)

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1")
        process = None
        try:
            for command in commands:
                if command.endswith("&"):
                    with (tmp_path / "scheduler.log").open("wb") as log:
                        process = subprocess.Popen(
                            f"exec env {command.removesuffix('&')}",
                            shell=True, cwd=tmp_path, env=environment, stdout=log, stderr=subprocess.STDOUT,
                        )  # fmt: skip
                else:
                    result = subprocess.run(
                        command, shell=True, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
                    )
                    log_text = (tmp_path / "scheduler.log").read_text() if process else ""
                    assert result.returncode == 0, f"{command}\n{result.stdout}{result.stderr}\n{log_text}"
            assert "n1" in {pod.node_name for pod in (await cluster.pods()).values()}
            assert "forbidden" not in (tmp_path / "scheduler.log").read_text().lower()
        finally:
            if process is not None:
                process.send_signal(signal.SIGTERM)
                process.wait(PATIENCE)
            run(find_helm(), "uninstall", "moorage", "-n", "kube-system", f"--kubeconfig={plane.kubeconfig()}")

    live(story)


def test_pods_run_on_nodes_of_kwok(plane: ControlPlane, live: Callable[[Story], None]) -> None:
    program("kwok")

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("fake-1", "fake-2")
        kwok = plane.spawn("kwok", f"--kubeconfig={plane.kubeconfig()}", "--manage-all-nodes")
        try:
            with scheduler(plane.kubeconfig()):
                await cluster.add_pods("web-1", "web-2")
                await cluster.wait_for("all pods run", all_run)
        finally:
            kwok.terminate()
            kwok.wait(PATIENCE)

    live(story)


def all_run(pods: dict[str, Pod]) -> bool:
    """Return whether all pods run; kwok starts only pods that have a node."""
    return len(pods) == 2 and {pod.status.phase for pod in pods.values()} == {"Running"}
