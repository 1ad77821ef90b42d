"""Volumes on a real API server with the real PV controller: claims are bound on the nodes of their pods."""

import asyncio
from collections.abc import Callable

import pytest

from moorage.kube.api.pod import Pod
from tests.live.cluster import SCHEDULED, LiveCluster, bound
from tests.live.conftest import Story
from tests.live.scheduler import scheduler
from tests.live.storage import (
    LOCAL,
    PROVISIONED,
    Provisioner,
    add_claims,
    add_classes,
    add_local_volumes,
    claim_spec,
    claim_volume,
    ephemeral_volume,
    settled_storage,
)
from tests.support.control_plane import ControlPlane

Live = Callable[[Story], None]

pytestmark = pytest.mark.usefixtures("controllers")
NODES = ("node-0", "node-1", "node-2")


def provisioned(story: Story, *, refusals: int = 0) -> Story:
    """Run a provisioner during a scenario that uses all of its rejections."""

    async def run(cluster: LiveCluster) -> None:
        provisioner = Provisioner(cluster.client, refusals=refusals, slowest=0.5)
        task = asyncio.create_task(provisioner.run())
        try:
            await story(cluster)
            assert provisioner.refusals == 0
        finally:
            task.cancel()

    return run


async def add_stateful_set(cluster: LiveCluster, name: str, replicas: int) -> None:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
    apart = {"labelSelector": {"matchLabels": {"app": name}}, "topologyKey": "kubernetes.io/hostname"}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    spec = {
        "replicas": replicas,
        "serviceName": name,
        "selector": {"matchLabels": {"app": name}},
        "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [container], "affinity": affinity}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": claim_spec(PROVISIONED)}],
    }
    await cluster.create("/apis/apps/v1/namespaces/default/statefulsets", {"metadata": {"name": name}, "spec": spec})


def test_stateful_set_gets_volumes_on_the_nodes_of_its_pods(plane: ControlPlane, live: Live) -> None:
    """The first node is rejected once: the scheduler selects another node, and all pods get volumes."""
    replicas = [f"db-{number}" for number in range(3)]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*NODES)
        await add_classes(cluster)
        await add_stateful_set(cluster, "db", len(replicas))
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("all replicas are bound", lambda pods: bound(pods, replicas))
        storage = await settled_storage(cluster)
        assert sorted(storage.claims) == [f"data-{name}" for name in replicas]
        assert {storage.node_of_claim(name) for name in storage.claims} == set(NODES)

    live(provisioned(story, refusals=1))


def test_recreated_replica_uses_its_volume(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*NODES)
        await add_classes(cluster)
        await add_stateful_set(cluster, "db", 1)
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("the replica is bound", lambda pods: bound(pods, ["db-0"]))
            first = (await cluster.pods())["db-0"]
            await cluster.client.delete(first)
            await cluster.wait_for(
                "its successor is bound",
                lambda pods: bound(pods, ["db-0"]) and pods["db-0"].uid != first.uid,
                seconds=90,
            )
        assert (await cluster.pods())["db-0"].node_name == first.node_name
        await settled_storage(cluster)

    live(provisioned(story))


def test_ephemeral_volumes_are_created_for_their_pods(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*NODES)
        await add_classes(cluster)
        await cluster.add_pods("scratch-0", "scratch-1", volumes=[ephemeral_volume(PROVISIONED)])
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("all pods are bound", bound)
        storage = await settled_storage(cluster)
        assert sorted(storage.claims) == ["scratch-0-scratch", "scratch-1-scratch"]

    live(provisioned(story))


def test_local_volumes_are_bound_until_all_are_used(plane: ControlPlane, live: Live) -> None:
    names = [f"disk-{number}" for number in range(5)]

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes(*NODES)
        await add_classes(cluster)
        await add_local_volumes(cluster, "node-0", 1)
        await add_local_volumes(cluster, "node-2", 3)
        await add_claims(cluster, *names, storage_class=LOCAL)
        for name in names:
            await cluster.add_pods(name, volumes=[claim_volume(name)])
        with scheduler(plane.kubeconfig()):
            await cluster.wait_for("four have a disk", lambda pods: count_bound(pods) == 4)
            await cluster.wait_for(
                "the fifth is told", lambda pods: all(pod.condition(SCHEDULED) for pod in pods.values())
            )
            (remaining,) = [pod for pod in (await cluster.pods()).values() if not pod.node_name]
            event = await cluster.event("FailedScheduling", remaining.name)
            assert event.note.startswith(
                "0/3 nodes are available: 3 node(s) didn't find available persistent volumes to bind."
            )
            await add_local_volumes(cluster, "node-1", 1)
            await cluster.wait_for("the fifth is bound", bound)
        storage = await settled_storage(cluster)
        assert all(volume.spec.claim_ref for volume in storage.volumes.values())

    live(story)


def count_bound(pods: dict[str, Pod]) -> int:
    return sum(1 for pod in pods.values() if pod.node_name)
