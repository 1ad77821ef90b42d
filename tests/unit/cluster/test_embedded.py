"""The embedded cluster: nodes of manifests, and events of its controllers."""

import asyncio

import msgspec

from moorage.cluster.apiserver.server import ApiServer
from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
from moorage.common.clock import SystemClock
from moorage.kube.client.credentials import FixedCredentials
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.rest import ApiClient
from moorage.kube.manifests import Document

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
