"""The fast paths of simulations change a pod as the API does, or leave the change to the API."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from moorage.cluster.apiserver.api import Api
from moorage.cluster.apiserver.requests.request import ApiRequest, ApiResponse
from moorage.cluster.apiserver.storage.store import Entry
from moorage.cluster.controllers.actions import Patch, build_request
from moorage.cluster.controllers.kubelet import running, terminated
from moorage.cluster.simulation.kubelets import merge_status
from moorage.cluster.simulation.simulated_cluster import bind_pod
from moorage.common.clock import VirtualClock
from moorage.kube.api.codec import decode, encode
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.pod import Pod, PodSpec, PodStatus
from moorage.testing import make_pod

UID = "u-1"


def stored(pod: Pod, *, as_json: bool = False) -> tuple[Api, Entry]:
    api = Api(VirtualClock())
    identified = replace(pod, metadata=replace(pod.metadata, uid=UID))
    if as_json:
        return api, api.store.put("pods", identified.key, msgspec.json.decode(msgspec.json.encode(encode(identified))))
    api.store.put_typed("pods", identified)
    return api, entry_of(api, identified)


def entry_of(api: Api, pod: Pod) -> Entry:
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
    assert content(entry_of(short, pod)) == content(entry_of(full_api, pod))


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
def test_invalid_binding_is_left_to_the_api(pod: Pod, uid: str) -> None:
    api, entry = stored(pod)

    assert not bind_pod(api.store, entry, uid, "n", api.clock.now())
    assert entry_of(api, pod) is entry


def test_json_is_left_to_the_api() -> None:
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
    assert content(entry_of(short, pod)) == content(entry_of(full_api, pod))


@pytest.mark.parametrize("patch", [{"resources": {"requests": {"cpu": "2"}}}, {"allocatedResources": {"cpu": "2"}}])
def test_status_with_resources_is_left_to_the_api(patch: dict[str, Any]) -> None:
    api, entry = stored(make_pod("p"))
    assert not merge_status(api.store, entry, patch)


def test_cached_properties_are_preserved() -> None:
    pod = make_pod("p", requests={"cpu": "1"})
    api, entry = stored(pod)
    cached_requests = entry.typed(Pod).requests

    assert bind_pod(api.store, entry, UID, "n", api.clock.now())
    bound = entry_of(api, pod).typed(Pod)
    assert bound.__dict__["requests"] is cached_requests
    assert bound.node_name == "n"
