"""kube-scheduler and Moorage on one API server: each schedules its own pods, and counts those of the other."""

from collections.abc import Iterator

import pytest

from moorage.kube.client.rest import ApiClient
from tests.live.scenarios.combinations import KUBE_SCHEDULER, MOORAGE, SERVERS, Stage, scheduling
from tests.live.scenarios.listing import Scenario
from tests.live.scenarios.scene import Scene

SCHEDULERS = ("default-scheduler", "moorage")


@pytest.fixture(scope="module", params=SERVERS.values(), ids=tuple(SERVERS))
def both(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Run an API server with kube-scheduler for all pods except those of Moorage."""
    with (
        request.param() as stage,
        scheduling(stage.kubeconfig, KUBE_SCHEDULER),
        scheduling(stage.kubeconfig, MOORAGE, "moorage"),
    ):
        yield stage


async def each_scheduler_takes_its_own_pods(scene: Scene) -> None:
    await scene.nodes({"a": {}, "b": {}})
    for number in range(5):
        for owner in SCHEDULERS:
            await scene.pod(f"{owner}-{number}", schedulerName=owner)
    await scene.pod("forgotten", schedulerName="nobody")
    for owner in SCHEDULERS:
        for number in range(5):
            event = await scene.event("Scheduled", f"{owner}-{number}")
            assert event.reporting_controller == owner
            assert event.reporting_instance.startswith(f"{owner}-")
            await scene.node_of(f"{owner}-{number}")
    forgotten = (await scene.pods())["forgotten"]
    assert (forgotten.node_name, forgotten.condition("PodScheduled")) == ("", None)


async def each_scheduler_counts_the_pods_of_the_other(scene: Scene) -> None:
    for first, second in (("default-scheduler", "moorage"), ("moorage", "default-scheduler")):
        node = f"of-{first}"
        here = {"kubernetes.io/hostname": node}
        await scene.node(node)
        await scene.pod(f"{first}-first", requests={"cpu": "3"}, schedulerName=first, nodeSelector=here)
        await scene.node_of(f"{first}-first")
        await scene.pod(f"{second}-second", requests={"cpu": "3"}, schedulerName=second, nodeSelector=here)
        await scene.rejection(f"{second}-second", "1 Insufficient cpu")
        await scene.delete("v1/pods", f"{first}-first")
        assert await scene.node_of(f"{second}-second") == node


async def each_scheduler_preempts_pods_of_the_other(scene: Scene) -> None:
    important = f"{scene.namespace}-important"
    await scene.create("scheduling.k8s.io/v1/priorityclasses", important, value=1000)
    for first, second in (("default-scheduler", "moorage"), ("moorage", "default-scheduler")):
        node = f"of-{first}"
        here = {"kubernetes.io/hostname": node}
        await scene.node(node)
        await scene.pod(f"{first}-low", requests={"cpu": "3"}, schedulerName=first, nodeSelector=here)
        await scene.running(f"{first}-low")
        high = f"{second}-high"
        await scene.pod(
            high, requests={"cpu": "3"}, schedulerName=second, nodeSelector=here, priorityClassName=important
        )
        assert await scene.node_of(high) == node
        event = await scene.event("Preempted", f"{first}-low")
        assert event.reporting_controller == second


STORIES: tuple[Scenario, ...] = (
    each_scheduler_takes_its_own_pods,
    each_scheduler_counts_the_pods_of_the_other,
    each_scheduler_preempts_pods_of_the_other,
)


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_schedulers_run_side_by_side(both: Stage, story: Scenario) -> None:
    async def play(client: ApiClient) -> None:
        async with Scene(client, story.__name__.replace("_", "-"), SCHEDULERS) as scene:
            await story(scene)

    both.run(play)
