"""Plugins as an extender of the real kube-scheduler place pods as they do in process."""

import asyncio
import os
import random
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.insight.whatif.session import Session
from moorage.kube.api.codec import encode
from moorage.kube.api.pod import Pod
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import Policy, collect_plugins, load_policy
from tests.live.cluster import NAMESPACE, SCHEDULED, LiveCluster, bound
from tests.live.extender_process import extender
from tests.live.proxy import CuttableProxy, through
from tests.live.scheduler import scheduler
from tests.live.serving import fetch_text
from tests.live.test_extender_parity import kube_scheduler
from tests.support.control_plane import ControlPlane

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]
PLUGIN = """
from moorage import FilterPlugin, ScorePlugin, Status

class Thrifty(FilterPlugin, ScorePlugin):
    '''Place pods of a team on nodes without pods of other teams, and prefer cheap nodes.'''

    def filter(self, cycle, pod, node):
        team = pod.labels.get("team")
        if any(other.labels.get("team", team) != team for other in node.pods.values()):
            return Status.unschedulable("node(s) had pods of another team")
        return None

    def score(self, cycle, pod, node):
        return max(0, 100 - int(node.labels["price"]) - 7 * len(node.pods))
"""
OFFERS = """
from moorage import FilterPlugin, Status

class Offers(FilterPlugin):
    '''Pods run on nodes that offer what they want.'''

    def filter(self, cycle, pod, node):
        if node.labels.get("offers") == pod.labels.get("wants"):
            return None
        return Status.unresolvable("node(s) offered something else")
"""
LAG = 0.3
NODES = 24
PODS = 30
PATH = f"/api/v1/namespaces/{NAMESPACE}/pods"


def offer_plugin(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write the plugins to a directory on the path of this process and its children."""
    (directory / "thrifty_plugin.py").write_text(PLUGIN)
    (directory / "offers_plugin.py").write_text(OFFERS)
    monkeypatch.syspath_prepend(str(directory))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(directory), os.environ.get("PYTHONPATH", "")]))


def config_file(path: Path, plane: ControlPlane, **more: Any) -> Path:
    content = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": str(plane.kubeconfig())},
        "leaderElection": {"leaderElect": False},
        **more,
    }
    path.write_text(yaml.safe_dump(content))
    return path


def in_process(weight: int) -> dict[str, Any]:
    enabled = [{"name": "Thrifty", "weight": weight}]
    return {"profiles": [{"schedulerName": "default-scheduler", "plugins": {"multiPoint": {"enabled": enabled}}}]}


async def add_nodes(cluster: LiveCluster, chance: random.Random) -> list[dict[str, Any]]:
    created = []
    for number, price in enumerate(chance.sample(range(100), NODES)):
        amounts = {"cpu": str(chance.randint(2, 8)), "memory": f"{chance.randint(4, 32)}Gi", "pods": "20"}
        name = f"node-{number}"
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name, "price": str(price)}}
        node = {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
        node["status"] = {"allocatable": amounts, "capacity": amounts}
        await cluster.create("/api/v1/nodes", node)
        created.append(node)
    return created


def pods(chance: random.Random) -> list[dict[str, Any]]:
    items = []
    for number in range(PODS):
        requests = {"cpu": f"{chance.randint(1, 15) * 100}m", "memory": f"{chance.randint(1, 30) * 100}Mi"}
        container = {"name": "main", "image": "app:1", "resources": {"requests": requests}}
        metadata = {"name": f"pod-{number}", "namespace": NAMESPACE, "labels": {"team": chance.choice("abc")}}
        spec = {"containers": [container], "terminationGracePeriodSeconds": 0}
        items.append({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    return items


def without_ties(nodes: list[dict[str, Any]], policy: Policy) -> Callable[[list[Pod], dict[str, Any]], bool]:
    """Return facts that show whether one node is the best for a pod."""

    def has_one_best(there: list[Pod], pod: dict[str, Any]) -> bool:
        documents = [
            *nodes,
            *(encode(other) for other in there),
            {**pod, "metadata": {**pod["metadata"], "uid": "new"}},
        ]
        with Session(to_documents(documents, source="here"), policy) as session:
            attempt = session.try_pod(f"{NAMESPACE}/{pod['metadata']['name']}", in_detail=True, preempts=False)
        fitting = [entry for entry in attempt.decision.nodes.values() if not entry.plugin]
        totals = sorted((entry.total or 0 for entry in fitting), reverse=True)
        return len(totals) < 2 or totals[0] > totals[1]

    return has_one_best


async def placed_one_by_one(
    cluster: LiveCluster,
    items: list[dict[str, Any]],
    is_wanted: Callable[[list[Pod], dict[str, Any]], bool],
    url: str = "",
) -> dict[str, str]:
    """Create pods one by one, each after the result of the previous one; return their nodes.

    An extender also needs the previous pods: it receives them only with their bindings.
    """
    results: dict[str, str] = {}
    for pod in items:
        name = pod["metadata"]["name"]
        there = [other for other in (await cluster.pods()).values() if other.node_name]
        if not is_wanted(there, pod):
            continue
        while url and f'scheduler_cache_size{{type="pods"}} {len(there)}.0\n' not in await asyncio.to_thread(
            fetch_text, url
        ):
            await asyncio.sleep(0.05)
        await cluster.create(PATH, pod)
        await cluster.wait_for(f"{name} is decided", partial(_decided, name))
        results[name] = (await cluster.pods())[name].node_name
    return results


def _decided(name: str, pods: dict[str, Pod]) -> bool:
    return name in pods and (bool(pods[name].node_name) or pods[name].condition(SCHEDULED) is not None)


def test_extender_places_pods_like_the_plugin_in_process(
    plane: ControlPlane, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Weight 10 in process equals weight 1 as an extender: scores of extenders count tenfold."""
    offer_plugin(tmp_path, monkeypatch)
    flag = "--plugin=thrifty_plugin:Thrifty"
    actual = config_file(tmp_path / "ours.yaml", plane, **in_process(weight=10))

    async def story(cluster: LiveCluster) -> None:
        chance = random.Random(18)
        nodes, items = await add_nodes(cluster, chance), pods(chance)
        policy = load_policy(collect_plugins(paths=["thrifty_plugin:Thrifty"]), actual)
        has_one_best = without_ties(nodes, policy)
        with scheduler(plane.kubeconfig(), f"--config={actual}", flag):
            inside = await placed_one_by_one(cluster, items, has_one_best)
        await cluster.remove_all(f"{PATH}?gracePeriodSeconds=0")
        async with extender(plane.kubeconfig(), flag) as stanza:
            upstream = config_file(tmp_path / "theirs.yaml", plane, extenders=stanza)
            with kube_scheduler(plane, upstream):
                url = f"{stanza[0]['urlPrefix']}/metrics"
                outside = await placed_one_by_one(cluster, items, lambda _, pod: pod["metadata"]["name"] in inside, url)
        assert outside == inside
        assert len(inside) > PODS // 2
        assert len({node for node in inside.values() if node}) > 3

    live(story)


async def add_pod(cluster: LiveCluster, name: str, team: str, cpu: str, **spec: Any) -> None:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    full = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
    await cluster.create(PATH, {"metadata": {"name": name, "labels": {"team": team}}, "spec": full})


def test_pods_that_only_the_plugin_rejects_are_preempted(
    plane: ControlPlane, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler would evict only the large pod, for its CPU; then the plugin would still reject the preemptor."""
    offer_plugin(tmp_path, monkeypatch)

    async def story(cluster: LiveCluster) -> None:
        urgent = {"metadata": {"name": "urgent"}, "value": 1000}
        await cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", urgent)
        amounts = {"cpu": "2", "memory": "4Gi", "pods": "20"}
        metadata = {"name": "node-0", "labels": {"price": "1"}}
        status = {"allocatable": amounts, "capacity": amounts}
        await cluster.create("/api/v1/nodes", {"metadata": metadata, "status": status})
        async with extender(plane.kubeconfig(), "--plugin=thrifty_plugin:Thrifty") as stanza:
            with kube_scheduler(plane, config_file(tmp_path / "theirs.yaml", plane, extenders=stanza)):
                for name, cpu in (("small", "100m"), ("large", "1700m")):
                    await add_pod(cluster, name, "a", cpu)
                    await cluster.wait_for(f"{name} is bound", partial(bound, names=[name]))
                await add_pod(cluster, "first", "b", "1700m", priorityClassName="urgent")
                await cluster.wait_for("the urgent pod is bound", lambda pods: bound(pods, ["first"]))
                assert [*await cluster.pods()] == ["first"]

    live(story)


def test_pods_that_wait_for_a_label_are_placed_if_the_extender_sees_it_late(
    plane: ControlPlane, live: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """kube-scheduler retries a pod immediately, and only once: no other event follows the label."""
    offer_plugin(tmp_path, monkeypatch)

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("node-0")
        async with (
            CuttableProxy(plane.api_port, delay=LAG).running() as proxy,
            extender(through(plane, proxy.port), "--plugin=offers_plugin:Offers") as stanza,
        ):
            with kube_scheduler(plane, config_file(tmp_path / "theirs.yaml", plane, extenders=stanza)):
                for expected in ("ssd", "gpu", "fpga"):
                    metadata = {"name": expected, "labels": {"wants": expected}}
                    spec = {"containers": [{"name": "main", "image": "app:1"}]}
                    await cluster.create(PATH, {"metadata": metadata, "spec": spec})
                    await cluster.wait_for(f"{expected} is rejected", partial(_decided, expected))
                    await asyncio.sleep(3.0)  # longer than its backoff
                    await cluster.merge("/api/v1/nodes/node-0", {"metadata": {"labels": {"offers": expected}}})
                    await cluster.wait_for(f"{expected} is bound", partial(bound, names=[expected]), seconds=30.0)

    live(story)
