"""Clusters for the page: a few nodes, pods on them, and pods that wait for different reasons."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from moorage.cluster.files.loading import cluster_from_documents
from moorage.cluster.runs.recording import RunRecorder
from moorage.cluster.runs.replay import Replay
from moorage.cluster.simulation.simulation import simulate
from moorage.insight.page.replayed_cluster import ReplayedCluster, ReplayedRun
from moorage.insight.page.service import PageService
from moorage.insight.page.static_cluster import StaticCluster
from moorage.insight.whatif.sources import LoadedCluster
from moorage.kube.http.messages import HttpRequest
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy

Content = dict[str, Any]


def node(name: str, **more: Any) -> Content:
    """Describe a node of four CPUs; ``labels``, ``spec`` and ``allocatable`` may be given."""
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "10", **more.get("allocatable", {})}
    metadata = {"name": name, "labels": {"topology.kubernetes.io/zone": f"zone-{name[-1]}", **more.get("labels", {})}}
    status = {"allocatable": allocatable, "capacity": allocatable}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": more.get("spec", {}), "status": status}


def pod(name: str, cpu: str = "1", *, node: str = "", **spec: Any) -> Content:
    """Describe a pod, on a node or waiting."""
    container = {"name": "main", "image": "main:1", "resources": {"requests": {"cpu": cpu}}}
    placed = {"nodeName": node} if node else {}
    metadata = {"name": name, "namespace": "shop", "labels": {"app": name.partition("-")[0]}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **placed, **spec},
    }


def job(name: str, completions: int, minutes: int, cpu: str = "1") -> Content:
    """Describe a job with pods that run for some minutes."""
    template = {
        "metadata": {"annotations": {"moorage.io/run-for": f"{minutes}m"}},
        "spec": {"restartPolicy": "Never", "containers": pod("x", cpu)["spec"]["containers"]},
    }
    spec = {"completions": completions, "parallelism": completions, "template": template}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "namespace": "batch"}, "spec": spec}


SMALL = (
    node("n1"),
    node("n2", spec={"unschedulable": True}),
    node("n3", spec={"taints": [{"key": "gpu", "effect": "NoSchedule"}]}, allocatable={"example.com/gpu": "2"}),
    pod("web-1", node="n1"),
    pod("web-2", "2", node="n1"),
    pod("big-1", "5"),
    pod("big-2", "5"),
    pod("held", schedulingGates=[{"name": "example.com/quota"}]),
    pod("fits"),
)


def policy(text: str = "") -> Policy:
    """Load a policy; the default one without a text."""
    return load_policy(collect_plugins(), text or None)


def loaded(contents: Sequence[Content] = SMALL, note: str = "") -> LoadedCluster:
    """Take objects for a cluster that was read."""
    return LoadedCluster(list(to_documents(contents, source="test")), note, honors_nominations=False)


def still(contents: Sequence[Content] = SMALL, title: str = "test") -> StaticCluster:
    """Show an unchanged cluster."""
    return StaticCluster(loaded(contents), policy(), title)


def replayed(contents: Sequence[Content], text: str = "") -> Replay:
    """Simulate a cluster and record it."""
    recorder = RunRecorder()
    simulate(cluster_from_documents(loaded(contents).documents), policy(text), recorder=recorder)
    return Replay(recorder)


def played(contents: Sequence[Content], configurations: Mapping[str, str] | None = None) -> ReplayedCluster:
    """Simulate a cluster under one or more configurations, by name."""
    texts = configurations or {"as configured": ""}
    runs = [ReplayedRun(name, policy(text), replayed(contents, text)) for name, text in texts.items()]
    return ReplayedCluster(loaded(contents), runs, "cluster.yaml")


Talk = Callable[[PageService], Awaitable[Any]]


def served(talk: Talk, contents: tuple[Content, ...] = SMALL) -> Any:
    async def go() -> Any:
        source: StaticCluster = still(contents)
        await source.start()
        assert source._trying is not None
        await source._trying
        try:
            return await talk(PageService(source))
        finally:
            await source.stop()

    return asyncio.run(go())


async def get(service: PageService, path: str) -> Any:
    reply = await service.answer(HttpRequest("GET", f"/ui/api/{path}".encode(), [], b""))
    assert reply.status == 200, reply.body
    return json.loads(reply.body)
