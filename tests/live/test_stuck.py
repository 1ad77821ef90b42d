"""Blocking plugins and stopped processes: lease, health and signals still work, and no write happens twice."""

import asyncio
import os
import re
import signal
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
import pytest
import yaml

from tests.live import bad_plugins
from tests.live.cluster import LiveCluster, bound
from tests.live.scheduler import SchedulerProcess, scheduler
from tests.live.serving import page
from tests.support.control_plane import ControlPlane, free_ports

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]
LEASE: Final = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler"
STUCK_SECONDS: Final = 4
GRACE_SECONDS: Final = 30
"""The grace period of a kubelet."""

LONGER_LEASE: Final = (
    "--leader-elect-lease-duration=6s",
    "--leader-elect-renew-deadline=4s",
    "--leader-elect-retry-period=1s",
)
"""Both replicas and the server share few cores: the running replica must not lose the lease either."""


def flags_with(plane: ControlPlane, directory: Path, plugin: str, port: int = 0, *, at: str = "filter") -> list[str]:
    """Return flags that enable a plugin, and serve pages to the administrator."""
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig())},
        "profiles": [{"plugins": {at: {"enabled": [{"name": plugin}]}}}],
    }
    path = directory / "config.yaml"
    path.write_text(yaml.safe_dump(config))
    own = (f"--config={path}", f"--plugin=tests.live.bad_plugins:{plugin}", f"--stuck-timeout={STUCK_SECONDS}s")
    delegated = (
        f"--{description}-kubeconfig={plane.kubeconfig()}" for description in ("authentication", "authorization")
    )
    return [*own, f"--secure-port={port}", *delegated]


@pytest.fixture(autouse=True)
def _once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(bad_plugins.ONCE, str(tmp_path / "misbehaved"))


async def quick_page(port: int, path: str, token: str = "") -> str:
    """Read a page within the timeout of a probe."""
    async with asyncio.timeout(2):
        return await asyncio.to_thread(page, port, path, token)


async def holder(cluster: LiveCluster) -> str:
    lease = msgspec.json.decode(await cluster.client.request("GET", LEASE))
    return str(lease["spec"].get("holderIdentity") or "")


async def ended(process: SchedulerProcess, seconds: float = GRACE_SECONDS) -> int:
    """Wait for the exit, check that no child process remains, and return the exit code."""
    children = process.children() if process.is_running else []
    deadline = time.monotonic() + seconds
    while process.is_running:
        assert time.monotonic() < deadline, f"it still runs after {seconds} s"
        await asyncio.sleep(0.05)
    while remaining := [pid for pid in children if Path(f"/proc/{pid}").exists()]:
        assert time.monotonic() < deadline, f"remaining child processes: {remaining}"
        await asyncio.sleep(0.05)
    return process.wait()


def test_sleeping_plugin_affects_neither_lease_nor_health(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    port, token = free_ports(1)[0], plane.tokens["admin"]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1")
        with scheduler(plane.kubeconfig(), *flags_with(plane, tmp_path, "Sleeper", port), leader_elect=True) as process:
            await process.logged('"scheduling"')
            leader = await holder(cluster)
            # Longer than a lease of three seconds, and shorter than the timeout of the supervisor.
            await cluster.add_pods("sleep-3.8")
            await process.logged("a plugin blocks the scheduler", 20)
            assert await quick_page(port, "/livez") == "ok"
            assert await quick_page(port, "/readyz") == "ok"
            async with asyncio.timeout(5):
                assert 'moorage_stuck_total{plugin="Sleeper"} 1.0' in await asyncio.to_thread(
                    page, port, "/metrics", token
                )
            await cluster.wait_for("it is bound when the plugin has slept", bound)
            assert await holder(cluster) == leader
            assert 'plugin="Sleeper"' in process.log
            assert "bad_plugins.py" in process.log
            assert 'moorage_stuck_total{plugin="Sleeper"} 1.0' in await asyncio.to_thread(page, port, "/metrics", token)
            process.send(signal.SIGTERM)
            assert await ended(process) == 0

    live(story)


def test_plugin_that_blocks_the_interpreter_loses_the_lease(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    """It holds the interpreter's lock, and no Python code of the process can run."""
    port = free_ports(1)[0]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1")
        flags = flags_with(plane, tmp_path, "Hog", port)
        with scheduler(plane.kubeconfig(), *flags, leader_elect=True) as first:
            await first.logged("became leader")
            await cluster.add_pods("hog-1")
            await first.logged("a plugin blocks the scheduler", 20)
            with scheduler(plane.kubeconfig(), *flags_with(plane, tmp_path, "Hog"), leader_elect=True) as second:
                assert await quick_page(port, "/livez") == "ok"
                await first.logged("stuck for too long", 20)
                assert await quick_page(port, "/livez") == "500"
                assert await ended(first) == 1
                assert "Leaderelection lost" in first.log
                await second.logged("became leader")
                await cluster.wait_for("the other binds it", bound)
                assert 'plugin="Hog"' in first.log
                second.send(signal.SIGTERM)
                assert await ended(second) == 0

    live(story)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_signal_ends_a_blocked_scheduler(
    plane: ControlPlane, live: Live, tmp_path: Path, number: signal.Signals
) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1")
        with scheduler(plane.kubeconfig(), *flags_with(plane, tmp_path, "Hog"), "--stuck-timeout=0") as process:
            await process.logged('"scheduling"')
            await cluster.add_pods("hog-1")
            await process.logged("a plugin blocks the scheduler", 20)
            process.send(number)
            assert await ended(process, 15) == 1
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("a scheduler without that plugin binds it", bound)

    live(story)


def test_post_filter_that_never_returns_is_handled(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    port = free_ports(1)[0]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1")
        flags = flags_with(plane, tmp_path, "Waiter", port, at="postFilter")
        with scheduler(plane.kubeconfig(), *flags) as process:
            await process.logged('"scheduling"')
            await cluster.add_pods("big", cpu="100")
            await process.logged("a plugin does not return", 20)
            assert 'plugin="Waiter"' in process.log
            assert "in post_filter" in process.log
            assert await quick_page(port, "/livez") == "ok"
            await process.logged("stuck for too long", 20)
            assert await quick_page(port, "/livez") == "500"
            process.send(signal.SIGTERM)
            assert await ended(process, 15) == 0
        await cluster.remove_all("/api/v1/namespaces/default/pods")

    live(story)


WHO: Final = {
    "both processes": lambda process: [process.pid, *process.children()],
    "its supervisor": lambda process: [process.pid],
    "its scheduler": lambda process: process.children(),
}


@pytest.mark.parametrize("name", WHO.values(), ids=WHO)
def test_resumed_leader_does_not_write(
    plane: ControlPlane, live: Live, name: Callable[[SchedulerProcess], list[int]]
) -> None:
    names = [f"web-{number}" for number in range(150)]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*(f"n{number}" for number in range(10)), cpu="8")
        flags = (f"--stuck-timeout={STUCK_SECONDS}s", *LONGER_LEASE)
        with scheduler(plane.kubeconfig(), *flags, leader_elect=True) as first:
            await first.logged("became leader")
            with scheduler(plane.kubeconfig(), *flags, leader_elect=True) as second:
                await second.logged("Attempting to acquire leader lease...")
                making = asyncio.create_task(cluster.add_pods(*names))
                await cluster.wait_for("some are bound", lambda pods: any(pod.node_name for pod in pods.values()))
                stopped = name(first)
                for pid in stopped:
                    os.kill(pid, signal.SIGSTOP)
                await second.logged("became leader")
                output = len(first.log)
                await making
                bound_before = {pod.name for pod in (await cluster.pods()).values() if pod.node_name}
                for pid in stopped:
                    if Path(f"/proc/{pid}").exists():
                        os.kill(pid, signal.SIGCONT)
                assert await ended(first) == 1
                await cluster.wait_for("the other binds the rest", bound)
                # Responses to requests from before the stop are logged after it.
                logged = re.findall(r'Successfully bound pod to node" pod="default/([^"]+)"', first.log[output:])
                assert {*logged} <= bound_before
                assert "Leaderelection lost" in first.log
                second.send(signal.SIGTERM)
                assert await ended(second) == 0

    live(story)


KILLED: Final = {
    "its scheduler": (lambda process: process.children()[0], 128 + signal.SIGKILL),
    "its supervisor": (lambda process: process.pid, -signal.SIGKILL),
}


@pytest.mark.parametrize(("name", "code"), KILLED.values(), ids=KILLED)
def test_both_processes_end_together(
    plane: ControlPlane, live: Live, name: Callable[[SchedulerProcess], int], code: int
) -> None:
    async def story(cluster: LiveCluster) -> None:
        with scheduler(plane.kubeconfig(), leader_elect=True) as process:
            await process.logged('"scheduling"')
            children = process.children()
            os.kill(name(process), signal.SIGKILL)
            assert await ended(process, 10) == code
            # The kernel kills the orphan immediately, but a busy machine may take a moment to remove it.
            deadline = time.monotonic() + 10
            while any(Path(f"/proc/{pid}").exists() for pid in children):
                assert time.monotonic() < deadline, "a process is left"
                await asyncio.sleep(0.05)

    live(story)


@pytest.mark.parametrize("name", WHO.values(), ids=WHO)
def test_signal_to_either_process_ends_both_regularly(
    plane: ControlPlane, live: Live, name: Callable[[SchedulerProcess], list[int]]
) -> None:
    async def story(cluster: LiveCluster) -> None:
        with scheduler(plane.kubeconfig(), *LONGER_LEASE, leader_elect=True) as leader:
            await leader.logged('"scheduling"')
            with scheduler(plane.kubeconfig(), *LONGER_LEASE, leader_elect=True) as standby:
                await standby.logged("new leader")
                for process in (standby, leader):
                    for pid in name(process):
                        os.kill(pid, signal.SIGINT)
                    assert await ended(process) == 0
                    assert ("stopped leading" in process.log) == (process is leader)

    live(story)
