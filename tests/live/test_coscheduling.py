"""Coscheduling on a real API server: by annotations without a definition, then by PodGroups."""

import asyncio
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from moorage.contrib.community.coscheduling.gangs import CoschedulingGroup
from moorage.kube.api.kinds import find_kind
from moorage.kube.client.rest import ApiClient
from tests.live.cluster import NAMESPACE, PATIENCE, LiveCluster, bound
from tests.live.conftest import Story
from tests.live.scheduler import scheduler
from tests.support.control_plane import ControlPlane
from tests.support.custom_writes import until_served
from tests.support.gangs import COSCHEDULING

DEFINITIONS = Path(__file__).parents[2] / "deploy/community/definitions.yaml"
GANG = {"annotations": {"moorage.io/gang": "ring", "moorage.io/gang-size": "3"}}
GROUP = {
    "apiVersion": "scheduling.x-k8s.io/v1alpha1",
    "kind": "PodGroup",
    "metadata": {"name": "train", "namespace": NAMESPACE},
    "spec": {"minMember": 3},
}


async def add_pod(cluster: LiveCluster, name: str, **metadata: object) -> None:
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "1"}}}
    body = {"metadata": {"name": name, "namespace": NAMESPACE, **metadata}, "spec": {"containers": [container]}}
    await cluster.create(f"/api/v1/namespaces/{NAMESPACE}/pods", body)


def test_gangs_need_no_feature_gate(plane: ControlPlane, live: Callable[[Story], None], tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    connection = f"clientConnection: {{kubeconfig: {plane.kubeconfig()}}}"
    config.write_text(COSCHEDULING.replace("{ARGS}", "{}") + f"{connection}\nleaderElection: {{leaderElect: false}}\n")
    groups = find_kind(CoschedulingGroup)

    async def story(cluster: LiveCluster) -> None:
        await cluster.add_nodes("n1", cpu="3")
        with scheduler(plane.kubeconfig(), f"--config={config}"):
            await add_pod(cluster, "ring-0", **GANG)
            await add_pod(cluster, "ring-1", **GANG)
            message = await cluster.event("FailedScheduling", "ring-0")
            assert message.note == 'the group "ring" requires 3 pods, but only 2 exist'
            await add_pod(cluster, "ring-2", **GANG)
            await cluster.wait_for("the gang runs", lambda pods: bound(pods, ["ring-0", "ring-1", "ring-2"]))

            for definition in yaml.safe_load_all(DEFINITIONS.read_text()):
                await cluster.create("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", definition)
            await until_served(cluster.client, groups)
            await cluster.create(groups.path(namespace=NAMESPACE), GROUP)
            for number in range(3):
                await add_pod(cluster, f"train-{number}", labels={"scheduling.x-k8s.io/pod-group": "train"})
            message = await cluster.event("FailedScheduling", "train-0")
            await cluster.add_nodes("n2", cpu="3")
            await cluster.wait_for("the group runs", lambda pods: bound(pods, [f"train-{n}" for n in range(3)]))
            deadline = time.monotonic() + PATIENCE
            while (await cluster.client.get(CoschedulingGroup, "train", NAMESPACE)).status.phase != "Running":
                assert time.monotonic() < deadline, "the group's phase is never Running"
                await asyncio.sleep(0.2)

    try:
        live(story)
    finally:
        asyncio.run(_undefine(plane))


async def _undefine(plane: ControlPlane) -> None:
    async with ApiClient(plane.connection()) as client:
        cluster = LiveCluster(client)
        await cluster.remove_all("/apis/apiextensions.k8s.io/v1/customresourcedefinitions")
