"""The embedded cluster in virtual time: writes by the API's rules, latencies, faults and kubelets."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse
from moorage.cluster.apiserver.storage.store import Entry
from moorage.cluster.controllers.actions import Patch, build_request
from moorage.cluster.controllers.kubelet import running, terminated
from moorage.cluster.simulation.simulated_cluster import (
    Fault,
    Pace,
    SimulatedCluster,
    bind_pod,
    merge_status,
    no_faults,
)
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError, Conflict, NotFound
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.codec import decode, encode
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodSpec, PodStatus
from moorage.scheduler.wiring.policy import collect_plugins, load_policy
from moorage.testing import make_node, make_pod

POLICY = load_policy(collect_plugins())


def live(
    story: Callable[[SimulatedCluster, Simulation], Awaitable[None]], pace: Pace | None = None, fault: Fault = no_faults
) -> None:
    """Let something happen in a cluster of one node."""
    clock = VirtualClock()

    async def run() -> None:
        world = SimulatedCluster(clock, pace=pace, fault=fault)
        simulation = Simulation(world, POLICY, cross_check=True)
        simulation.load([make_node("n")])
        await story(world, simulation)

    run_virtual(run(), clock)


def pod_of(world: SimulatedCluster) -> Pod:
    return next(world.store.list(Pod))


def test_a_pod_is_bound_and_run_by_the_kubelet() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p"))
        began = world.clock.now()
        await simulation.run_until_quiet()
        pod = pod_of(world)
        assert (pod.node_name, pod.status.phase) == ("n", "Running")
        assert {kind.type: kind.status for kind in pod.status.conditions}["PodScheduled"] == "True"
        assert world.bindings == {pod.uid: "n"}
        assert 3.0 < world.clock.now() - began < 5.0, "containers take three seconds to start"

    live(story, pace=Pace(start_container=3.0))


def test_a_pod_that_runs_gets_its_grace() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p"))
        await simulation.run_until_quiet()
        world.remove(pod_of(world))
        assert pod_of(world).metadata.deletion_grace_period_seconds == 30
        await simulation.run_until_quiet()
        assert list(world.store.list(Pod)) == []
        assert simulation.scheduler.cache.pod_count == 0

    live(story)


def test_writes_follow_the_rules_of_the_api() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p", scheduler_name="somebody-else"))
        pod, node = pod_of(world), next(world.store.list(Node))
        await world.cluster.bind(pod, "n")
        with pytest.raises(Conflict, match="already assigned"):
            await world.cluster.bind(pod, "other")
        labeled = replace(node, metadata=replace(node.metadata, labels={"x": "1"}))
        await world.cluster.update(labeled)
        with pytest.raises(Conflict):
            await world.cluster.update(replace(node, metadata=replace(node.metadata, labels={"x": "2"})))
        with pytest.raises(NotFound):
            await world.cluster.patch_status(make_pod("gone", uid="gone"), {"nominatedNodeName": "n"})

    live(story)


def test_fault_is_raised_to_the_writer() -> None:
    writes: list[tuple[str, str]] = []

    def fault(verb: str, obj: KubeObject) -> ApiError | None:
        writes.append((verb, obj.key))
        return ApiError("not now") if len(writes) == 1 else None

    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p"))
        await simulation.run_until_quiet()
        assert pod_of(world).node_name == "n", "it is tried again"
        assert [event.reason for event in world.events] == ["FailedScheduling", "Scheduled"]

    live(story, fault=fault)
    assert writes[0] == ("bind", "default/p")
    assert ("patch", "default/p") in writes


def test_writes_take_their_time() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("p", scheduler_name="somebody-else"))
        began = world.clock.now()
        binding = asyncio.ensure_future(world.cluster.bind(pod_of(world), "n"))
        await asyncio.sleep(6.9)
        assert not binding.done()
        await binding
        assert world.clock.now() - began == pytest.approx(7.0)

    live(story, pace=Pace(bind=7.0))


def test_changes_missed_by_cut_watches_are_found_by_listing() -> None:
    async def story(world: SimulatedCluster, simulation: Simulation) -> None:
        world.add(make_pod("stays"), make_pod("goes"), make_pod("is-replaced", uid="old"))
        await simulation.run_until_quiet()
        world.add(make_pod("was-on-its-way"))
        world.cut_watches(5.0)
        for pod in list(world.store.list(Pod)):
            if pod.name in ("goes", "is-replaced"):
                world.store.remove(pod)
        world.add(make_pod("is-replaced", uid="new"), make_pod("comes"), make_node("m"))
        await simulation.run_until_quiet()
        assert all(pod.node_name for pod in world.store.list(Pod))
        assert simulation.scheduler.cache.pod_count == 4
        assert {pod.uid for node in simulation.scheduler.cache.nodes for pod in node.pods.values()} == {
            pod.uid for pod in world.store.list(Pod)
        }
        assert len(simulation.scheduler.cache) == 2

    live(story)


UID = "u-1"


def stored(pod: Pod, *, as_json: bool = False) -> tuple[Api, Entry]:
    api = Api(VirtualClock())
    identified = replace(pod, metadata=replace(pod.metadata, uid=UID))
    if as_json:
        return api, api.store.put("pods", identified.key, msgspec.json.decode(msgspec.json.encode(encode(identified))))
    api.store.put_typed("pods", identified)
    return api, make_entry(api, identified)


def make_entry(api: Api, pod: Pod) -> Entry:
    entry = api.store.get("pods", pod.key)
    assert entry is not None
    return entry


def bind_by_request(api: Api, pod: Pod, node: str) -> int:
    body = {"metadata": {"name": pod.name, "uid": UID}, "target": {"kind": "Node", "name": node}}
    path = f"/api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding"
    answer = api.answer(ApiRequest("POST", path, body=msgspec.json.encode(body)))
    assert isinstance(answer, ApiResponse)
    return answer.status


def content(entry: Entry) -> dict[str, Any]:
    data = entry.data
    for name in ("resourceVersion", "managedFields"):
        data["metadata"].pop(name, None)
    # Only fields of the structs are compared: the other status fields are informational.
    return encode(decode(Pod, msgspec.json.encode(data)))


WAITING = {
    "a pending pod": make_pod("p", requests={"cpu": "1"}),
    "a pod with a nomination": replace(make_pod("p"), status=PodStatus(nominated_node_name="other")),
    "a pod after a failed attempt": replace(
        make_pod("p"), status=msgspec.convert({"conditions": [{"type": "PodScheduled", "status": "False"}]}, PodStatus)
    ),
}


@pytest.mark.parametrize("pod", WAITING.values(), ids=WAITING)
def test_binding(pod: Pod) -> None:
    short, entry = stored(pod)
    full_api, _ = stored(pod, as_json=True)

    assert bind_pod(short.store, entry, UID, "n", short.clock.now())
    assert bind_by_request(full_api, pod, "n") == 201
    assert content(make_entry(short, pod)) == content(make_entry(full_api, pod))


LEFT_TO_THE_API = {
    "a new pod of the same name": (make_pod("p"), "u-2"),
    "a pod with a node": (make_pod("p", node="m"), UID),
    "a terminating pod": (
        replace(
            make_pod("p"),
            metadata=ObjectMeta(name="p", namespace="default", deletion_timestamp="2026-01-01T00:00:00Z"),
        ),
        UID,
    ),
    "a gated pod": (
        replace(make_pod("p"), spec=msgspec.convert({"schedulingGates": [{"name": "g"}]}, PodSpec)),
        UID,
    ),
}


@pytest.mark.parametrize(("pod", "uid"), LEFT_TO_THE_API.values(), ids=LEFT_TO_THE_API)
def test_the_api_handles_invalid_bindings(pod: Pod, uid: str) -> None:
    api, entry = stored(pod)

    assert not bind_pod(api.store, entry, uid, "n", api.clock.now())
    assert make_entry(api, pod) is entry


def test_the_api_handles_json() -> None:
    api, entry = stored(make_pod("p"), as_json=True)

    assert not bind_pod(api.store, entry, UID, "n", api.clock.now())
    assert not merge_status(api.store, entry, {"phase": "Running"})


@pytest.mark.parametrize("status", [running, terminated])
def test_status_of_kubelets_is_merged(status: Any) -> None:
    pod = replace(
        make_pod("p", requests={"cpu": "1"}, node="n"), metadata=ObjectMeta(name="p", namespace="default", uid=UID)
    )
    short, entry = stored(pod)
    full_api, _ = stored(pod, as_json=True)
    patch = status(pod, short.clock.now())

    assert merge_status(short.store, entry, patch)
    request = build_request(Patch(pod, {"status": patch}, "status"))
    answer = full_api.answer(
        ApiRequest(request.method, request.path, body=request.body, content_type=request.content_type)
    )
    assert isinstance(answer, ApiResponse)
    assert answer.status == 200
    assert content(make_entry(short, pod)) == content(make_entry(full_api, pod))


@pytest.mark.parametrize("patch", [{"resources": {"requests": {"cpu": "2"}}}, {"allocatedResources": {"cpu": "2"}}])
def test_the_api_handles_status_with_resources(patch: dict[str, Any]) -> None:
    api, entry = stored(make_pod("p"))
    assert not merge_status(api.store, entry, patch)


def test_cached_properties_are_preserved() -> None:
    pod = make_pod("p", requests={"cpu": "1"})
    api, entry = stored(pod)
    cached_requests = entry.typed(Pod).requests

    assert bind_pod(api.store, entry, UID, "n", api.clock.now())
    bound = make_entry(api, pod).typed(Pod)
    assert bound.__dict__["requests"] is cached_requests
    assert bound.node_name == "n"
