"""Pod groups of an API server that serves only their stable version: the scheduler and readers find it by discovery."""

import asyncio
from collections import Counter
from typing import Any

import msgspec
import pytest

from moorage.cluster.apiserver.api import Api
from moorage.cluster.embedded import ClusterOptions, EmbeddedCluster
from moorage.cluster.in_process import InProcessClient
from moorage.common.clock import Clock, VirtualClock
from moorage.common.errors import NotFound
from moorage.common.virtual_time import run_virtual
from moorage.insight.snapshots.cluster_reader import read_cluster
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.features import FeatureGates
from moorage.kube.manifests import Document
from moorage.scheduler.wiring.policy import collect_plugins, load_policy

STABLE = "scheduling.k8s.io/v1"
BETA = "scheduling.k8s.io/v1beta1"
GROUP: dict[str, Any] = {
    "apiVersion": STABLE,
    "kind": "PodGroup",
    "metadata": {"name": "ring", "namespace": "default"},
    "spec": {"schedulingPolicy": {"gang": {"minCount": 2}}},
}


def member(name: str) -> dict[str, Any]:
    spec = {"containers": [{"name": "c", "image": "i"}], "schedulingGroup": {"podGroupName": "ring"}}
    metadata = {"name": name, "namespace": "default"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


class Server:
    """An API of 1.38 without some versions, and the requests that it received."""

    def __init__(self, clock: Clock, *without: str) -> None:
        self.features = FeatureGates(release="1.38")
        self.without = set(without)
        self.requests: Counter[str] = Counter()
        self._api, self._clock = Api(clock, features=self.features), clock

    def client(self) -> InProcessClient:
        return Client(self, self._api, self._clock)


class Client(InProcessClient):
    """Finds nothing below the versions that its server does not serve."""

    def __init__(self, server: Server, api: Api, clock: Clock) -> None:
        super().__init__(api, clock)
        self._server = server

    async def _execute(self, method: str, path: str, *rest: Any) -> Any:
        self._server.requests[f"{method} {path.partition('?')[0]}"] += 1
        if any(f"{path}/".startswith(f"/apis/{version}/") for version in self._server.without):
            raise NotFound("the server could not find the requested resource", status=404)
        return await super()._execute(method, path, *rest)


async def schedule(server: Server, clock: Clock) -> None:
    """Schedule a gang of two, and check its condition."""
    policy = load_policy(collect_plugins(), features=server.features)
    options = ClusterOptions(nodes=2, policy=policy, features=server.features)
    async with EmbeddedCluster(server.client, clock, options) as cluster:
        await cluster.apply(Document(item, "test") for item in (GROUP, member("a"), member("b")))
        for _ in range(100):
            await asyncio.sleep(1)
            body = msgspec.json.decode(await cluster.client.request("GET", "/api/v1/namespaces/default/pods"))
            if all(item["spec"].get("nodeName") for item in body["items"]):
                break
        path = f"/apis/{STABLE}/namespaces/default/podgroups/ring"
        await asyncio.sleep(1)
        status = msgspec.json.decode(await cluster.client.request("GET", path))["status"]
        assert [(item["status"], item["reason"]) for item in status["conditions"]] == [("True", "Scheduled")]
        assert len(body["items"]) == 2


@pytest.mark.parametrize("without", [(BETA,), ()], ids=["v1 only", "v1 and v1beta1"])
def test_gang_is_scheduled_through_the_stable_version(without: tuple[str, ...]) -> None:
    clock = VirtualClock()
    server = Server(clock, *without)
    run_virtual(schedule(server, clock), clock)
    assert server.requests[f"PATCH /apis/{STABLE}/namespaces/default/podgroups/ring/status"] == 1
    assert server.requests[f"GET /apis/{STABLE}/podgroups"] > 1
    assert not [path for path in server.requests if path.startswith(f"GET /apis/{BETA}/podgroups")]


def test_snapshot_reads_the_stable_version() -> None:
    clock = VirtualClock()
    server = Server(clock, BETA)

    async def read(**options: Any) -> dict[str, Any]:
        client = server.client()
        await client.request("POST", f"/apis/{STABLE}/namespaces/default/podgroups", msgspec.json.encode(GROUP))
        contents = (await read_cluster(client, **options)).contents
        (group,) = [item for item in contents if item["kind"] == "PodGroup"]
        return group

    group = run_virtual(read(all_fields=True), clock)
    assert (group["apiVersion"], group["metadata"]["name"]) == (BETA, "ring"), "snapshots have the decoded version"


def test_reads_and_writes_use_the_discovered_version() -> None:
    clock = VirtualClock()
    server = Server(clock, BETA)

    async def write() -> None:
        client = server.client()
        kind = client.resolve_kind(PodGroup)
        assert kind.api_version == BETA, "before discovery"
        assert (await client.discover(kind)).api_version == STABLE
        created = await client.create(msgspec.convert({"metadata": GROUP["metadata"], "spec": GROUP["spec"]}, PodGroup))
        patched = await client.patch(created, {"metadata": {"labels": {"a": "b"}}})
        assert [item.metadata.labels for item in await client.list(PodGroup)] == [patched.metadata.labels]
        server.without = {STABLE}
        assert (await client.discover(kind)).api_version == BETA, "another server, or a rollback"

    run_virtual(write(), clock)
