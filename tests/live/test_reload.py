"""A scheduler under load. Its plugins and configuration change every second, every other time to invalid ones."""

import asyncio
import re
import signal
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

import msgspec
import pytest

from moorage.cli.main import run
from moorage.insight.shadow.report import read_report
from moorage.kube.api.records import Lease
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.decisions.decision_log import read_log
from tests.live.cluster import PATIENCE, LiveCluster, bound
from tests.live.scheduler import SchedulerProcess, scheduler
from tests.live.serving import metric, page
from tests.live.test_metrics import serving
from tests.support.control_plane import ControlPlane, free_ports

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]

NODES: Final = 20
ROUNDS: Final = 20
PODS_A_ROUND: Final = 25
LEASE: Final = (
    "--leader-elect-lease-duration=15s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=2s",
)
"""As long as in production: only a reload may cost the lease, not a busy machine."""
EVENTS: Final = "/api/v1/namespaces/kube-system/events?fieldSelector=involvedObject.kind%3DLease"
CONFIG: Final = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
clientConnection: {kubeconfig: KUBECONFIG, qps: 1000, burst: 2000}
leaderElection: {leaderElect: true, resourceName: reloaded, resourceNamespace: kube-system}
profiles:
- schedulerName: default-scheduler
  plugins:
    multiPoint: {enabled: [{name: Changing, weight: WEIGHT}]}
"""
PLUGIN: Final = """
from moorage import PermitPlugin, ScorePlugin, Wait


class Changing(ScorePlugin, PermitPlugin):
    def __init__(self, *, handle):
        self._handle = handle

    def score(self, cycle, pod, node):
        return ANSWER

    def permit(self, cycle, pod, node_name):
        # Some wait a little: reloads find pods on permit, and their plugins outlive them.
        if pod.uid[-1] in "01234567":
            self._handle.call_later(0.5, lambda: self._let_go(pod.uid))
            return Wait(60.0)
        return None

    def _let_go(self, uid):
        if (waiting := self._handle.waiting_pod(uid)) is not None:
            waiting.allow(self.name)
"""
BY_NUMBER: Final = "int(node.name.removeprefix('n-'))"
MAX_PODS: Final = 1500
MAX_BUILD_CPU_MS: Final = 20.0
MAX_SWAP_CPU_MS: Final = 100.0
"""About 12 microseconds for each of at most 3,000 pending pods."""
BAD: Final[tuple[Callable[[str], str], ...]] = (
    lambda text: text[: len(text) // 2],
    lambda text: text.replace("Changing", "Nobody"),
    lambda text: text.replace("config.k8s.io/v1", "config.k8s.io/v9"),
)


class Mounted:
    """A directory as the kubelet mounts a ConfigMap: each change is a new directory, and a link is switched to it."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._count = 0
        self.config = directory / "config.yaml"

    def put(self, text: str) -> None:
        """Replace the content of the file atomically."""
        self._count += 1
        new, link = self._directory / f"..{self._count}", self._directory / "..tmp"
        new.mkdir()
        (new / "config.yaml").write_text(text)
        link.symlink_to(new.name)
        link.replace(self._directory / "..data")
        if not self.config.is_symlink():
            self.config.symlink_to("..data/config.yaml")


class Reloaded:
    """One scheduler with files that change under load, and its log of the changes."""

    def __init__(self, plane: ControlPlane, directory: Path, *flags: str) -> None:
        self._kubeconfig, self._token = plane.kubeconfig(), plane.tokens["admin"]
        (self._port,) = free_ports(1)
        self._mounted, self._plugin = Mounted(directory), directory / "changing_plugin.py"
        self._good = CONFIG.replace("KUBECONFIG", str(self._kubeconfig))
        self.config = self._mounted.config
        self._flags = (
            f"--config={self.config}",
            "--plugin=changing_plugin:Changing",
            *serving(plane, self._port),
            *LEASE,
            *flags,
        )
        self._plugin.write_text(PLUGIN.replace("ANSWER", BY_NUMBER))
        self._mounted.put(self.weighing(1))

    def save_plugin(self, text: str, **words: str) -> None:
        """Write the plugin's file, with some words replaced."""
        for word, instead in words.items():
            text = text.replace(word, instead)
        self._plugin.write_text(text)

    async def change_gate(self, number: int) -> None:
        """Change the plugin, every other time to invalid Python, and wait until the change is processed."""
        before, result = await self.counts(), "refused" if number % 2 else "success"
        self.save_plugin(GATE if result == "success" else GATE + "!", OPEN="False", VERSION=f"version {number}")
        await self.counted(result, before.get(result, 0) + 1)

    def weighing(self, weight: int) -> str:
        """Return a configuration with a weight of the plugin."""
        return self._good.replace("WEIGHT", str(weight))

    def running(self) -> AbstractContextManager[SchedulerProcess]:
        """Run the scheduler."""
        return scheduler(self._kubeconfig, *self._flags, leader_elect=True)

    def change(self, number: int) -> str:
        """Change a file to a valid or invalid one, in turn; return the expected result."""
        if number % 4 == 3:
            self._plugin.write_text(PLUGIN.replace("ANSWER", f"{number}"))
        elif number % 2:
            self._mounted.put(BAD[number // 4 % len(BAD)](self.weighing(1)))
            return "refused"
        else:
            self._mounted.put(self.weighing(number + 2))
        return "success"

    async def counts(self) -> dict[str, float]:
        """Return the number of changes by result."""
        return await self._read("moorage_config_reloads_total")

    async def holds(self) -> dict[str, float]:
        """Return the number of pauses of the loop by step."""
        return await self._read("moorage_config_reload_hold_seconds_count")

    async def _read(self, name: str) -> dict[str, float]:
        result = await asyncio.to_thread(metric, self._port, name, self._token)
        return {labels.split('"')[1]: number for labels, number in result.items()}

    async def counted(self, result: str, number: float) -> None:
        """Wait until a number of changes ended with a result."""
        deadline = time.monotonic() + PATIENCE
        while (await self.counts()).get(result, 0) < number:
            assert time.monotonic() < deadline, f"{number} {result} were not counted: {await self.counts()}"
            await asyncio.sleep(0.1)

    async def weight(self) -> int:
        """Return the plugin's weight in the active configuration."""
        response = msgspec.json.decode(await asyncio.to_thread(page, self._port, "/configz", self._token))
        enabled = response["componentconfig"]["profiles"][0]["plugins"]["multiPoint"]["enabled"]
        (weight,) = [entry["weight"] for entry in enabled if entry["name"] == "Changing"]
        return int(weight)

    async def weighs(self, weight: int) -> bool:
        """Return whether a weight is active."""
        return await self.weight() == weight

    async def churn(self) -> None:
        """Change the plugin's file every second, every other time to invalid Python."""
        for number in count():
            await asyncio.sleep(1.0)
            self._plugin.write_text(PLUGIN.replace("ANSWER", f"{BY_NUMBER} + 0 * {number}" if number % 2 else "!"))

    async def round(self, number: int, cluster: LiveCluster) -> None:
        """Create some pods, change a file, and check that it is applied or rejected; all within a second."""
        began, before = time.monotonic(), await self.counts()
        names = [f"p-{number}-{i}" for i in range(PODS_A_ROUND)]
        loading = asyncio.create_task(_add_one_by_one(cluster, names))
        result = self.change(number)
        await self.counted(result, before.get(result, 0) + 1)
        await loading
        await asyncio.sleep(max(0.0, began + 1.0 - time.monotonic()))


async def _add_one_by_one(cluster: LiveCluster, names: list[str]) -> None:
    """Create pods during a second, so that some arrive while a change is applied."""
    for name in names:
        await cluster.add_pods(name, cpu="10m")
        await asyncio.sleep(0.6 / len(names))


class TakenUp(NamedTuple):
    """The pauses of one reload, from the log: elapsed time, and CPU time, which other processes do not make longer."""

    build_ms: float
    build_cpu_ms: float
    swap_ms: float
    swap_cpu_ms: float


def taken_up(log: str) -> list[TakenUp]:
    """Find the log lines about changes."""
    lines = [line for line in log.splitlines() if '"plugins swapped between cycles"' in line]
    items = (dict(re.findall(r"(\w+)=([0-9.]+)", line)) for line in lines)
    return [TakenUp(*(kind(fields[name]) for name, kind in TakenUp.__annotations__.items())) for fields in items]


def show_what_held_up_the_loop(changes: list[TakenUp], decisions: Path) -> None:
    """Print the pauses of the loop during reloads, with the attempts of the same minute for comparison."""
    report = {name: [getattr(change, name) for change in changes] for name in TakenUp._fields}
    report["attempt_ms"] = [decision.took * 1e3 for decision in read_log(decisions)]
    for name, numbers in report.items():
        sys.stdout.write(f"{name}: {len(numbers)} times, median {median(numbers):.2f}, max {max(numbers):.2f}\n")
    assert median(report["build_cpu_ms"]) < MAX_BUILD_CPU_MS
    assert median(report["swap_cpu_ms"]) < MAX_SWAP_CPU_MS


async def fetch_lease(client: ApiClient) -> Lease:
    return await client.get(Lease, "reloaded", "kube-system")


async def reasons(client: ApiClient) -> Counter[str]:
    """Count the events on the lease."""
    response = msgspec.json.decode(await client.request("GET", EVENTS))["items"]
    return Counter(event["reason"] for event in response if event["involvedObject"]["name"] == "reloaded")


def test_reloads_every_second_under_load(
    plane: ControlPlane, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    decisions = tmp_path / "decisions.jsonl"
    reloaded = Reloaded(plane, tmp_path, f"--decision-log={decisions}")
    expected = [f"p-{number}-{i}" for number in range(ROUNDS) for i in range(PODS_A_ROUND)]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*(f"n-{i}" for i in range(NODES)), cpu="16")
        with reloaded.running() as process:
            await process.logged('"scheduling"')
            lease = await fetch_lease(cluster.client)
            for number in range(ROUNDS):
                await reloaded.round(number, cluster)
            await cluster.wait_for("every pod has a node", lambda pods: bound(pods, expected))
            await in_the_end(cluster, process, lease)
            assert process.stop() == 0
            attempts = Counter(decision.pod.partition("/")[2] for decision in read_log(decisions))
            assert attempts == Counter(expected), "no reload cost a pod an attempt"
            show_what_held_up_the_loop(taken_up(process.own_log), decisions)

    async def in_the_end(cluster: LiveCluster, process: SchedulerProcess, reserved: Lease) -> None:
        after, counts = await fetch_lease(cluster.client), await reloaded.counts()
        assert after.spec.holder_identity == reserved.spec.holder_identity, "the lease was kept"
        assert after.spec.lease_transitions == reserved.spec.lease_transitions
        assert cluster.witness.moved() == [], "each pod was bound once"
        assert counts["refused"] >= ROUNDS // 4, counts
        assert counts["success"] >= ROUNDS // 2, counts
        holds = await reloaded.holds()
        assert holds["swap"] == counts["success"]
        assert holds["build"] >= counts["success"]
        report = await reasons(cluster.client)
        assert (report["ConfigurationRefused"], report["ConfigurationReloaded"]) == (
            counts["refused"],
            counts["success"],
        )
        assert process.own_log.count("plugins of the previous configuration are closed") == counts["success"], (
            "after their last binding"
        )
        assert "internal error" not in process.own_log
        assert "Traceback" not in process.own_log
        assert await reloaded.weight() == max(range(0, ROUNDS, 2)) + 2, "the active configuration is shown"

    live(story)


HELD: Final = 1500
READY: Final = 1500
GATE: Final = """
from moorage import PreEnqueuePlugin, Status


class Changing(PreEnqueuePlugin):
    def pre_enqueue(self, pod):
        is_held = pod.name.startswith("held-") and not OPEN
        return Status.unresolvable("VERSION") if is_held else None
"""


def test_reloads_with_thousands_of_pending_pods(
    plane: ControlPlane, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pods are pending before the scheduler starts; the last change releases gated pods."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    decisions = tmp_path / "decisions.jsonl"
    reloaded = Reloaded(plane, tmp_path, f"--decision-log={decisions}")
    reloaded.save_plugin(GATE, OPEN="False", VERSION="first")
    reserved, ready = [f"held-{i}" for i in range(HELD)], [f"p-{i}" for i in range(READY)]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*(f"n-{i}" for i in range(2 * NODES)), cpu="64")
        await cluster.add_pods(*reserved, *ready, cpu="10m")
        with reloaded.running() as process:
            await process.logged('"scheduling"')
            for number in range(4):
                await reloaded.change_gate(number)
            await cluster.wait_for("all schedulable pods have a node", lambda pods: bound(pods, ready))
            await reloaded.change_gate(4)
            pods = await cluster.pods()
            assert not any(pods[name].node_name for name in reserved), "the pods are gated"
            reloaded.save_plugin(GATE, OPEN="True", VERSION="last")
            await cluster.wait_for("everybody has a node", lambda pods: bound(pods, [*reserved, *ready]))
            assert cluster.witness.moved() == [], "each pod was bound once"
            assert "Traceback" not in process.own_log
            assert process.stop() == 0
            attempts = Counter(decision.pod.partition("/")[2] for decision in read_log(decisions))
            assert attempts == Counter([*reserved, *ready]), "no reload cost a pod an attempt"
            changes = taken_up(process.own_log)
            show_what_held_up_the_loop(changes, decisions)

    live(story)


def test_weight_is_tried_in_shadow_promoted_and_reverted(
    plane: ControlPlane, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All under load; the plugin's file also changes every second, every other time to invalid Python."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.syspath_prepend(str(tmp_path))
    shadow, log = tmp_path / "shadow.yaml", tmp_path / "shadow.jsonl"
    reloaded = Reloaded(plane, tmp_path, f"--shadow={shadow}", f"--shadow-log={log}")
    # A shadow neither elects nor connects, so its file omits both fields.
    fields = [line for line in reloaded.weighing(77).splitlines() if not line.startswith(("leader", "client"))]
    shadow.write_text("\n".join(fields))
    unnamed = ("--config", str(reloaded.config))
    command = (*unnamed, "--plugin", "changing_plugin:Changing")
    active = reloaded.config.read_text()

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*(f"n-{i}" for i in range(NODES)), cpu="64")
        with reloaded.running() as process:
            await process.logged("the shadow is ready")
            reserved, load = await fetch_lease(cluster.client), Load(cluster)
            await load.until("the shadow would have decided otherwise", lambda: differing(log) >= 20)
            assert next(iter(read_report(log).plugins)) == "Changing", "the plugin that caused the difference"
            assert await asyncio.to_thread(run, ["promote", str(shadow), *command, "--dry-run"]) == 0
            assert await asyncio.to_thread(run, ["promote", str(shadow), *unnamed]) == 2, "the plugin is unknown"
            assert reloaded.config.read_text() == active

            churning = asyncio.create_task(reloaded.churn())
            assert await asyncio.to_thread(run, ["promote", str(shadow), *command]) == 0
            await load.until("the shadow is in charge", lambda: reloaded.weighs(77))
            assert "resourceName: reloaded" in reloaded.config.read_text()
            assert await asyncio.to_thread(run, ["promote", "--undo", *unnamed]) == 0
            assert reloaded.config.read_text() == active
            await load.until("it was taken back", lambda: reloaded.weighs(1))
            churning.cancel()
            process.send(signal.SIGHUP)
            await cluster.wait_for("every pod has a node", lambda pods: bound(pods, load.names))
            assert cluster.witness.moved() == [], "each pod was bound once"
            assert (await fetch_lease(cluster.client)).spec.holder_identity == reserved.spec.holder_identity
            assert "Traceback" not in process.own_log
            assert process.stop() == 0

    live(story)


def differing(log: Path) -> int:
    """Count the differing decisions of the shadow."""
    return read_report(log).results.get("differs", 0) if log.exists() else 0


class Load:
    """Continuous creation of pods."""

    def __init__(self, cluster: LiveCluster) -> None:
        self._cluster = cluster
        self.names: list[str] = []

    async def until(self, description: str, holds: Callable[[], Awaitable[bool] | bool]) -> None:
        """Create pods until a condition holds."""
        deadline = time.monotonic() + PATIENCE
        while True:
            answer = holds()
            if answer if isinstance(answer, bool) else await answer:
                return
            assert time.monotonic() < deadline, f"timeout while waiting until {description}"
            names = [f"q-{len(self.names) + i}" for i in range(PODS_A_ROUND)] if len(self.names) < MAX_PODS else []
            self.names += names
            await self._cluster.add_pods(*names, cpu="10m")
            await asyncio.sleep(0.5)
