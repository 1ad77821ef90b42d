"""The two schedulers, each as its own users start it."""

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from tests.support.control_plane import free_ports

from benchmarks.installed import compile_program
from benchmarks.live.plane import Plane
from benchmarks.live.processes import SessionProcess

OURS: Final = "moorage"
THEIRS: Final = "kube-scheduler"
UNLIMITED: Final = 100_000
"""Requests per second that kube-scheduler's own limiter lets through: more than any server answers."""

Flags = Sequence[str]


def start(name: str, plane: Plane, flags: Flags = ()) -> SessionProcess:
    """Start a scheduler with its defaults; only the port is one that is free."""
    (port,) = free_ports(1)
    command = [*_COMMANDS[name](plane), f"--secure-port={port}", *flags]
    return SessionProcess(command, plane.folder / f"{name}.log", plane.folder)


def _moorage(plane: Plane) -> Sequence[str | Path]:
    compile_program()
    program = "from moorage.cli.main import main; main()"
    return [sys.executable, "-c", program, "scheduler", f"--kubeconfig={plane.kubeconfig()}"]


def _kube_scheduler(plane: Plane) -> Sequence[str | Path]:
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig()), "qps": UNLIMITED, "burst": UNLIMITED},
    }
    path = plane.folder / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    return [plane.programs / THEIRS, f"--config={path}"]


_COMMANDS: Final[Mapping[str, Callable[[Plane], Sequence[str | Path]]]] = {OURS: _moorage, THEIRS: _kube_scheduler}
NAMES: Final = tuple(_COMMANDS)
