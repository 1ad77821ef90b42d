"""Run the commands of docs/how-to/from-idea-to-cluster.md unchanged, section by section."""

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import venv
from collections.abc import Awaitable, Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from moorage.kube.api.pod import Pod
from moorage.kube.client.rest import ApiClient
from tests.live.cluster import PATIENCE, SCHEDULED, Kubelets, LiveCluster
from tests.live.controllers import COLLECTOR, controller_manager
from tests.support.control_plane import ROOT, ControlPlane, control_plane, program

PAGE: Final = ROOT / "docs" / "how-to" / "from-idea-to-cluster.md"
SECTION: Final = re.compile(r"^## (.*)$", re.MULTILINE)
BLOCK: Final = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
LASTING: Final = ("moorage up", "moorage scheduler", "moorage extender", "kube-scheduler ")
"""Commands that run until Ctrl-C."""
ELSEWHERE: Final = ("make -C .. image", "docker build")
"""Commands that need an image builder."""
PREPARED: Final = "Moorage itself"
"""The section that created the environment of the tests."""


class Section:
    """A section of the page: its commands and files."""

    def __init__(self, title: str, text: str) -> None:
        blocks = BLOCK.findall(text)
        self.title = title
        self.commands = [line[2:] for kind, block in blocks if kind == "console" for line in block.splitlines()]
        self.yaml = [block for kind, block in blocks if kind == "yaml"]


def sections() -> list[Section]:
    _, *parts = SECTION.split(PAGE.read_text())
    return [Section(title, text) for title, text in zip(parts[::2], parts[1::2], strict=True)]


def test_all_sections_except_the_last_have_commands() -> None:
    selected = {section.title: len(section.commands) for section in sections()}
    assert selected.pop("When something is wrong") == 0
    assert all(selected.values())


def make_environment(directory: Path) -> Path:
    """Create a virtual environment like that of the tests for one more package; return its bin directory."""
    venv.create(directory, with_pip=False)
    own = next(directory.glob("lib/python*/site-packages"))
    around = [path for path in sys.path if Path(path).name == "site-packages"]
    source = str(ROOT / "src")
    lines = [f"import sys; sys.path.insert(0, {source!r})", *(f"import site; site.addsitedir({p!r})" for p in around)]
    (own / "around.pth").write_text("\n".join(lines) + "\n")
    programs = {
        "moorage": "from moorage.cli.main import main; main()",
        "pip": "from pip._internal.cli.main import main; import sys; sys.exit(main())",
    }
    for name, text in programs.items():
        path = directory / "bin" / name
        path.write_text(f"#!{directory}/bin/python\n{text}\n")
        path.chmod(0o755)
    return directory / "bin"


class Shell:
    """Runs the commands of the page; ends long-running ones with Ctrl-C."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self.directory = directory
        self.environment = environment
        self._lasting: list[tuple[str, asyncio.subprocess.Process, Path]] = []

    async def run(self, command: str) -> None:
        if command.startswith("cd "):
            self.directory /= command[3:]
        elif any(word in command for word in LASTING):
            await self._begin(command)
        else:
            await self._finish(command)

    async def _begin(self, command: str) -> None:
        output = self.directory / f"output-{len(self._lasting)}.txt"
        with output.open("wb") as file:
            process = await asyncio.create_subprocess_shell(
                f"exec env {command}",
                cwd=self.directory,
                env=self.environment,
                stdout=file,
                stderr=asyncio.subprocess.STDOUT,
            )
        self._lasting.append((command, process, output))

    async def _finish(self, command: str) -> None:
        """Run a command; retry while the server is starting."""
        deadline = asyncio.get_running_loop().time() + PATIENCE
        while True:
            process = await asyncio.create_subprocess_shell(
                command,
                cwd=self.directory,
                env=self.environment,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
            )
            output, _ = await process.communicate()
            if process.returncode == 0:
                return
            is_lost = not command.startswith("kubectl ") or asyncio.get_running_loop().time() > deadline
            assert not is_lost, f"$ {command}\n{output.decode()}{self.said()}"
            await asyncio.sleep(0.5)

    def said(self) -> str:
        """Return the output of the long-running commands."""
        return "".join(f"\n$ {command}\n{output.read_text()[-3000:]}" for command, _, output in self._lasting)

    async def end_section(self) -> None:
        """Press Ctrl-C."""
        for command, process, _ in self._lasting:
            assert process.returncode is None, f"{command} exited early:{self.said()}"
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(PATIENCE):
                await process.wait()
        self._lasting.clear()

    async def kill(self) -> None:
        """Stop all running commands."""
        for _, process, _ in self._lasting:
            if process.returncode is None:
                process.kill()
                await process.wait()


Check = Callable[[Shell, LiveCluster], Awaitable[None]]


async def wait_for(shell: Shell, holds: Callable[[], Awaitable[bool]]) -> None:
    deadline = asyncio.get_running_loop().time() + PATIENCE
    while not await holds():
        assert asyncio.get_running_loop().time() < deadline, shell.said()
        await asyncio.sleep(0.3)


async def kubectl(shell: Shell, *arguments: str) -> Any:
    process = await asyncio.create_subprocess_exec(
        "kubectl", *arguments, "-o", "json", cwd=shell.directory, env=shell.environment, stdout=asyncio.subprocess.PIPE
    )
    output, _ = await process.communicate()
    return json.loads(output or b"{}")


async def runs_here(shell: Shell, _: LiveCluster) -> None:
    async def four_run() -> bool:
        response = await kubectl(shell, "--kubeconfig", "up.kubeconfig", "get", "pods")
        # The distribution depends on the time of the label.
        nodes = [pod["spec"].get("nodeName") for pod in response.get("items", [])]
        return len(nodes) == 4 and set(nodes) == {"node-1", "node-3"}

    await wait_for(shell, four_run)


def is_placed(pods: dict[str, Pod]) -> bool:
    """Three pods are on the only fast node, and the fourth has a reason."""
    bound = [pod.node_name for pod in pods.values() if pod.node_name]
    conditions = [pod.condition(SCHEDULED) for pod in pods.values() if not pod.node_name]
    condition_list = [condition.message for condition in conditions if condition is not None]
    expected = "0/2 nodes are available: 1 Insufficient cpu, 1 node(s) were not in the pool of the pod."
    return bound == ["node-1"] * 3 and len(condition_list) == 1 and condition_list[0].startswith(expected)


async def is_placed_and_cleared(shell: Shell, cluster: LiveCluster) -> None:
    try:
        await cluster.wait_for("three pods run on the fast node, and the fourth says why not", is_placed)
    except AssertionError as error:
        error.add_note(shell.said())
        raise
    await shell.run("kubectl delete -f workload.yaml")
    await cluster.wait_for("all are gone", lambda pods: not pods)


async def is_deployed(shell: Shell, _: LiveCluster) -> None:
    response = await kubectl(shell, "-n", "kube-system", "get", "deployment", "spot-only-moorage")
    (container,) = response["spec"]["template"]["spec"]["containers"]
    assert container["image"] == "spot-only:0.1.0"
    (name,) = (
        volume["configMap"]["name"]
        for volume in response["spec"]["template"]["spec"]["volumes"]
        if "configMap" in volume
    )
    config = await kubectl(shell, "-n", "kube-system", "get", "configmap", name)
    assert yaml.safe_load(config["data"]["config.yaml"])["profiles"][0]["schedulerName"] == "spot-only"
    await shell.run("kubectl delete -k deploy --wait=false")


CHECKS: Final[dict[str, Check]] = {
    "On this machine": runs_here,
    "On a cluster, from your machine": is_placed_and_cleared,
    "On a cluster, as a Deployment": is_deployed,
    "Next to a stock kube-scheduler": is_placed_and_cleared,
}


@contextmanager
def cluster_of_ones_own(home: Path) -> Iterator[ControlPlane]:
    """Run a control plane that creates the pods of deployments, and write it to ``~/.kube/config``."""
    controllers = ("deployment-controller", "replicaset-controller", COLLECTOR)
    with ExitStack() as stack:
        plane = stack.enter_context(control_plane())
        stack.enter_context(controller_manager(plane, *controllers))
        config = yaml.safe_load(plane.kubeconfig().read_text())
        authority = config["clusters"][0]["cluster"]
        authority["certificate-authority"] = str(plane.directory / authority["certificate-authority"])
        (home / ".kube").mkdir(parents=True)
        (home / ".kube" / "config").write_text(yaml.safe_dump(config))
        yield plane


def test_documented_steps_work(tmp_path: Path) -> None:
    kubectl_directory = Path(shutil.which("kubectl") or program("kubectl")).parent
    binaries, home = make_environment(tmp_path / "venv"), tmp_path / "home"
    with cluster_of_ones_own(home) as plane:
        path = os.pathsep.join([str(binaries), str(plane.programs), str(kubectl_directory), os.environ["PATH"]])
        retained = {name: text for name, text in os.environ.items() if name not in ("KUBECONFIG", "PYTHONPATH")}
        # Nothing is downloaded: the environment of the tests contains the build tools.
        own = {"PATH": path, "HOME": str(home), "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1"}
        shell = Shell(tmp_path, {**retained, **own})
        asyncio.run(follow_the_page(shell, plane, home))


async def follow_the_page(shell: Shell, plane: ControlPlane, home: Path) -> None:
    async with ApiClient(plane.connection()) as client:
        cluster = LiveCluster(client)
        await cluster.add_nodes("node-1", "node-2", cpu="4")
        kubelets = asyncio.create_task(Kubelets(client).run())
        try:
            for section in sections():
                if section.title != PREPARED:
                    await follow(section, shell, cluster, home)
        finally:
            await shell.kill()
            kubelets.cancel()
            await asyncio.gather(kubelets, return_exceptions=True)


async def follow(section: Section, shell: Shell, cluster: LiveCluster, home: Path) -> None:
    for command in section.commands:
        if command.startswith("kube-scheduler "):
            await paste(section.yaml[-1], shell, home)
        if not command.startswith(ELSEWHERE):
            await shell.run(command)
    if section.title in CHECKS:
        await CHECKS[section.title](shell, cluster)
    await shell.end_section()


async def paste(text: str, shell: Shell, home: Path) -> None:
    """Write kube-scheduler's configuration from the page, with the output of the extender."""

    async def is_printed() -> bool:
        return "httpTimeout" in shell.said()

    await wait_for(shell, is_printed)
    printed = shell.said()
    stanza = yaml.safe_load(
        printed[printed.index("extenders:") :].partition("httpTimeout: 5s")[0] + "httpTimeout: 5s\n"
    )
    config = {**yaml.safe_load(text.replace("/home/me", str(home))), **stanza}
    (shell.directory / "kube-scheduler.yaml").write_text(yaml.safe_dump(config))


@pytest.mark.parametrize("title", CHECKS)
def test_checked_commands_are_on_the_page(title: str) -> None:
    assert title in [section.title for section in sections()]
