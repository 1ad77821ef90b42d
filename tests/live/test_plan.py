"""Plans on a real control plane, with kube-controller-manager and kube-scheduler, end as predicted."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from moorage.insight.plan.draining import plan_drain
from moorage.insight.plan.making_room import plan_room
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.pod import Pod
from tests.live.cluster import NAMESPACE, LiveCluster
from tests.live.conftest import Story
from tests.live.controllers import COLLECTOR, controller_manager
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane, binaries
from tests.support.plan_samples import GOALS, SampleGoal, carry_out, check_goal, load_sample, read_session

REPLICA_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
BUDGETS = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets"
CONTROLLERS = ("replicaset-controller", "disruption-controller", COLLECTOR)
ENOUGH = 60.0


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
        with await read_session(cluster.client) as session:
            plan = plan_drain(session, ["n1"])
        assert plan.feasible, plan.reason
        assert [len(step.evict) for step in plan.steps] == [1, 1, 1], "the budget allows one at a time"
        expected = sorted(("web", item.node) for step in plan.steps for item in step.evict)
        await carry_out(cluster.client, plan, time.time, ENOUGH)
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
        with await read_session(cluster.client) as session:
            plan = plan_room(session, ["large"])
        assert plan.feasible, plan.reason
        assert plan.summary.moves == 1
        target = plan.placed[0].node
        await carry_out(cluster.client, plan, time.time, ENOUGH)
        await cluster.wait_for("the pod has room", lambda pods: pods["large"].node_name == target)
        await remove(cluster)

    with controller_manager(plane, *CONTROLLERS), scheduler(plane.kubeconfig(), program=kube_scheduler()):
        live(story)


@pytest.mark.parametrize("goal", GOALS.values(), ids=GOALS)
def test_samples_end_as_predicted(
    plane: ControlPlane, live: Callable[[Story], None], goal: SampleGoal, tmp_path: Path
) -> None:
    async def story(cluster: LiveCluster) -> None:
        try:
            await check_goal(cluster.client, goal, time.time, asyncio.sleep)
        finally:
            await remove(cluster)
            await cluster.remove_all(f"/api/v1/namespaces/{NAMESPACE}/pods")  # pods that no scheduler bound
            for content in load_sample(goal.sample):
                kind = BY_NAME[content["kind"]]
                if kind.name not in ("Node", "Pod", "PodDisruptionBudget"):
                    path = kind.path(content["metadata"]["name"], NAMESPACE if kind.namespaced else "")
                    await cluster.client.request("DELETE", path)

    # With several workers, the order in which they find nodes decides between equal scores.
    config = tmp_path / "config.yaml"
    config.write_text(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 1\n"
        f"leaderElection: {{leaderElect: false}}\nclientConnection: {{kubeconfig: {plane.kubeconfig()}}}\n"
    )
    flags = (f"--config={config}",)
    with controller_manager(plane, *CONTROLLERS), scheduler(plane.kubeconfig(), *flags, program=kube_scheduler()):
        live(story)


def kube_scheduler() -> tuple[str, ...]:
    return (str(binaries() / "kube-scheduler"),)
