"""A terminal in a separate directory, which runs the commands of a page in order."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from typing import Final

from tests.docs.snippets import ROOT, Command, is_shown

PATIENCE: Final = 300.0
"""Timeout in seconds; tests do not wait for it to pass."""
COPIED: Final = ("examples", "deploy", "docs", "README.md", "conformance/README.md")
_ENDLESS = re.compile(r"\bmoorage (up|scheduler|ui|extender|whatif serve)\b(?!.*(--for\b|--help|--write-config-to))")


@cache
def control_plane_programs() -> str:
    """Return the directory of the kubectl that `make control-plane` builds, for machines without one."""
    result = subprocess.run(
        [ROOT / "conformance" / "control-plane", "--print"], capture_output=True, text=True, check=True
    )
    return result.stdout.strip()


class CommandFailed(AssertionError):
    """The result of a command differs from the page."""


class Terminal:
    """A shell with a directory and a cluster that persist between commands."""

    def __init__(self, directory: Path) -> None:
        self.root = directory / "moorage"
        self._directory = self.root
        self._kubeconfig = directory / "kubeconfig"
        self._here = directory / "here"
        self._log = directory / "running.log"
        self._running: list[subprocess.Popen[bytes]] = []
        for name in COPIED:
            source, target = ROOT / name, self.root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if source.is_dir():
                shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "bench"))
            else:
                shutil.copy(source, target)

    def __enter__(self) -> "Terminal":
        return self

    def __exit__(self, *_: object) -> None:
        self._end_all()

    def write(self, name: str, text: str) -> None:
        """Save a file that a page shows."""
        path = self._directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def type(self, command: Command) -> None:
        """Run a command and compare its output with the page."""
        if _ENDLESS.search(command.text) or command.text.rstrip().endswith("&"):
            self._start(command)
            return
        deadline = time.monotonic() + PATIENCE
        while True:
            code, output = self._run(command.text)
            is_refused = any(line.startswith("error:") for line in command.expected)
            missing = [line for line in command.expected if not is_shown(line, output)]
            if not missing and (code != 0) == is_refused:
                return
            if not command.may_take_a_while or time.monotonic() > deadline:
                story = f"$ {command.text}\n{output}\n(exit code {code}; not shown: {missing})"
                raise CommandFailed(f"{story}\n{self._log_so_far()}")
            time.sleep(0.2)

    def _run(self, text: str) -> tuple[int, str]:
        script = f"{text}\ncode=$?; pwd > {self._here}; exit $code"
        with subprocess.Popen(
            ["bash", "-c", script],
            cwd=self._directory,
            env=self._environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                output, _ = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                # The complete process group: child processes of bash would outlive it.
                os.killpg(process.pid, signal.SIGKILL)
                raise
        if self._here.exists():
            self._directory = Path(self._here.read_text().strip())
        return process.returncode, output

    def _start(self, command: Command) -> None:
        """Start a long-running command; a new cluster replaces the last one."""
        text, is_cluster = command.text.rstrip().removesuffix("&"), "moorage up" in command.text
        if is_cluster:
            self._end_all()
            text += f" --kubeconfig {self._kubeconfig}"
        started = self._log.stat().st_size if self._log.exists() else 0
        with self._log.open("ab") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {text}" if "=" in text.split()[0] else f"exec {text}"],
                cwd=self._directory,
                env=self._environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        self._running.append(process)
        expected = (*command.expected, *(("Stop the cluster with Ctrl-C.",) if is_cluster else ()))
        deadline = time.monotonic() + PATIENCE
        while missing := [line for line in expected if not is_shown(line, self._log_so_far(started))]:
            if process.poll() is not None or time.monotonic() > deadline:
                raise CommandFailed(f"$ {command.text}\n{self._log_so_far(started)}\n(not shown: {missing})")
            time.sleep(0.1)

    def _log_so_far(self, started: int = 0) -> str:
        return self._log.read_bytes()[started:].decode() if self._log.exists() else ""

    def _environment(self) -> dict[str, str]:
        names = {"KUBECONFIG": str(self._kubeconfig), "COLUMNS": "160", "TERM": "dumb", "NO_COLOR": "1"}
        path = (Path(sys.executable).parent, os.environ["PATH"], control_plane_programs())
        return {**os.environ, **names, "PATH": os.pathsep.join(map(str, path))}

    def _end_all(self) -> None:
        for process in reversed(self._running):
            process.send_signal(signal.SIGINT)
        for process in self._running:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._running.clear()
