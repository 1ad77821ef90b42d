"""Plans on a real control plane, with kube-controller-manager and kube-scheduler, end as predicted."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from moorage.insight.plan.applying import PlanApplier
from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.making_room import plan_room
from moorage.insight.plan.plan_model import Plan
from moorage.insight.snapshots.cluster_reader import read_cluster
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import to_documents
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from tests.live.cluster import NAMESPACE, LiveCluster
from tests.live.conftest import Story
from tests.live.controllers import COLLECTOR, controller_manager
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane, binaries

REPLICA_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
CONTROLLERS = ("replicaset-controller", "disruption-controller", COLLECTOR)
ENOUGH = 60.0


def open_session(documents: Any) -> Session:
    return Session(documents, load_policy(collect_plugins()))


async def planned(client: ApiClient, make: Callable[[Session], Plan]) -> Plan:
    contents = (await read_cluster(client)).contents
    with open_session(to_documents(contents, source="the cluster")) as session:
        return make(session)


async def replicate(cluster: LiveCluster, name: str, replicas: int, cpu: str, on: str) -> None:
    """Create pods of a ReplicaSet on one node: all other nodes are cordoned until the pods run."""
    nodes = [node for node in ("n1", "n2", "n3") if node != on]
    for node in nodes:
        await cluster.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": True}})
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": cpu}}}
    template = {
        "metadata": {"labels": {"app": name}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    await cluster.create(REPLICA_SETS, {"metadata": {"name": name}, "spec": spec})

    def run(pods: dict[str, Pod]) -> bool:
        own = [pod for pod in pods.values() if pod.labels.get("app") == name]
        return [pod.status.phase for pod in own] == ["Running"] * replicas

    await cluster.wait_for(f"the pods of {name} run", run)
    for node in nodes:
        await cluster.merge(f"/api/v1/nodes/{node}", {"spec": {"unschedulable": None}})


async def carry_out(client: ApiClient, plan: Plan) -> None:
    while plan.progress is None or plan.progress.done < len(plan.steps):
        result = await PlanApplier(client, open_session, now=time.time, seconds=ENOUGH).run_step(plan)
        assert result.is_done, result.lines
        plan = result.plan


async def where(cluster: LiveCluster) -> list[tuple[str, str]]:
    pods = [pod for pod in (await cluster.pods()).values() if not pod.is_terminating]
    return sorted((pod.labels.get("app", pod.name), pod.node_name) for pod in pods)


async def remove(cluster: LiveCluster) -> None:
    for path in (REPLICA_SETS, BUDGETS):
        await cluster.remove_all(path)


def test_a_drain_ends_as_predicted(plane: ControlPlane, live: Callable[[Story], None]) -> None:
    async def story(cluster: LiveCluster) -> None:
        for name, cpu in (("n1", "4"), ("n2", "6"), ("n3", "11")):
            await cluster.add_nodes(name, cpu=cpu)
        await replicate(cluster, "web", 3, "1", "n1")
        spec = {"minAvailable": 2, "selector": {"matchLabels": {"app": "web"}}}
        await cluster.create(BUDGETS, {"metadata": {"name": "web"}, "spec": spec})
        await asyncio.sleep(2)
        plan = await planned(cluster.client, lambda session: plan_drain(session, ["n1"]))
        assert plan.feasible, plan.reason
        assert [len(step.evict) for step in plan.steps] == [1, 1, 1], "the budget allows one at a time"
        expected = sorted(("web", item.node) for step in plan.steps for item in step.evict)
        await carry_out(cluster.client, plan)
        assert await where(cluster) == expected
        await remove(cluster)

    with controller_manager(plane, *CONTROLLERS), scheduler(plane.kubeconfig(), program=kube_scheduler()):
        live(story)


def test_a_defragmentation_ends_as_predicted(plane: ControlPlane, live: Callable[[Story], None]) -> None:
    async def story(cluster: LiveCluster) -> None:
        for name in ("n1", "n2", "n3"):
            await cluster.add_nodes(name)
        for name, on, cpu in (("a", "n1", "2"), ("b", "n2", "2"), ("c", "n3", "3")):
            await replicate(cluster, name, 1, cpu, on)
        await cluster.add_pods("large", cpu="3")
        await asyncio.sleep(1)
        plan = await planned(cluster.client, lambda session: plan_room(session, ["large"]))
        assert plan.feasible, plan.reason
        assert plan.summary.moves == 1
        target = plan.placed[0].node
        await carry_out(cluster.client, plan)
        await cluster.wait_for("the pod has room", lambda pods: pods["large"].node_name == target)
        await remove(cluster)

    with controller_manager(plane, *CONTROLLERS), scheduler(plane.kubeconfig(), program=kube_scheduler()):
        live(story)


def kube_scheduler() -> tuple[str, ...]:
    return (str(binaries() / "kube-scheduler"),)
