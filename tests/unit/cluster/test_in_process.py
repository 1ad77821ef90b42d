"""The API without a wire: requests handed over, changes as structs."""

import asyncio
from typing import Any

import pytest

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests.request import ApiRequest
from moorage.cluster.in_process import InProcessClient, StoreInformer, StoreWatch
from moorage.common.clock import VirtualClock
from moorage.common.errors import AlreadyExists, ApiError, NotFound
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.client.list_watch import Change
from moorage.testing import make_node


async def at_once(_request: ApiRequest) -> None:
    """Take no time."""


def test_requests_are_executed_by_the_api() -> None:
    clock = VirtualClock()

    async def run() -> None:
        client = InProcessClient(Api(clock), clock, at_once)
        await client.create(make_node("a"))
        with pytest.raises(AlreadyExists):
            await client.create(make_node("a"))
        with pytest.raises(NotFound):
            await client.get(Node, "b")
        assert [node.name for node in await client.list(Node, query="fieldSelector=metadata.name%3Da")] == ["a"]
        assert await client.list(Node, query="fieldSelector=metadata.name%3Db") == []

    asyncio.run(run())


def test_before_hook_can_reject_a_request() -> None:
    requests: list[tuple[str, str]] = []

    async def refuse(request: ApiRequest) -> None:
        requests.append((request.method, request.path))
        raise ApiError("the server is not well")

    async def run() -> None:
        api = Api(VirtualClock())
        client = InProcessClient(api, VirtualClock(), refuse)
        with pytest.raises(ApiError, match="not well"):
            await client.create(make_node("a"))
        assert api.store.get("nodes", "a") is None

    asyncio.run(run())
    assert requests == [("POST", "/api/v1/nodes")]


def test_changes_are_delayed_ordered_and_decoded_once() -> None:
    clock, first, second = VirtualClock(), [], []  # type: ignore[var-annotated]

    async def run() -> None:
        api = Api(clock)
        watch = StoreWatch(api.store, delay=lambda: 2.0)
        for received in (first, second):
            watch.follow(Node, lambda _kind, changes, received=received: received.extend(changes))  # type: ignore[misc]
        client = InProcessClient(api, clock, at_once)
        await client.create(make_node("before"))
        watch.start()
        node = await client.create(make_node("a"))
        await client.patch(node, {"metadata": {"labels": {"x": "1"}}})
        await client.delete(node)
        assert (first, watch.is_busy) == ([], True)
        await asyncio.sleep(2.5)
        assert not watch.is_busy

    run_virtual(run(), clock)
    names = [(change.before and change.before.name, change.after and change.after.name) for change in first]
    assert names == [(None, "a"), ("a", "a"), ("a", None)]
    assert first[1].after.labels["x"] == "1"
    assert first[1].after is second[1].after is first[2].before


def test_delays_vary_but_order_is_preserved() -> None:
    clock, delays = VirtualClock(), iter((3.0, 1.0))
    deliveries: list[tuple[float, str]] = []

    async def run() -> None:
        api, began = Api(clock), clock.now()
        watch = StoreWatch(api.store, delay=lambda: next(delays))
        watch.follow(
            Node, lambda _kind, changes: deliveries.extend((clock.now() - began, c.after.name) for c in changes)
        )
        watch.start()
        client = InProcessClient(api, clock, at_once)
        await client.create(make_node("first"))
        await client.create(make_node("second"))
        await asyncio.sleep(5)

    run_virtual(run(), clock)
    assert deliveries == [(pytest.approx(1.0), "first"), (pytest.approx(3.0), "second")]


def test_existing_objects_are_delivered_immediately() -> None:
    received: list[Change[Any]] = []

    def on_changes(kind: Kind, changes: Any) -> None:
        assert kind.type is Pod
        received.extend(changes)

    async def run() -> None:
        api = Api(VirtualClock())
        api.store.put("pods", "default/p", {"metadata": {"name": "p", "namespace": "default"}, "spec": {}})
        await StoreInformer(api.store, StoreWatch(api.store, lambda: 0.0), BY_TYPE[Pod], on_changes).run()

    asyncio.run(run())
    assert [change.after.name for change in received if change.after is not None] == ["p"]
