"""API servers and schedulers, embedded and real, each started with its dependencies."""

import asyncio
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Final, TypeVar

from moorage.cluster.controllers.builtin_controllers import kubelet_controllers
from moorage.cluster.controllers.manager import ControllerManager
from moorage.common.clock import SystemClock
from moorage.kube.client.kubeconfig import load_connection
from moorage.kube.client.rest import ApiClient
from tests.live.controllers import CONTROLLERS, controller_manager
from tests.live.scheduler import COMMAND, scheduler
from tests.live.storage import Provisioner
from tests.support.control_plane import START_SECONDS, ControlPlane, binaries, control_plane

T = TypeVar("T")
Background = Callable[[ApiClient], Awaitable[None]]

UP: Final = (sys.executable, "-c", "from moorage.cli.main import main; main()", "up", "--nodes=0", "--no-scheduler")
WORKLOADS: Final = (
    "deployment-controller",
    "replicaset-controller",
    "daemonset-controller",
    "job-controller",
    "disruption-controller",
    "node-lifecycle-controller",
)
"""Real controllers for scenarios in addition to those of volumes and devices."""
SERVED: Final = "--runtime-config=scheduling.k8s.io/v1beta1=true,scheduling.k8s.io/v1alpha3=true"
"""Flags of kube-apiserver in addition to the gates, to serve groups."""
CONFIGURATION: Final = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {{kubeconfig: {kubeconfig}, qps: 1000, burst: 1000}}
leaderElection: {{leaderElect: false}}
podInitialBackoffSeconds: 1
podMaxBackoffSeconds: 1
profiles:
- schedulerName: {name}
- schedulerName: {name}-packing
  pluginConfig:
  - name: NodeResourcesFit
    args: {{scoringStrategy: {{type: MostAllocated}}}}
"""
"""The configuration of both schedulers: two profiles, and short retry intervals."""


class Stage:
    """A cluster for scenarios in sequence; ``run`` runs its background work with a scenario."""

    def __init__(self, kubeconfig: Path, runner: asyncio.Runner) -> None:
        self.kubeconfig = kubeconfig
        self.connection = load_connection(str(kubeconfig))
        self._runner = runner

    def run(self, play: Callable[[ApiClient], Awaitable[T]]) -> T:
        """Run a scenario with a separate client."""

        async def played() -> T:
            async with ApiClient(self.connection) as client:
                return await play(client)

        return self._runner.run(played())


@contextmanager
def stage(kubeconfig: Path, *background: Background) -> Iterator[Stage]:
    """Prepare a cluster with additional background work during scenarios."""
    with asyncio.Runner() as runner:
        prepared = Stage(kubeconfig, runner)
        loop = runner.get_loop()
        client = ApiClient(prepared.connection)
        tasks = [loop.create_task(_forever(work, client)) for work in background]
        try:
            yield prepared
            for task in tasks:
                assert not task.done(), f"the background work has ended: {task}"
        finally:
            client.close()
            runner.run(_ended(tasks))


async def _ended(tasks: Sequence[asyncio.Task[None]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    # Closed connections notify the loop again.
    await asyncio.sleep(0.1)


async def _forever(work: Background, client: ApiClient) -> None:
    await work(client)


@contextmanager
def real_server(gates: str = "") -> Iterator[Stage]:
    """Run kube-apiserver, etcd and kube-controller-manager, with Moorage's kubelets and a provisioner as clients."""
    flags, controllers = gate_flags(gates), [*CONTROLLERS, *WORKLOADS]
    if gates:
        controllers.append("podgroup-protection-controller")
    with (
        control_plane(*flags, *([SERVED] if gates else [])) as plane,
        controller_manager(plane, *controllers, flags=flags),
        make_stage(plane) as prepared,
    ):
        yield prepared


def gate_flags(gates: str) -> list[str]:
    """Return the feature gates to enable in a program."""
    return [f"--feature-gates={gates}"] if gates else []


@contextmanager
def make_stage(plane: ControlPlane) -> Iterator[Stage]:
    with stage(plane.kubeconfig(), _kubelets, _provisioner) as prepared:
        yield prepared


async def _kubelets(client: ApiClient) -> None:
    await ControllerManager(client, kubelet_controllers(SystemClock())).run()


async def _provisioner(client: ApiClient) -> None:
    await Provisioner(client).run()


@contextmanager
def embedded_server(gates: str = "", flags: Sequence[str] = ()) -> Iterator[Stage]:
    """Run `moorage up` without its scheduler: the embedded API server, controllers and kubelets."""
    with tempfile.TemporaryDirectory(prefix="moorage-embedded-") as directory:
        kubeconfig, log_file = Path(directory, "kubeconfig"), Path(directory, "up.log")
        with log_file.open("wb") as log:
            process = subprocess.Popen(
                [*UP, f"--kubeconfig={kubeconfig}", *gate_flags(gates), *flags],
                stdout=log,
                stderr=subprocess.STDOUT,
                env=os.environ,
            )
        try:
            _await(kubeconfig, process, log_file)
            with stage(kubeconfig) as prepared:
                yield prepared
            assert process.poll() is None, f"the server exited:\n{log_file.read_text()[-4000:]}"
        finally:
            process.kill()
            process.wait()


def _await(kubeconfig: Path, process: subprocess.Popen[bytes], log_file: Path) -> None:
    """Wait for the file with the server's address, which is written atomically once it listens."""
    deadline = time.monotonic() + START_SECONDS
    while not kubeconfig.exists() or not kubeconfig.read_text().endswith("\n"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the embedded server did not start:\n{log_file.read_text()[-4000:]}")
        time.sleep(0.05)


SERVERS: Final = MappingProxyType({"real-server": real_server, "embedded-server": embedded_server})
KUBE_SCHEDULER: Final = "kube-scheduler"
MOORAGE: Final = "moorage"
SCHEDULERS: Final = (KUBE_SCHEDULER, MOORAGE)
COMBINATIONS: Final[Mapping[str, tuple[str, str]]] = MappingProxyType(
    {f"{program}-on-{server}": (server, program) for server in SERVERS for program in SCHEDULERS}
)


@contextmanager
def scheduling(
    kubeconfig: Path, program: str, name: str = "default-scheduler", *, gates: str = "", flags: Sequence[str] = ()
) -> Iterator[None]:
    """Run a scheduler for the pods of a scheduler name, and of that name with ``-packing``."""
    command = (str(binaries() / KUBE_SCHEDULER),) if program == KUBE_SCHEDULER else COMMAND
    with tempfile.TemporaryDirectory(prefix="moorage-config-") as directory:
        config = Path(directory, "config.yaml")
        config.write_text(CONFIGURATION.format(kubeconfig=kubeconfig, name=name))
        with scheduler(kubeconfig, f"--config={config}", *flags, *gate_flags(gates), program=command) as process:
            yield
            assert process.is_running, f"{program} exited:\n{process.log[-4000:]}"
