"""kube-scheduler and Moorage on the same cluster have the same metrics with the same labels."""

import asyncio
import signal
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import Final, NamedTuple

from manual.tables import ABSENT_METRICS
from prometheus_client.parser import text_string_to_metric_families

from tests.live.cluster import LiveCluster, bound
from tests.live.scheduler import scheduler
from tests.live.serving import page
from tests.support.control_plane import ControlPlane, free_ports

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]
Families = dict[str, "Shape"]
HIGH: Final = {"metadata": {"name": "high"}, "value": 1000}
LATE: Final = {
    "authorization_attempts_total",
    "scheduler_inflight_events",
    "scheduler_queueing_hint_execution_duration_seconds",
}
OURS: Final = ("moorage_*", "python_*", "process_*")
#: Metrics of rare events, which may occur for only one of the two in this short time.
RARE: Final = ("scheduler_permit_wait_duration_seconds", "scheduler_plugin_execution_duration_seconds")


class Shape(NamedTuple):
    """The compared part of a metric."""

    kind: str
    stability: str
    labels: frozenset[str]
    buckets: frozenset[str]


def families(text: str) -> Families:
    """Return every metric on a page."""
    results: Families = {}
    for family in text_string_to_metric_families(text):
        is_total = f"\n# TYPE {family.name}_total counter" in text
        labels = {label for sample in family.samples for label in sample.labels}
        bounds = frozenset(f"{float(sample.labels['le']):.6g}" for sample in family.samples if "le" in sample.labels)
        # prometheus_client does not recognize the names of two counters.
        kind = "counter" if family.type in ("unknown", "counter") else family.type
        shape = Shape(kind, family.documentation.partition(" ")[0], frozenset(labels - {"le"}), bounds)
        results[f"{family.name}_total" if is_total else family.name] = shape
    return results


@contextmanager
def kube_scheduler(plane: ControlPlane, *flags: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run kube-scheduler."""
    process = plane.spawn("kube-scheduler", f"--kubeconfig={plane.kubeconfig()}", *flags)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()


def serving(plane: ControlPlane, port: int) -> list[str]:
    reviews = [
        f"--{description}-kubeconfig={plane.kubeconfig()}" for description in ("authentication", "authorization")
    ]
    return [f"--secure-port={port}", *reviews]


async def watched(cluster: LiveCluster, plane: ControlPlane, port: int, name: str) -> Families:
    """Schedule, reject, retry and preempt pods; return the metrics of the scheduler."""
    token = plane.tokens["admin"]
    await cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", HIGH)
    await cluster.add_nodes(f"{name}-1", cpu="2")
    await cluster.add_pods(f"{name}-low", cpu="2")
    await cluster.wait_for("the first pod", lambda pods: bound(pods, [f"{name}-low"]))
    await cluster.add_pods(f"{name}-high", cpu="2", priorityClassName="high")
    await cluster.wait_for("the preemptor", lambda pods: bound(pods, [f"{name}-high"]))
    await cluster.add_pods(f"{name}-later", cpu="2")
    await cluster.wait_for("a condition", lambda pods: pods[f"{name}-later"].condition("PodScheduled") is not None)
    await cluster.add_nodes(f"{name}-2", cpu="2")
    await cluster.wait_for("the woken pod", lambda pods: bound(pods, [f"{name}-later"]))
    await asyncio.to_thread(page, port, "/metrics", "false")
    deadline = asyncio.get_running_loop().time() + 60
    while True:
        # Upstream counts requests after their responses, and in-flight events and hints a second later.
        result = families(await asyncio.to_thread(page, port, "/metrics", token))
        if result.keys() >= LATE or asyncio.get_running_loop().time() > deadline:
            return result
        await asyncio.sleep(0.3)


def test_both_schedulers_have_the_same_metrics(plane: ControlPlane, live: Live) -> None:
    reference: Families = {}

    async def upstream(cluster: LiveCluster) -> None:
        (port,) = free_ports(1)
        with kube_scheduler(plane, *serving(plane, port), "--leader-elect-resource-name=theirs"):
            reference.update(await watched(cluster, plane, port, "theirs"))

    async def moorage(cluster: LiveCluster) -> None:
        (port,) = free_ports(1)
        with scheduler(plane.kubeconfig(), *serving(plane, port), leader_elect=True):
            actual = await watched(cluster, plane, port, "ours")
        compare(actual, reference)

    live(upstream)
    live(moorage)


def compare(actual: Families, upstream: Families) -> None:
    missing = [
        name for name in upstream.keys() - actual.keys() if not _is_one_of(name, (*ABSENT_METRICS, *RARE, "process_*"))
    ]
    assert not missing, f"kube-scheduler has these, too: {sorted(missing)}"
    more = [name for name in actual.keys() - upstream.keys() if not _is_one_of(name, (*OURS, *RARE))]
    assert not more, f"kube-scheduler does not have these: {sorted(more)}"
    shared = [name for name in actual.keys() & upstream.keys() if not name.startswith("process_")]
    different = {name: (actual[name], upstream[name]) for name in shared if actual[name] != upstream[name]}
    assert not different, different
    assert len(shared) > 30


def _is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)
