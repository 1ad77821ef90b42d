"""The compared schedulers: kube-scheduler's binary and `moorage scheduler`, with one configuration file."""

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import yaml

from tests.live.differential.scene import Scene
from tests.live.scheduler import COMMAND
from tests.support.control_plane import ControlPlane

THEIRS: Final = "kube-scheduler"
OURS: Final = "moorage"
#: A batch may reuse an outdated order of nodes; Moorage evaluates each pod separately (docs/parity.md).
BASE_GATES: Final = {"OpportunisticBatching": False}


class Side:
    """One running scheduler."""

    def __init__(self, name: str, process: subprocess.Popen[bytes], log: Path) -> None:
        self.name = name
        self._process = process
        self._log = log

    def require_alive(self) -> None:
        """Fail with the end of the log if the scheduler has exited."""
        if self._process.poll() is not None:
            raise RuntimeError(f"{self.name} has ended:\n{self.log()}")

    def log(self) -> str:
        """Return the end of the log."""
        return self._log.read_text(errors="replace")[-6000:]


@contextmanager
def side(name: str, plane: ControlPlane, scene: Scene) -> Iterator[Side]:
    """Run a scheduler on a scene for the duration of the block."""
    gates = BASE_GATES | scene.feature_gates
    flags = (
        f"--config={_config_file(plane, scene)}",
        f"--feature-gates={','.join(f'{gate}={str(on).lower()}' for gate, on in gates.items())}",
        "--secure-port=0",
        "-v=2",
    )
    program = (str(plane.programs / THEIRS),) if name == THEIRS else COMMAND
    log = plane.directory / f"differential-{name}.log"
    with log.open("wb") as output:
        process = subprocess.Popen([*program, *flags], stdout=output, stderr=subprocess.STDOUT, env=os.environ)
    running = Side(name, process, log)
    try:
        yield running
    except BaseException as error:
        error.add_note(f"the log of {name} ends:\n{running.log()}")
        raise
    finally:
        process.kill()
        process.wait()


def _config_file(plane: ControlPlane, scene: Scene) -> Path:
    path = plane.directory / "differential.yaml"
    connection = {"kubeconfig": str(plane.kubeconfig()), "qps": 500, "burst": 1000}
    own = {"clientConnection": connection, "leaderElection": {"leaderElect": False}}
    path.write_text(yaml.safe_dump(scene.config | own))
    return path
