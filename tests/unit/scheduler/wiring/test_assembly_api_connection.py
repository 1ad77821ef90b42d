"""The connection to an API server: its informers, its cached objects, and its two clients."""

from collections.abc import Sequence
from typing import Any

import pytest

from moorage.cluster.apiserver.api import Api
from moorage.cluster.in_process import InProcessClient
from moorage.common.clock import VirtualClock
from moorage.kube.api.kinds import Kind
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import StorageClass
from moorage.scheduler.config.types import ClientConnection
from moorage.scheduler.state.objects import Objects
from moorage.scheduler.wiring.assembly import ApiConnection
from moorage.testing import make_node, make_pod


class Client(InProcessClient):
    """Counts closed clients and reads."""

    def __init__(self, api: Api, clock: VirtualClock) -> None:
        super().__init__(api, clock)
        self.is_closed = False

    def close(self) -> None:
        self.is_closed = True
        super().close()


def connect(clock: VirtualClock | None = None) -> tuple[ApiConnection, Client, Client]:
    clock = clock or VirtualClock()
    api = Api(clock)
    client, event_client = Client(api, clock), Client(api, clock)
    return ApiConnection(client, event_client, clock, ClientConnection()), client, event_client


def ignore(_kind: Kind, _changes: Sequence[Any]) -> None:
    pass


def test_nodes_pods_and_requested_kinds_are_watched() -> None:
    connection, _, _ = connect()
    assert [informer.kind.type for informer in connection.informers.all] == []
    objects = Objects()
    objects[StorageClass]  # a plugin lists it
    connection.follow(objects, ignore, {}, None)
    assert {informer.kind.type for informer in connection.informers.all} == {Node, Pod, StorageClass}


@pytest.mark.parametrize("is_followed", [True, False])
def test_cached_objects_equal_the_objects_of_the_informers(is_followed: bool) -> None:
    connection, _, _ = connect()
    objects, pod, node = Objects(), make_pod("p"), make_node("n")
    objects[Pod].put(pod)
    if is_followed:
        connection.follow(objects, ignore, {}, None)
    result = connection.cluster._find_cached  # what the writer reads before an update
    assert result(make_pod("p")) is (pod if is_followed else None)
    assert result(make_pod("other")) is None
    assert result(node) is None
    assert Node not in objects.kinds(), "a lookup must not request a kind"


def test_both_clients_are_closed() -> None:
    connection, client, event_client = connect()
    connection.close()
    assert (client.is_closed, event_client.is_closed) == (True, True)


def test_events_go_through_their_own_client() -> None:
    connection, client, event_client = connect()
    assert connection.client is client
    assert connection.recorder._client is event_client
