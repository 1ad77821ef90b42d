"""Informers against a server that fails in every way it can, in virtual time."""

import asyncio
from collections.abc import Coroutine
from random import Random
from typing import Any

import pytest
from tests.support.fault_server import FaultServer

from moorage.common.clock import VirtualClock
from moorage.common.errors import Forbidden, MoorageError
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import Informer, InformerObserver, Informers
from moorage.kube.client.kubeconfig import Connection
from moorage.kube.client.list_watch import PAGE_SIZE, Change
from moorage.kube.client.rest import ApiClient

PODS = "/api/v1/pods"


def pod(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "shop"}, "spec": {}}


class Bench(InformerObserver):
    """A running informer of pods, and its notifications."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FaultServer(self.clock)
        self.failures: list[MoorageError] = []
        self.skipped: list[str] = []
        self.told: dict[str, str] = {}
        self.informers = Informers(self.server.client(), [Pod], self.tell, observer=self)

    def tell(self, kind: Kind, changes: Any) -> None:
        for change in changes:
            assert isinstance(change, Change)
            if change.before is not None:
                del self.told[change.before.name]
            if change.after is not None:
                self.told[change.after.name] = change.after.metadata.resource_version

    def object_malformed(self, resource: str) -> None:
        self.skipped.append(resource)

    def list_watch_failed(self, kind: Kind, error: MoorageError) -> None:
        self.failures.append(error)

    @property
    def lists(self) -> int:
        return sum(1 for request in self.server.requests if "watch" not in request.query)

    def run(self, scenario: Coroutine[Any, Any, None]) -> None:
        async def main() -> None:
            async with asyncio.TaskGroup() as group:
                running = group.create_task(self.informers.run())
                await self.informers.synced()
                await scenario
                running.cancel()

        run_virtual(main(), self.clock)
        names = {key.partition("/")[2]: obj for key, obj in self.server.stored(PODS).items()}
        assert self.told == {name: obj["metadata"]["resourceVersion"] for name, obj in names.items()}


def test_permanent_problem_is_reported_occasionally(logged: list[Any]) -> None:
    clock = VirtualClock()
    server = FaultServer(clock)

    async def work() -> None:
        informer: Informer[Pod] = Informer(server.client(), BY_TYPE[Pod], lambda *_: None, chance=Random(1))
        running = asyncio.create_task(informer.run())
        await asyncio.sleep(1000)
        running.cancel()
        warnings = [entry for entry in logged if entry["log_level"] == "warning"]
        again = [entry for entry in logged if entry["event"] == "list or watch failed again"]
        assert len(warnings) == 4, "at once, then every five minutes"
        assert "forbidden" in warnings[0]["error"]
        assert len(again) > 10

    server.fail(f"GET {PODS}", 403, times=1000, message="pods is forbidden")
    run_virtual(work(), clock)


VOUCHERS = custom_kind("Voucher", "vouchers", "informer.example.org/v1")


def test_unserved_kind_is_reported_occasionally_and_empty(logged: list[Any]) -> None:
    clock = VirtualClock()
    server = FaultServer(clock)

    async def work() -> None:
        informer: Informer[Any] = Informer(server.client(), VOUCHERS, lambda *_: None, chance=Random(1))
        running = asyncio.create_task(informer.run())
        await informer.synced()
        await asyncio.sleep(1000)
        running.cancel()
        warnings = [entry for entry in logged if entry["log_level"] == "warning"]
        assert len(warnings) == 4, "at once, then every five minutes"
        assert warnings[0]["error"].endswith(
            "install the CustomResourceDefinition vouchers.informer.example.org, no restart is needed"
        )

    server.fail("GET /apis/informer.example.org/v1/vouchers", 404, times=1000)
    run_virtual(work(), clock)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_existing_objects_are_listed_and_changes_are_watched(bench: Bench) -> None:
    bench.server.put(PODS, pod("a"))

    async def scenario() -> None:
        bench.server.put(PODS, pod("b"))
        bench.server.remove(PODS, "shop/a")
        await asyncio.sleep(1)
        assert set(bench.told) == {"b"}

    bench.run(scenario())
    assert bench.lists == 1
    assert not bench.failures


def list_three_pages(bench: Bench, failures: int) -> list[tuple[int, int]]:
    """List a page, one of twice its size, and one more pod; after the second page, the given number of requests fail.

    Return for each notification the number of changes, and the number of pages requested before it.
    """
    for number in range(3 * PAGE_SIZE + 1):
        bench.server.put(PODS, pod(f"pod-{number}"))
    notifications: list[tuple[int, int]] = []

    async def work() -> None:
        def tell(_: Kind, changes: Any) -> None:
            if not notifications:
                bench.server.fail("GET", 500, times=failures)
            notifications.append((len(changes), bench.lists))

        informer: Informer[Pod] = Informer(bench.server.client(), BY_TYPE[Pod], tell)
        running = asyncio.create_task(informer.run())
        await informer.synced()
        running.cancel()

    run_virtual(work(), bench.clock)
    return notifications


def test_next_page_is_requested_while_a_page_is_delivered(bench: Bench) -> None:
    assert list_three_pages(bench, failures=0) == [(PAGE_SIZE, 2), (2 * PAGE_SIZE, 3), (1, 3)]


def test_failed_page_is_retried(bench: Bench) -> None:
    assert list_three_pages(bench, failures=2) == [(PAGE_SIZE, 2), (2 * PAGE_SIZE, 3), (1, 5)]


FAULTS = {
    "a broken watch is resumed": lambda server: server.cut_watches(),
    "a completed watch is resumed": lambda server: server.cut_watches(""),
    "a watch rejected with 500 is retried": lambda server: (
        server.fail("GET", 500, times=3),
        server.cut_watches(),
    ),
    "a watch rejected with 429 honors Retry-After": lambda server: (
        server.fail("GET", 429, retry_after="7"),
        server.cut_watches(),
    ),
    "a version the server forgot is relisted": lambda server: (server.compact(), server.cut_watches()),
    "a watch rejected with 410 relists": lambda server: (server.fail("GET", 410), server.cut_watches()),
    "rubbish in a watch ends it": lambda server: server.tell_raw(b"<html>\n"),
    "an object that is malformed does no harm": lambda server: server.tell_raw(
        b'{"type": "ADDED", "object": {"metadata": {"name": 7}}}\n'
    ),
    "nor does one with invalid text": lambda server: server.tell_raw(
        b'{"type": "ADDED", "object": {"metadata": {"name": "a", "labels": {"a": "\xff"}}}}\n'
    ),
    "nor one of brackets only": lambda server: server.tell_raw(
        b'{"type": "ADDED", "object": ' + b"[" * 5000 + b"]" * 5000 + b"}\n"
    ),
    "a server that is slow is waited for": lambda server: setattr(server, "pause", 20.0),
    "an invalid list is retried": lambda server: (
        server.compact(),
        server.rubbish("GET", b"\xff"),
        server.rubbish("GET"),
        server.cut_watches(),
    ),
}


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_events_before_and_after_the_list_are_received(bench: Bench, fault: Any) -> None:
    for number in range(3):
        bench.server.put(PODS, pod(f"old-{number}"))

    async def scenario() -> None:
        await asyncio.sleep(5)
        bench.server.remove(PODS, "shop/old-0")
        fault(bench.server)
        bench.server.put(PODS, pod("new"))
        bench.server.put(PODS, pod("old-1"))
        await asyncio.sleep(120)

    bench.run(scenario())


def test_requests_to_an_unavailable_server_back_off(bench: Bench) -> None:
    async def scenario() -> None:
        await asyncio.sleep(1)
        bench.server.is_down = True
        bench.server.cut_watches()
        await asyncio.sleep(600)
        assert 10 < len(bench.failures) < 40
        assert "pods: refused" in bench.informers.problems[0]
        bench.server.put(PODS, pod("meanwhile"))
        bench.server.is_down = False
        await asyncio.sleep(61)
        assert not bench.informers.problems

    bench.run(scenario())


def test_following_does_not_wait_for_a_backoff(bench: Bench) -> None:
    async def scenario() -> None:
        await asyncio.sleep(1)
        bench.server.is_down = True
        bench.server.cut_watches()
        await asyncio.sleep(600)
        bench.server.put(PODS, pod("meanwhile"))
        bench.server.is_down = False
        began = bench.clock.now()
        await bench.informers.following()
        await asyncio.sleep(0.01)
        assert "meanwhile" in bench.told
        assert bench.clock.now() - began < 1.0

    bench.run(scenario())


def test_a_malformed_object_in_a_list_is_skipped_and_counted(bench: Bench) -> None:
    bench.server.put(PODS, {"metadata": {"name": "bad", "namespace": "shop", "labels": 7}})
    bench.server.put(PODS, pod("good"))

    async def scenario() -> None:
        assert set(bench.told) == {"good"}
        bench.server.remove(PODS, "shop/bad")
        await asyncio.sleep(1)

    bench.run(scenario())
    assert bench.skipped == ["Pod", "Pod"], "its end is told in the same words"


def test_deletion_of_a_malformed_object_is_reported(bench: Bench) -> None:
    bench.server.put(PODS, pod("a"))

    async def scenario() -> None:
        bench.server.put(PODS, {"metadata": {"name": "a", "namespace": "shop", "labels": 7}})
        await asyncio.sleep(1)
        assert set(bench.told) == {"a"}, "what was known of it is better than nothing"
        bench.server.remove(PODS, "shop/a")
        await asyncio.sleep(1)
        assert not bench.told

    bench.run(scenario())


def test_forbidden_list_reports_the_missing_permission() -> None:
    clock = VirtualClock()
    server = FaultServer(clock)
    message = 'nodes is forbidden: User "x" cannot list resource "nodes" in API group "" at the cluster scope'
    server.rubbish("GET /api/v1/nodes")
    server.fail("GET /api/v1/nodes", 403, message=message)
    client = server.client()
    informer: Informer[Node] = Informer(client, BY_TYPE[Node], lambda _kind, _changes: None, chance=Random(1))

    async def scenario() -> None:
        running = asyncio.create_task(informer.run())
        await asyncio.sleep(2)
        assert isinstance(informer.problem, Forbidden)
        assert not informer.is_synced
        assert 'allow verb "list" on resource "nodes" of apiGroup ""' in str(informer.problem)
        await informer.synced()
        running.cancel()

    run_virtual(scenario(), clock)


def test_a_resource_that_the_server_does_not_have_is_empty() -> None:
    clock = VirtualClock()
    server = FaultServer(clock)
    server.fail("GET /api/v1/nodes", 404)
    informer: Informer[Node] = Informer(server.client(), BY_TYPE[Node], lambda _kind, _changes: None)

    async def scenario() -> None:
        running = asyncio.create_task(informer.run())
        await informer.synced()
        assert informer.is_synced
        running.cancel()

    run_virtual(scenario(), clock)


@pytest.mark.parametrize("body", [b'{"resources": [{"name": "others"}]}', None], ids=["older version", "no group"])
def test_a_forbidden_resource_that_the_server_does_not_have_is_empty(body: bytes | None) -> None:
    """Servers check permissions before they look for a resource; roles of older releases do not name newer ones."""
    clock = VirtualClock()
    server = FaultServer(clock)
    server.fail("GET /apis/informer.example.org/v1/vouchers", 403, times=1000)
    if body is not None:
        server.rubbish("GET /apis/informer.example.org/v1$", body, times=1000)
    informer: Informer[Any] = Informer(server.client(), VOUCHERS, lambda *_: None)

    async def scenario() -> None:
        running = asyncio.create_task(informer.run())
        async with asyncio.timeout(10):
            await informer.synced()
        running.cancel()

    run_virtual(scenario(), clock)


def test_rejected_credentials_are_replaced() -> None:
    class Rotating:
        expires_at = float("inf")
        calls = 0

        async def renew(self) -> str:
            self.calls += 1
            return f"Bearer {self.calls}"

    clock, credentials = VirtualClock(), Rotating()
    server = FaultServer(clock)
    connection = Connection("https://server", "test", credentials=credentials)
    client = ApiClient(connection, clock=clock, transport=server)
    server.fail("GET /api/v1/pods", 401)
    assert run_virtual(client.list(Pod), clock) == []
    assert [request.headers["Authorization"] for request in server.requests] == ["Bearer 1", "Bearer 2"]
