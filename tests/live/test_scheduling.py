"""`moorage scheduler` on a real API server: pods are bound, reported, rescued and never lost."""

from collections.abc import Awaitable, Callable

from tests.live.cluster import SCHEDULED, LiveCluster, bound
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane

Live = Callable[[Callable[[LiveCluster], Awaitable[None]]], None]


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def test_pods_are_bound_and_their_owners_told(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*names("node", 3))
        await cluster.add_pods(*names("web", 20))
        with scheduler(plane.kubeconfig()) as process:
            await cluster.wait_for("all pods are bound", bound)
            await cluster.add_pods("late")
            await cluster.wait_for("the late pod is bound", lambda pods: bound(pods, ["late"]))
            assert process.stop() == 0
        (event,) = await cluster.events("Scheduled", "late")
        node = (await cluster.pods())["late"].node_name
        assert event.note == f"Successfully assigned default/late to {node}"
        assert (event.type, event.action, event.reporting_controller) == ("Normal", "Binding", "default-scheduler")

    live(story)


def test_a_pod_that_fits_nowhere_is_reported_and_bound_when_a_node_appears(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("small", cpu="1")
        await cluster.add_pods("big", cpu="2")
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("the pod is reported", lambda pods: pods["big"].condition(SCHEDULED) is not None)
            condition = (await cluster.pods())["big"].condition(SCHEDULED)
            assert condition is not None
            assert (condition.status, condition.reason) == ("False", "Unschedulable")
            assert condition.message.startswith("0/1 nodes are available: 1 Insufficient cpu.")
            assert condition.last_transition_time is not None
            event = await cluster.event("FailedScheduling", "big")
            assert (event.note, event.type) == (condition.message, "Warning")
            await cluster.add_nodes("large", cpu="4")
            await cluster.wait_for("the pod is bound", bound)

    live(story)


def test_an_important_pod_takes_the_place_of_others(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        high = {"metadata": {"name": "high"}, "value": 1000}
        await cluster.create("/apis/scheduling.k8s.io/v1/priorityclasses", high)
        await cluster.add_nodes("only", cpu="2")
        await cluster.add_pods("low-0", "low-1", cpu="1")
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("the node is full", bound)
            await cluster.add_pods("important", cpu="1500m", priorityClassName="high")
            await cluster.wait_for("the important pod is bound", lambda pods: bound(pods, ["important"]))
            assert set(await cluster.pods()) == {"important"}
            victim = await cluster.event("Preempted", "low-0")
            assert victim.related is not None
            assert victim.related.name == "important"

    live(story)


def test_two_schedulers_each_take_their_own_pods(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*names("node", 3))
        await cluster.add_pods(*names("ours", 5))
        await cluster.add_pods(*names("theirs", 5), schedulerName="other")
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("our pods are bound", lambda pods: bound(pods, names("ours", 5)))
            pods = await cluster.pods()
            assert not any(pods[name].node_name for name in names("theirs", 5))
        await cluster.client.request("DELETE", "/api/v1/namespaces/default/pods?gracePeriodSeconds=0")

    live(story)
