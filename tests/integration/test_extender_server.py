"""The extender as a server on a cluster: access, responses to invalid requests, and pods placed through it."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from moorage import BindPlugin, CycleState, FilterPlugin, Handle, NodeInfo, Pod, ScorePlugin, Status
from moorage.common.errors import InputError, PluginError
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.http.tls import ClientTls
from moorage.kube.http.web_service import WebService
from moorage.scheduler.extender_server.served import select_served
from moorage.scheduler.extender_server.server import MAX_BODY, ExtenderOptions, ExtenderServer
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import Cluster
from tests.support.certificates import Authority

POD = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}, "spec": {"containers": []}}
PATIENCE = 60.0


class Third(FilterPlugin, ScorePlugin, BindPlugin):
    """Prefers the third node, rejects the first, and binds."""

    def __init__(self, *, handle: Handle) -> None:
        self.handle = handle

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if pod.name == "broken":
            raise ValueError("no idea")
        return Status.unresolvable("node(s) were the first") if node.name == "node-1" else None

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        if pod.name == "broken":
            raise ValueError("no idea")
        return 100 if node.name == "node-3" else 0

    async def bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        await self.handle.cluster.bind(pod, node_name)
        return None


class Running:
    """A listening extender."""

    def __init__(self, server: ExtenderServer, url: str, tls: ClientTls | None = None) -> None:
        self.server = server
        self.url = url
        self.service = WebService(url, tls=tls)

    async def ask(self, path: str, body: Any = None, method: str = "POST") -> tuple[int, Any]:
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await self.service.send(method, path, sent)
        with contextlib.suppress(ValueError):
            return answer.status, json.loads(answer.body)
        return answer.status, answer.body.decode()

    async def ready(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while (await self.ask("/readyz", method="GET"))[0] != 200:
                await asyncio.sleep(0.02)


@asynccontextmanager
async def extender(
    cluster: Cluster,
    capsys: pytest.CaptureFixture[str],
    *plugins: type[Plugin],
    tls: ClientTls | None = None,
    **options: Any,
) -> AsyncIterator[Running]:
    policy = load_policy(collect_plugins(plugins), enabled=plugins)
    connection: Connection = cluster.client.connection
    served = select_served(policy, [plugin.name for plugin in plugins])
    server = ExtenderServer(served, ExtenderOptions(port=0, **options), connection)
    task = asyncio.create_task(server.serve())
    async with asyncio.timeout(PATIENCE):
        while "urlPrefix: " not in (printed := capsys.readouterr().out):
            assert not task.done(), task.result()
            await asyncio.sleep(0.01)
    running = Running(server, printed.partition("urlPrefix: ")[2].split()[0], tls)
    try:
        yield running
    finally:
        running.service.close()
        server.stop()
        async with asyncio.timeout(PATIENCE):
            await task


def test_requests_invalid_data_and_pages(capsys: pytest.CaptureFixture[str]) -> None:
    async def story() -> None:
        async with Cluster(nodes=3, scheduler=False) as cluster, extender(cluster, capsys, Third) as running:
            await running.ready()
            names = ["node-3", "node-1", "node-2"]
            status, response = await running.ask("/filter", {"Pod": POD, "NodeNames": names})
            assert (status, response["NodeNames"], response["Error"]) == (200, ["node-3", "node-2"], "")
            assert response["FailedAndUnresolvableNodes"] == {"node-1": "node(s) were the first"}
            assert await running.ask("/prioritize", {"Pod": POD, "NodeNames": ["node-2", "node-3"]}) == (
                200,
                [{"Host": "node-2", "Score": 0}, {"Host": "node-3", "Score": 100}],
            )
            victims = {"node-1": {"Pods": [{"UID": "1"}]}, "node-2": {"Pods": [{"UID": "1"}]}}
            status, response = await running.ask("/preempt", {"Pod": POD, "NodeNameToMetaVictims": victims})
            assert (status, [*response["NodeNameToMetaVictims"]]) == (200, ["node-2"])

            broken = {"Pod": {**POD, "metadata": {"name": "broken"}}, "NodeNames": names}
            status, response = await running.ask("/filter", broken)
            assert (status, "no idea" in response["Error"]) == (200, True)
            assert (await running.ask("/prioritize", broken))[0] == 500

            assert await running.ask("/filter", b"<html>") == (400, {"Error": found_in("the body: it is not a JSON")})
            assert await running.ask("/filter", {"Pod": POD, "Nodes": {}}) == (400, {"Error": found_in("nodeCacheCap")})
            assert await running.ask("/filter", method="GET") == (405, {"Error": "/filter must be called with POST"})
            assert await running.ask("/nothing", {}) == (404, found_in("404 page not found"))
            assert (await running.ask("/filter", b" " * (MAX_BODY + 1)))[0] == 413

            _, metrics = await running.ask("/metrics", method="GET")
            assert 'moorage_extender_requests_total{code="400",verb="filter"} 2.0' in metrics
            assert 'moorage_extender_plugin_failures_total{verb="filter"} 1.0' in metrics
            assert 'moorage_extender_request_duration_seconds_count{verb="preempt"} 1.0' in metrics
            assert 'scheduler_cache_size{type="nodes"} 3.0' in metrics

    asyncio.run(story())


class found_in(str):  # noqa: N801 - used as a verb: body == found_in("a part of it")
    """Equals each text that contains it."""

    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and str(self) in other.__str__()


def test_requests_fail_until_the_cache_is_synced(capsys: pytest.CaptureFixture[str]) -> None:
    class NeverReady(Third):
        async def start(self) -> None:
            await asyncio.Event().wait()

    async def story() -> None:
        async with Cluster(nodes=1, scheduler=False) as cluster, extender(cluster, capsys, NeverReady) as running:
            spec = {"Pod": POD, "NodeNames": ["node-1"]}
            assert await running.ask("/filter", spec) == (503, {"Error": found_in("the cache is not synced yet")})
            assert (await running.ask("/readyz", method="GET"))[0] == 500
            assert await running.ask("/livez", method="GET") == (200, "ok")

    asyncio.run(story())


class SsdOnly(FilterPlugin):
    """Rejects nodes without a label."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None if node.labels.get("disk") == "ssd" else Status.unresolvable("node(s) had no ssd")


def test_rejection_waits_for_a_change_that_kube_scheduler_has_seen(capsys: pytest.CaptureFixture[str]) -> None:
    """The pod is requested repeatedly before the watch delivers the label."""

    async def story() -> None:
        async with Cluster(nodes=1, scheduler=False) as cluster, extender(cluster, capsys, SsdOnly) as running:
            await running.ready()
            spec = {"Pod": POD, "NodeNames": ["node-1"]}
            _, response = await running.ask("/filter", spec)
            assert response["FailedAndUnresolvableNodes"] == {"node-1": "node(s) had no ssd"}
            again = asyncio.create_task(running.ask("/filter", spec))
            await asyncio.sleep(0.2)
            assert not again.done()
            patch = json.dumps({"metadata": {"labels": {"disk": "ssd"}}}).encode()
            await cluster.client.request("PATCH", "/api/v1/nodes/node-1", patch, "application/merge-patch+json")
            _, response = await again
            assert response["NodeNames"] == ["node-1"]
            _, metrics = await running.ask("/metrics", method="GET")
            assert 'moorage_extender_requests_total{code="200",verb="filter"} 2.0' in metrics

    asyncio.run(story())


def test_plugin_that_fails_to_start_ends_the_server_with_its_error() -> None:
    class NoService(Third):
        async def start(self) -> None:
            raise ValueError("no service")

    async def story() -> None:
        async with Cluster(nodes=1, scheduler=False) as cluster:
            served = select_served(load_policy(collect_plugins([NoService]), enabled=[NoService]), [NoService.name])
            server = ExtenderServer(served, ExtenderOptions(port=0), cluster.client.connection)
            with pytest.raises(PluginError, match=r"NoService\.start raised ValueError: no service"):
                await asyncio.wait_for(server.serve(), PATIENCE)

    asyncio.run(story())


def test_requests_without_a_client_certificate_are_rejected(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    authority = Authority.create_in(tmp_path)
    certificate, key = authority.issue("extender", hosts=("127.0.0.1",))
    client, client_key = authority.issue("system:kube-scheduler")
    options: dict[str, Any] = {
        "cert_file": str(certificate),
        "key_file": str(key),
        "client_ca_file": str(authority.file),
    }
    existing = ClientTls("here", authority=authority.file, certificate=client, key=client_key)
    unknown = ClientTls("here", authority=authority.file)

    async def story() -> None:
        async with Cluster(nodes=1, scheduler=False) as cluster, extender(cluster, capsys, Third, **options) as running:
            assert running.url.startswith("https://127.0.0.1:")
            friend, stranger = (Running(running.server, running.url, tls) for tls in (existing, unknown))
            await stranger.ready()
            spec = {"Pod": POD, "NodeNames": ["node-1"]}
            assert (await friend.ask("/filter", spec))[0] == 200
            for path, method in (("/filter", "POST"), ("/bind", "POST"), ("/metrics", "GET"), ("/elsewhere", "GET")):
                assert (await stranger.ask(path, spec, method))[0] == 401
            friend.service.close()
            stranger.service.close()

    asyncio.run(story())


UNSAFE = {
    "a public address": ({"address": "0.0.0.0"}, "--address: 0.0.0.0 is reachable from other machines"),
    "a certificate without a key": ({"cert_file": "a"}, "--tls-cert-file: the certificate or its key is missing"),
    "a client CA without TLS": ({"client_ca_file": "a"}, "--client-ca-file: clients without TLS have no"),
}


@pytest.mark.parametrize(("options", "message"), UNSAFE.values(), ids=UNSAFE)
def test_unsafe_options_are_rejected(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as refusal:
        ExtenderOptions(**options).check()
    assert message in str(refusal.value)


def test_other_hosts_can_be_allowed() -> None:
    ExtenderOptions(address="0.0.0.0", allow_anyone=True).check()


def test_scheduler_places_and_binds_pods_through_the_extender(capsys: pytest.CaptureFixture[str]) -> None:
    """The scheduler is Moorage, with the same protocol; the live test uses kube-scheduler."""

    async def story() -> None:
        async with Cluster(nodes=3, scheduler=False) as outer, extender(outer, capsys, Third) as running:
            await running.ready()
            verbs = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "preemptVerb": "preempt", "weight": 1}
            stanza = {"urlPrefix": running.url, "bindVerb": "bind", "nodeCacheCapable": True, **verbs}
            await outer.apply({**POD, "apiVersion": "v1", "kind": "Pod", "spec": {"containers": [CONTAINER]}})
            await place_with(outer, stanza)
            assert [pod.node_name for pod in outer.pods()] == ["node-3"]
            _, metrics = await running.ask("/metrics", method="GET")
            assert 'moorage_extender_requests_total{code="200",verb="bind"} 1.0' in metrics

    asyncio.run(story())


CONTAINER = {"name": "main", "image": "app:1"}


async def place_with(cluster: Cluster, stanza: dict[str, Any]) -> None:
    """Run a scheduler with an extender on a cluster until its pods have nodes."""
    from moorage.common.clock import SystemClock
    from moorage.kube.client.rest import ApiClient
    from moorage.scheduler.wiring.assembly import ApiConnection, assemble

    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    policy = load_policy(collect_plugins(), json.dumps({**head, "extenders": [stanza]}))
    client, for_events = ApiClient(cluster.client.connection), ApiClient(cluster.client.connection)
    clock = SystemClock()
    parts = assemble(policy, ApiConnection(client, for_events, clock, policy.config.client_connection), clock)
    informing = asyncio.create_task(parts.connection.informers.run())
    await parts.connection.informers.synced()
    parts.deliveries.start_through_loop()
    scheduling = asyncio.create_task(parts.loop.run())
    await cluster.wait_for(lambda: all(pod.node_name for pod in cluster.pods()))
    for task in (informing, scheduling):
        task.cancel()
    await asyncio.gather(informing, scheduling, return_exceptions=True)
    parts.close()
