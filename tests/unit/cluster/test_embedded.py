"""The embedded cluster: nodes of manifests, and events of its controllers."""

import asyncio

import msgspec
import pytest

from moorage.cluster.absent_objects import create_owners
from moorage.cluster.apiserver.server import ApiServer
from moorage.cluster.controllers.garbage_collector import PATIENCE
from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
from moorage.common.clock import SystemClock
from moorage.kube.api.pod import Pod
from moorage.kube.api.workloads import ReplicaSet
from moorage.kube.client.credentials import FixedCredentials
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import Document
from moorage.testing.cluster import Cluster, in_virtual_time

NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "extra", "labels": {"disk": "ssd"}},
    "status": {"capacity": {"cpu": "4"}},
}
REPLICAS = {
    "apiVersion": "apps/v1",
    "kind": "ReplicaSet",
    "metadata": {"name": "web"},
    "spec": {
        "replicas": 1,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "web"}]}},
    },
}


def test_kubelets_run_the_nodes_of_manifests_and_controllers_record_events():
    asyncio.run(apply_manifests())


async def apply_manifests():
    async with ApiServer(plain=True) as server:
        connection = Connection(server.plain_url, "test", credentials=FixedCredentials(f"Bearer {server.token}"))
        options = ClusterOptions(nodes=1)
        async with EmbeddedCluster(lambda: ApiClient(connection), SystemClock(), options) as cluster:
            await cluster.apply([Document(NODE, "a"), Document(REPLICAS, "b")])
            async with asyncio.timeout(30):
                while not (is_ready(await get(cluster, "/api/v1/nodes/extra")) and await events(cluster)):
                    await asyncio.sleep(0.05)
            assert (await get(cluster, "/api/v1/nodes/extra"))["metadata"]["labels"]["disk"] == "ssd"
            assert "SuccessfulCreate" in await events(cluster)


async def get(cluster, path):
    return msgspec.json.decode(await cluster.client.request("GET", path))


async def events(cluster):
    return [item["reason"] for item in (await get(cluster, "/api/v1/namespaces/default/events"))["items"]]


def is_ready(node):
    return {"Ready": "True"}.items() <= {
        item["type"]: item["status"] for item in node.get("status", {}).get("conditions", ())
    }.items()


def make_pod(name, owner_kind="", owner="", node="extra", labels=None):
    references = [{"apiVersion": "apps/v1", "kind": owner_kind, "name": owner, "uid": "old", "controller": True}]
    metadata = {"name": name, "labels": labels or {"app": owner}, **({"ownerReferences": references} if owner else {})}
    spec = {"nodeName": node, "containers": [{"name": "c", "image": "web"}]}
    return Document({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}, name)


@in_virtual_time
async def test_pods_of_a_file_keep_their_names_and_nodes_whether_or_not_it_contains_their_owners():
    manifests = [
        Document(NODE, "a"),
        Document(REPLICAS, "b"),
        make_pod("web-old", "ReplicaSet", "web"),
        make_pod("shop-1", "ReplicaSet", "shop"),
        make_pod("db-0", "StatefulSet", "db"),
        make_pod("log-1", "DaemonSet", "log"),
    ]
    manifests += create_owners(manifests)
    async with Cluster(nodes=0) as cluster:
        cluster.embedded.keep_dependents(manifests)
        await cluster.embedded.apply(manifests)
        await cluster.sleep(10.0 * PATIENCE)
        pods = await cluster.client.list(Pod)
        uids = {item.name: item.uid for item in await cluster.client.list(ReplicaSet)}
    owners = {pod.name: pod.metadata.owner_references[0].uid for pod in pods}
    assert {*owners} == {"web-old", "shop-1", "db-0", "log-1"}
    assert (owners["web-old"], owners["shop-1"], owners["log-1"]) == (uids["web"], uids["shop"], "old")
    assert {pod.node_name for pod in pods} == {"extra"}


CREATED = {
    "one owner for all its pods": (
        [make_pod("a", "ReplicaSet", "web"), make_pod("b", "ReplicaSet", "web")],
        [("web", 2)],
    ),
    "another pod would be adopted": (
        [make_pod("a", "ReplicaSet", "web"), make_pod("b", labels={"app": "web"})],
        [],
    ),
    "pods have no common labels": (
        [make_pod("a", "ReplicaSet", "web", labels={"x": "1"}), make_pod("b", "ReplicaSet", "web")],
        [],
    ),
    "a pod of a StatefulSet is missing": ([make_pod("db-1", "StatefulSet", "db")], []),
    "other kinds would create more pods": ([make_pod("a", "DaemonSet", "log"), make_pod("b", "Job", "j")], []),
}


@pytest.mark.parametrize(("pods", "created"), CREATED.values(), ids=CREATED)
def test_absent_owners_are_created_from_their_pods(pods, created):
    owners = create_owners(pods)
    assert [(item.content["metadata"]["name"], item.content["spec"]["replicas"]) for item in owners] == created
    assert all("nodeName" not in item.content["spec"]["template"]["spec"] for item in owners)
