"""A shadow of a scheduler on a real API server, under load: pods are bound, even if it fails."""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from itertools import chain
from pathlib import Path
from statistics import median

import yaml

from moorage.insight.shadow.report import read_report
from moorage.insight.shadow.shadow_process import MAX_REQUESTS
from moorage.kube.api.kinds import BY_NAME
from moorage.scheduler.decisions.decision_log import read_log
from tests.live.cluster import NAMESPACE, PATIENCE, LiveCluster, bound
from tests.live.scheduler import SchedulerProcess, scheduler
from tests.live.serving import metric
from tests.live.test_metrics import serving
from tests.support.control_plane import ControlPlane, free_ports
from tests.support.generated_objects import MINIMAL

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]

PACKING = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
  - schedulerName: default-scheduler
    pluginConfig:
      - name: NodeResourcesFit
        args: {scoringStrategy: {type: MostAllocated, resources: [{name: cpu, weight: 1}]}}
    plugins:
      score:
        disabled: [{name: NodeResourcesBalancedAllocation}]
"""
"""Fills nodes one by one, where the default spreads."""
EVERY_KIND = Path(__file__).parents[1] / "integration/every_kind.yaml"
ADDITIONAL = ("PersistentVolume", "StorageClass")
WAVES = 6
PODS = 100


def read_shadow_counts(process: SchedulerProcess) -> list[int]:
    """Return the shadow processes: children of the scheduler process."""
    results = []
    for child in process.children():
        for pid in Path(f"/proc/{child}/task/{child}/children").read_text().split():
            if b"moorage.insight.shadow.shadow_worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                results.append(int(pid))
    return results


def test_shadow_finds_differences_without_delaying_pods(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    """It is killed twice under load and restarts; each pod is bound once, and the shadow writes nothing."""
    config, log = tmp_path / "shadow.yaml", tmp_path / "shadow.jsonl"
    config.write_text(PACKING)

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*(f"n{number}" for number in range(20)), cpu="32")
        with scheduler(plane.kubeconfig(), f"--shadow={config}", f"--shadow-log={log}") as process:
            await process.logged("the shadow is ready")
            for wave in range(WAVES):
                names = [f"p{wave}-{number}" for number in range(PODS)]
                adding = asyncio.create_task(cluster.add_pods(*names))
                if wave in (1, 3):
                    for pid in read_shadow_counts(process):
                        os.kill(pid, signal.SIGKILL)
                await adding
                await cluster.wait_for("the wave", lambda pods, names=names: bound(pods, names))  # type: ignore[misc]
                if wave in (0, 1, 3):
                    await wait_for_shadow(process, 1 + (wave >= 1) + (wave >= 3))
            await compared(log, PODS, cluster)
            (last,) = read_shadow_counts(process)
            assert process.stop() == 0
            assert not Path(f"/proc/{last}").exists(), "the shadow ends with its scheduler"

    live(story)
    report = read_report(log)
    assert report.results["differs"] > report.compared // 2
    assert next(iter(report.plugins)) == "NodeResourcesFit"
    assert report.results.get("error", 0) == 0


def test_stopped_shadow_does_not_delay_pods(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    """Dropped decisions are counted; the durations of attempts without, with and with a stopped shadow are printed."""
    config, decisions = tmp_path / "shadow.yaml", tmp_path / "decisions.jsonl"
    config.write_text(PACKING)
    (port,) = free_ports(1)
    flags = (f"--decision-log={decisions}", *serving(plane, port))
    waves = {
        wave: [f"{wave}-{number}" for number in range(MAX_REQUESTS + PODS)] for wave in ("without", "with", "still")
    }

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*(f"n{number}" for number in range(20)), cpu="64")
        with scheduler(plane.kubeconfig(), *flags) as process:
            await process.logged('"scheduling"')
            await placed(cluster, waves["without"])
            assert process.stop() == 0
        with scheduler(plane.kubeconfig(), *flags, f"--shadow={config}") as process:
            await process.logged("the shadow is ready")
            await placed(cluster, waves["with"])
            before = await dropped(plane, port)
            (pid,) = read_shadow_counts(process)
            os.kill(pid, signal.SIGSTOP)
            await placed(cluster, waves["still"])
            assert await dropped(plane, port) - before >= PODS, "more than the limit of pending requests"
            if Path(f"/proc/{pid}").exists():
                os.kill(pid, signal.SIGCONT)
            assert process.stop() == 0

    live(story)
    attempts = [(decision.pod.partition("/")[2], decision.took * 1e3) for decision in read_log(decisions)]
    assert Counter(name for name, _ in attempts) == Counter(chain(*waves.values())), "each pod was tried once"
    for wave in waves:
        took = [millis for name, millis in attempts if name.startswith(f"{wave}-")]
        sys.stdout.write(f"{wave}: {len(took)} attempts, median {median(took):.3f} ms, max {max(took):.2f} ms\n")


def test_shadow_follows_a_cluster_with_objects_of_every_kind(plane: ControlPlane, live: Live, tmp_path: Path) -> None:
    """Some objects exist when the shadow starts, others are created later; workloads are among both."""
    config, log = tmp_path / "shadow.yaml", tmp_path / "shadow.jsonl"
    config.write_text(PACKING)
    contents = [*yaml.safe_load_all(EVERY_KIND.read_text()), *({"kind": kind, **MINIMAL[kind]} for kind in ADDITIONAL)]
    decoded = {*BY_NAME} - {"Node"}
    watched = [(BY_NAME[content["kind"]], content) for content in contents if content["kind"] in decoded]

    async def create(cluster: LiveCluster, name: str) -> None:
        for kind, content in watched:
            namespace = NAMESPACE if kind.namespaced else ""
            await cluster.create(kind.path(namespace=namespace), {**content, "metadata": {"name": name}})

    async def remove(cluster: LiveCluster, name: str) -> None:
        for kind, _ in watched:
            await cluster.client.request("DELETE", kind.path(name, NAMESPACE if kind.namespaced else ""))

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1", "n2")
        await create(cluster, "existing")
        with scheduler(plane.kubeconfig(), f"--shadow={config}", f"--shadow-log={log}") as process:
            await process.logged("the shadow is ready")
            await create(cluster, "later")
            await remove(cluster, "existing")
            await compared(log, 40, cluster)
            assert "the shadow process ended" not in process.log
            assert process.stop() == 0
        await remove(cluster, "later")

    live(story)
    assert read_report(log).results.get("error", 0) == 0


async def placed(cluster: LiveCluster, names: list[str]) -> None:
    """Create pods, and wait until each has a node."""
    await cluster.add_pods(*names, cpu="10m")
    await cluster.wait_for("the wave", lambda pods: bound(pods, names))


async def dropped(plane: ControlPlane, port: int) -> float:
    """Count the decisions that were not sent to the shadow or got no response."""
    return sum((await asyncio.to_thread(metric, port, "moorage_shadow_dropped_total", plane.tokens["admin"])).values())


async def wait_for_shadow(process: SchedulerProcess, times: int) -> None:
    """Wait until the shadow has started this number of times."""
    async with asyncio.timeout(PATIENCE):
        while process.log.count("the shadow is ready") < times:
            await asyncio.sleep(0.1)


async def compared(log: Path, least: int, cluster: LiveCluster) -> None:
    """Create pods in small batches until a number of decisions was compared: a burst would be dropped in part."""
    async with asyncio.timeout(PATIENCE):
        wave = 0
        while read_report(log).compared < least:
            wave += 1
            names = [f"more-{wave}-{number}" for number in range(10)]
            await cluster.add_pods(*names)
            await cluster.wait_for("a few more", lambda pods, names=names: bound(pods, names))  # type: ignore[misc]
            await asyncio.sleep(0.5)
