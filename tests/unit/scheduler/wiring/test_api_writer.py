"""Writes of the scheduler: bindings that survive lost responses, updates that keep unknown fields, statuses."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import msgspec
import pytest
from msgspec.structs import replace
from tests.support.fault_server import FaultServer

from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError, Conflict, NotFound, ServerError, Unreachable
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import Condition, ObjectMeta
from moorage.kube.api.pod import PodStatus
from moorage.kube.api.records import Lease
from moorage.kube.api.storage import PersistentVolume
from moorage.kube.client.dispatcher import Dispatcher
from moorage.kube.client.recorder import EventRecorder
from moorage.scheduler.wiring.api_writer import MAX_DENIED_READS, ApiWriter
from moorage.testing import make_pod

T = TypeVar("T")
PODS = "/api/v1/pods"
BINDING = "POST .*/binding"


class Bench:
    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.server = FaultServer(self.clock)
        client = self.server.client()
        self.recorder = EventRecorder(client, "host", self.clock)
        self.cluster = ApiWriter(client, Dispatcher(), self.recorder, self.clock)
        spec = {"containers": [{"name": "main", "image": "web:1"}]}
        stored = {"metadata": {"name": "web", "namespace": "shop", "uid": "u1"}, "spec": spec, "status": {}}
        self.server.put(PODS, stored)
        self.pod = make_pod("web", namespace="shop", uid="u1")

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return run_virtual(work, self.clock)

    @property
    def node(self) -> str:
        return str(self.server.stored(PODS)["shop/web"]["spec"].get("nodeName", ""))

    def give_away(self, node: str) -> None:
        """Bind the pod behind the client's back."""
        pod = self.server.stored(PODS)["shop/web"]
        self.server.put(PODS, {**pod, "spec": {**pod["spec"], "nodeName": node}})

    @property
    def binds(self) -> int:
        return sum(1 for request in self.server.requests if request.path.endswith("/binding"))


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_binding_carries_the_pods_uid(bench: Bench) -> None:
    bench.run(bench.cluster.bind(bench.pod, "n1"))
    assert msgspec.json.decode(bench.server.requests[-1].body) == {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": "web", "namespace": "shop", "uid": "u1"},
        "target": {"kind": "Node", "name": "n1"},
    }
    assert bench.node == "n1"


def test_binding_with_lost_response_is_treated_as_bound(bench: Bench) -> None:
    bench.server.lose_answer(BINDING)
    bench.run(bench.cluster.bind(bench.pod, "n1"))
    assert (bench.node, bench.binds) == ("n1", 1)


@pytest.mark.parametrize("seconds", [0.001, 0.1, 5.0])
def test_a_binding_that_arrives_late_counts_once(bench: Bench, seconds: float) -> None:
    bench.server.delay(BINDING, seconds)

    async def work() -> None:
        await bench.cluster.bind(bench.pod, "n1")
        await asyncio.sleep(2 * seconds)

    bench.run(work())
    assert bench.node == "n1"


def test_a_binding_that_was_carried_out_before_the_error_is_treated_as_bound(bench: Bench) -> None:
    bench.run(bench.cluster.bind(bench.pod, "n1"))
    bench.run(bench.cluster.bind(bench.pod, "n1"))


@pytest.mark.parametrize(("status", "times"), [(503, 9), (429, 9), (403, 2), (401, 2)])
def test_uncertain_result_is_queried_until_the_server_responds(bench: Bench, status: int, times: int) -> None:
    """One that starts may know no permissions yet."""
    bench.server.lose_answer(BINDING)
    bench.server.fail("GET", status, times=times)
    bench.run(bench.cluster.bind(bench.pod, "n1"))
    assert bench.node == "n1"


def test_reading_back_waits_as_long_as_the_server_requests(bench: Bench) -> None:
    bench.server.lose_answer(BINDING)
    bench.server.fail("GET", 503, times=3, retry_after="50")
    began = bench.clock.now()
    bench.run(bench.cluster.bind(bench.pod, "n1"))
    assert bench.clock.now() - began >= 3 * 50


def test_a_denied_reading_back_ends(bench: Bench) -> None:
    bench.server.lose_answer(BINDING)
    bench.server.fail("GET", 403, times=99)
    with pytest.raises(Unreachable):
        bench.run(bench.cluster.bind(bench.pod, "n1"))
    reads = [request for request in bench.server.requests if request.method == "GET"]
    assert (len(reads), bench.binds) == (MAX_DENIED_READS, 1)


def test_statuses_of_important_pods_are_written_first(bench: Bench) -> None:
    writer = ApiWriter(bench.server.client(), Dispatcher(max_writes=1), bench.recorder, bench.clock)
    priorities = {"first": 0, "low": 1, "high": 9, "middle": 5}
    for name in priorities:
        bench.server.put(PODS, {"metadata": {"name": name, "namespace": "shop", "uid": name}, "status": {}})
    pods = [make_pod(name, namespace="shop", uid=name, priority=value) for name, value in priorities.items()]

    async def work() -> None:
        await asyncio.gather(*(writer.patch_status(pod, {"phase": "Pending"}) for pod in pods))

    bench.run(work())
    output = [request.path.split("/")[-2] for request in bench.server.requests]
    assert output == ["first", "high", "middle", "low"], "the first one found a free slot"


def test_a_pod_is_being_written_until_the_response(bench: Bench) -> None:
    async def work() -> None:
        assert not bench.cluster.is_writing(bench.pod)
        patch = asyncio.create_task(bench.cluster.patch_status(bench.pod, {"phase": "Pending"}))
        await asyncio.sleep(0)
        assert bench.cluster.is_writing(bench.pod)
        await patch
        assert not bench.cluster.is_writing(bench.pod)

    bench.run(work())


FAILURES = {
    "another scheduler was faster": (lambda bench: bench.give_away("n9"), Conflict),
    "the pod is deleted": (lambda bench: bench.server.remove(PODS, "shop/web"), NotFound),
    "the server is down": (lambda bench: setattr(bench.server, "is_down", True), Unreachable),
    "we may not bind": (lambda bench: bench.server.fail(BINDING, 403), ApiError),
    "the server keeps failing": (lambda bench: bench.server.fail(BINDING, 500, times=99), ApiError),
}


@pytest.mark.parametrize(("spoil", "error"), FAILURES.values(), ids=FAILURES)
def test_a_binding_fails(bench: Bench, spoil: Any, error: type[ApiError]) -> None:
    spoil(bench)
    with pytest.raises(error):
        bench.run(bench.cluster.bind(bench.pod, "n1"))


def test_a_namesake_with_another_uid_is_not_our_pod(bench: Bench) -> None:
    bench.give_away("n1")
    with pytest.raises(Conflict):
        bench.run(bench.cluster.bind(make_pod("web", namespace="shop", uid="older"), "n1"))


def test_condition_has_its_transition_time(bench: Bench) -> None:
    patch = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}]}
    bench.run(bench.cluster.patch_status(bench.pod, patch))
    request = bench.server.requests[-1]
    assert request.headers["Content-Type"] == "application/strategic-merge-patch+json"
    assert request.path.endswith("/namespaces/shop/pods/web/status")
    (condition,) = msgspec.json.decode(request.body)["status"]["conditions"]
    assert condition["lastTransitionTime"] == "2026-01-01T00:00:00Z"


def test_a_condition_with_the_same_status_keeps_its_time(bench: Bench) -> None:
    status = PodStatus(conditions=(Condition(type="PodScheduled", status="False"),))
    patch = {"conditions": [{"type": "PodScheduled", "status": "False", "message": "still no"}]}
    bench.run(bench.cluster.patch_status(make_pod("web", namespace="shop", status=status), patch))
    (condition,) = msgspec.json.decode(bench.server.requests[-1].body)["status"]["conditions"]
    assert "lastTransitionTime" not in condition


def test_a_status_patch_is_retried_after_a_conflict(bench: Bench) -> None:
    bench.server.fail("PATCH", 409, times=2)
    bench.run(bench.cluster.patch_status(bench.pod, {"nominatedNodeName": "n1"}))
    assert bench.server.stored(PODS)["shop/web"]["status"]["nominatedNodeName"] == "n1"


def test_binding_waits_for_earlier_writes_of_the_pod(bench: Bench) -> None:
    async def work() -> None:
        bench.server.fail("PATCH", 409, times=2)
        patches = [asyncio.create_task(bench.cluster.patch_status(bench.pod, {"phase": text})) for text in "ab"]
        await asyncio.sleep(0)
        await bench.cluster.bind(bench.pod, "n1")
        await asyncio.gather(*patches)
        same_pod = make_pod("web", namespace="shop", uid="u1")
        assert same_pod.uid not in bench.cluster._locks

    bench.run(work())
    assert [request.method for request in bench.server.requests] == ["PATCH"] * 4 + ["POST"]
    assert bench.server.stored(PODS)["shop/web"]["status"]["phase"] == "b"


VOLUMES = "/api/v1/persistentvolumes"
VOLUME = {"nfs": {"server": "s", "path": "/"}, "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteMany"]}


def stored_volume(bench: Bench) -> PersistentVolume:
    content = {"metadata": {"name": "pv"}, "spec": {**VOLUME, "storageClassName": "slow"}}
    return msgspec.convert(bench.server.put(VOLUMES, content), PersistentVolume)


def test_update_keeps_unknown_fields(bench: Bench) -> None:
    volume = stored_volume(bench)
    changed = replace(volume, spec=replace(volume.spec, storage_class_name="fast"))
    answer = bench.run(bench.cluster.update(changed))
    assert bench.server.stored(VOLUMES)["pv"]["spec"].items() >= {**VOLUME, "storageClassName": "fast"}.items()
    assert answer.spec.storage_class_name == "fast"


def test_an_update_of_an_old_version_is_a_conflict(bench: Bench) -> None:
    volume = stored_volume(bench)
    bench.server.put(VOLUMES, bench.server.stored(VOLUMES)["pv"])
    with pytest.raises(Conflict, match="has changed: its version is"):
        bench.run(bench.cluster.update(replace(volume, spec=replace(volume.spec, storage_class_name="fast"))))


UPDATE = "PATCH .*persistentvolumes"
UPDATE_TROUBLE = {
    "a lost response": lambda server: server.lose_answer(UPDATE),
    "a lost response, and errors on lookup": lambda server: (
        server.lose_answer(UPDATE),
        server.fail("GET", 503, times=3),
    ),
}


@pytest.mark.parametrize("spoil", UPDATE_TROUBLE.values(), ids=UPDATE_TROUBLE)
def test_update_with_lost_response_counts(bench: Bench, spoil: Any) -> None:
    volume = stored_volume(bench)
    changed = replace(volume, metadata=replace(volume.metadata, labels={"zone": "b"}))
    spoil(bench.server)
    stored = bench.run(bench.cluster.update(changed))
    assert stored.labels == {"zone": "b"}
    assert stored.metadata.resource_version != volume.metadata.resource_version


@pytest.mark.parametrize("seconds", [0.001, 0.1, 5.0])
def test_an_update_that_arrives_late_counts_once(bench: Bench, seconds: float) -> None:
    volume = stored_volume(bench)
    bench.server.delay(UPDATE, seconds)

    async def work() -> PersistentVolume:
        changed = replace(volume, metadata=replace(volume.metadata, labels={"zone": "b"}))
        stored = await bench.cluster.update(changed)
        await asyncio.sleep(2 * seconds)
        return stored

    assert bench.run(work()).labels == {"zone": "b"}
    assert bench.server.stored(VOLUMES)["pv"]["metadata"]["labels"] == {"zone": "b"}


def test_an_update_that_was_not_carried_out_fails(bench: Bench) -> None:
    volume = stored_volume(bench)
    bench.server.fail(UPDATE, 500, times=99)
    with pytest.raises(ApiError):
        bench.run(bench.cluster.update(replace(volume, metadata=replace(volume.metadata, labels={"zone": "b"}))))


def test_write_in_doubt_remains_in_doubt_when_the_server_stops(bench: Bench) -> None:
    errors = iter([ServerError(status=503), *(Unreachable("away", was_sent=False) for _ in range(9))])

    async def write() -> None:
        raise next(errors)

    with pytest.raises(Unreachable) as raised:
        bench.run(Dispatcher().run(write))
    assert raised.value.was_sent


def test_an_update_that_changes_nothing_sends_nothing(bench: Bench) -> None:
    bench.run(bench.cluster.update(stored_volume(bench)))
    assert [request.method for request in bench.server.requests] == ["GET"]


def test_two_updates_in_a_row_read_the_object_once(bench: Bench) -> None:
    volume = stored_volume(bench)

    async def work() -> PersistentVolume:
        first = await bench.cluster.update(replace(volume, metadata=replace(volume.metadata, labels={"zone": "b"})))
        return await bench.cluster.update(replace(first, spec=replace(first.spec, storage_class_name="fast")))

    stored = bench.run(work())
    assert (stored.labels, stored.spec.storage_class_name) == ({"zone": "b"}, "fast")
    assert [request.method for request in bench.server.requests] == ["GET", "PATCH", "PATCH"]


BIND_TROUBLE = {
    "errors": lambda server: server.fail(BINDING, 500, times=3),
    "a server that is busy": lambda server: server.fail(BINDING, 429, retry_after="2", times=5),
    "a server error with Retry-After": lambda server: server.fail(BINDING, 503, retry_after="2", times=5),
    "a server that is slow": lambda server: setattr(server, "pause", 30.0),
    "a lost response, and errors on lookup": lambda server: (
        server.lose_answer(BINDING),
        server.fail("GET", 500, times=2),
    ),
    "a lost response, and invalid data on lookup": lambda server: (
        server.lose_answer(BINDING),
        server.rubbish("GET", times=2),
    ),
}


@pytest.mark.parametrize("spoil", BIND_TROUBLE.values(), ids=BIND_TROUBLE)
def test_a_binding_gets_through(bench: Bench, spoil: Any) -> None:
    spoil(bench.server)
    bench.run(bench.cluster.bind(bench.pod, "n1"))
    assert bench.node == "n1"


def test_mistakes_of_a_writer_are_named(bench: Bench) -> None:
    with pytest.raises(ValueError, match="Lease 'held' has no namespace"):
        bench.run(bench.cluster.create(Lease(metadata=ObjectMeta(name="held"))))
    with pytest.raises(ValueError, match="shop/web has no resourceVersion: read it before"):
        bench.run(bench.cluster.update(replace(bench.pod, metadata=replace(bench.pod.metadata, resource_version=""))))
