"""The two schedulers, started as users start them."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import yaml
from tests.support.control_plane import free_ports

import moorage
from benchmarks.installed import compile_program
from benchmarks.live.plane import Plane
from benchmarks.live.processes import SessionProcess

OURS: Final = "moorage"
THEIRS: Final = "kube-scheduler"
NAMES: Final = (OURS, THEIRS)
UNLIMITED: Final = 100_000
"""Requests per second of kube-scheduler's rate limiter: more than any server handles."""

Flags = Sequence[str]


def is_ours(name: str) -> bool:
    """Return whether a name means Moorage: ``moorage``, or ``moorage@`` and the directory of another checkout."""
    return name == OURS or name.startswith(f"{OURS}@")


def is_known(name: str) -> bool:
    """Return whether a scheduler of this name exists."""
    return name in NAMES or (is_ours(name) and _sources(name).is_dir())


def start(name: str, plane: Plane, flags: Flags = ()) -> SessionProcess:
    """Start a scheduler with its defaults and a free port."""
    (port,) = free_ports(1)
    begin = _moorage(name, plane) if is_ours(name) else _kube_scheduler(plane)
    log = plane.directory / f"{name.replace('/', '-')}.log"
    return SessionProcess([*begin, f"--secure-port={port}", *flags], log, plane.directory)


def start_theirs(plane: Plane, **config: Any) -> SessionProcess:
    """Start kube-scheduler with an extended configuration."""
    (port,) = free_ports(1)
    command = [*_kube_scheduler(plane, **config), f"--secure-port={port}"]
    return SessionProcess(command, plane.directory / f"{THEIRS}.log", plane.directory)


def start_extender(plane: Plane, plugin: str) -> tuple[SessionProcess, str]:
    """Start one of our plugins as an extender; return its process and its URL."""
    (port,) = free_ports(1)
    program = "from moorage.cli.main import main; main()"
    flags = ["extender", f"--kubeconfig={plane.kubeconfig()}", f"--port={port}", f"--plugin={plugin}"]
    log = plane.directory / "extender.log"
    # The plugin is in the directory of the benchmarks.
    process = SessionProcess([sys.executable, "-c", program, *flags], log, Path(__file__).parents[2])
    return process, f"http://127.0.0.1:{port}"


def _sources(name: str) -> Path:
    """Return the module path of a Moorage checkout; this one unless the name contains a directory."""
    checkout = name.partition("@")[2]
    return (Path(checkout) / "src").resolve() if checkout else Path(moorage.__file__).parents[1]


def _moorage(name: str, plane: Plane) -> list[str | Path]:
    sources = _sources(name)
    compile_program(sources / "moorage")
    # Selected by directory, not by environment: both checkouts start alike, with the same dependencies.
    program = f"import sys; sys.path.insert(0, {str(sources)!r}); from moorage.cli.main import main; main()"
    return [sys.executable, "-c", program, "scheduler", f"--kubeconfig={plane.kubeconfig()}"]


def _kube_scheduler(plane: Plane, **more: Any) -> list[str | Path]:
    config: dict[str, Any] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig()), "qps": UNLIMITED, "burst": UNLIMITED},
        **more,
    }
    path = plane.directory / "kube-scheduler.yaml"
    path.write_text(yaml.safe_dump(config))
    return [plane.programs / THEIRS, f"--config={path}"]
