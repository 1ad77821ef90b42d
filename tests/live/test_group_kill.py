"""The scheduler is killed between two bindings of a gang, and another one completes the gang."""

from collections.abc import Callable, Iterator
from typing import Final

import pytest

from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from tests.live.cluster import NAMESPACE, LiveCluster
from tests.live.conftest import Story
from tests.live.faulty import FaultyServer, Hold
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane, control_plane

Live = Callable[[Story], None]
Pods = dict[str, Pod]

GATES: Final = "--feature-gates=GenericWorkload=true"
SIZE: Final = 6
NAMES: Final = tuple(f"ring-{number}" for number in range(SIZE))


@pytest.fixture(scope="module")
def plane() -> Iterator[ControlPlane]:
    """A control plane that serves groups."""
    with control_plane(GATES, "--runtime-config=scheduling.k8s.io/v1beta1=true") as running:
        yield running


def bound(pods: Pods) -> dict[str, str]:
    return {name: pod.node_name for name, pod in pods.items() if pod.node_name and name in NAMES}


async def add_gang(cluster: LiveCluster) -> None:
    await cluster.add_nodes("node-0", "node-1", cpu="3")
    policy = {"gang": {"minCount": SIZE}}
    await cluster.create(
        BY_TYPE[PodGroup].path(namespace=NAMESPACE),
        {"metadata": {"name": "ring"}, "spec": {"schedulingPolicy": policy}},
    )
    await cluster.add_pods(*NAMES, cpu="1", schedulingGroup={"podGroupName": "ring"})


async def kill_after(cluster: LiveCluster, plane: ControlPlane, bindings: int) -> dict[str, str]:
    """Run a scheduler until it has made this number of bindings, and kill it; return the bound pods."""
    hold = Hold(r"POST .*/binding", bindings)
    async with FaultyServer(plane, hold=hold).running() as kubeconfig:
        with scheduler(kubeconfig, GATES) as first:
            await hold.reached.wait()
            await cluster.wait_for("the bindings are made", lambda pods: len(bound(pods)) == bindings)
            first.kill_all()
    return bound(await cluster.pods())


async def group_says(cluster: LiveCluster) -> list[tuple[str, str]]:
    (group,) = await cluster.client.list(PodGroup, NAMESPACE)
    return [(condition.status, condition.reason) for condition in group.status.conditions]


async def remove_gang(cluster: LiveCluster) -> None:
    path = BY_TYPE[PodGroup].path("ring", NAMESPACE)
    await cluster.client.request("DELETE", path)
    await cluster.merge(path, {"metadata": {"finalizers": None}})


@pytest.mark.parametrize("bindings", [1, SIZE - 1])
def test_partly_bound_gang_is_completed(plane: ControlPlane, live: Live, bindings: int) -> None:
    async def story(cluster: LiveCluster) -> None:
        await add_gang(cluster)
        before = await kill_after(cluster, plane, bindings)
        assert len(before) == bindings
        with scheduler(plane.kubeconfig(), GATES):
            await cluster.wait_for("the gang is complete", lambda pods: len(bound(pods)) == SIZE)
        after = bound(await cluster.pods())
        assert {name: after[name] for name in before} == before, "bound pods keep their nodes"
        assert await group_says(cluster) == [("True", "Scheduled")]
        await remove_gang(cluster)

    live(story)
