"""Devices on a real API server with the real claim controller: each is allocated once, and released."""

from collections.abc import Callable

import pytest

from moorage.kube.api.pod import Pod
from tests.live.cluster import SCHEDULED, LiveCluster, bound
from tests.live.conftest import Story
from tests.live.devices import (
    CLAIMS,
    add_cards,
    add_template,
    device_claims,
    places,
    settled_devices,
)
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane

Live = Callable[[Story], None]

pytestmark = pytest.mark.usefixtures("controllers")


async def add_nodes_with_cards(cluster: LiveCluster, **cards: int) -> None:
    await add_template(cluster)
    await cluster.add_nodes(*cards)
    for node, count in cards.items():
        await add_cards(cluster, node, count)


def names(prefix: str, count: int) -> list[str]:
    return [f"{prefix}-{number}" for number in range(count)]


def waiting(pods: dict[str, Pod]) -> list[Pod]:
    """Return the pods reported as unschedulable."""
    conditions = [(pod, pod.condition(SCHEDULED)) for pod in pods.values() if not pod.node_name]
    return [pod for pod, condition in conditions if condition is not None and condition.reason == "Unschedulable"]


def test_each_claim_of_a_template_gets_a_device(plane: ControlPlane, live: Live) -> None:
    """There are exactly as many devices as pods, so that a miscounted device is detected."""

    async def story(cluster: LiveCluster) -> None:
        await add_nodes_with_cards(cluster, first=4, second=1, third=7, none=0)
        await cluster.add_pods(*names("job", 12), resourceClaims=CLAIMS)
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("all pods are bound", bound)
        claims = await settled_devices(cluster)
        assert len({location for claim in claims.values() for location in places(claim)}) == 12

    live(story)


def test_released_device_is_allocated_to_a_pending_pod(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await add_nodes_with_cards(cluster, first=2, second=1)
        await cluster.add_pods(*names("job", 5), resourceClaims=CLAIMS)
        with scheduler(plane.kubeconfig()):
            for remaining in (2, 1, 0):
                await cluster.wait_for(
                    f"{remaining} pods wait, the others are bound",
                    lambda pods, remaining=remaining: len(waiting(pods)) == remaining == len(pods) - count_bound(pods),  # type: ignore[misc]
                    seconds=90,
                )
                pods = await cluster.pods()
                for pod in waiting(pods):
                    event = await cluster.event("FailedScheduling", pod.name)
                    assert "cannot allocate all claims" in event.note
                if remaining:
                    await cluster.client.delete(next(pod for pod in pods.values() if pod.node_name))
        assert len(await settled_devices(cluster)) == 3

    live(story)


def test_pods_share_a_manually_created_claim(plane: ControlPlane, live: Live) -> None:
    """The first scheduled pod determines the node of the others."""

    async def story(cluster: LiveCluster) -> None:
        await add_nodes_with_cards(cluster, first=1, second=1, third=1)
        request = {"name": "card", "exactly": {"deviceClassName": "card"}}
        content = {"metadata": {"name": "shared"}, "spec": {"devices": {"requests": [request]}}}
        await cluster.create("/apis/resource.k8s.io/v1/namespaces/default/resourceclaims", content)
        shared = [{"name": "card", "resourceClaimName": "shared"}]
        await cluster.add_pods(*names("reader", 4), resourceClaims=shared)
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("all pods are bound", bound)
        pods = await cluster.pods()
        claim = (await device_claims(cluster))["shared"]
        ((pool, _),) = places(claim)
        assert {pod.node_name for pod in pods.values()} == {pool}
        assert {consumer.uid for consumer in claim.status.reserved_for} == {pod.uid for pod in pods.values()}

    live(story)


def count_bound(pods: dict[str, Pod]) -> int:
    return sum(1 for pod in pods.values() if pod.node_name)
