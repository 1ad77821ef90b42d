"""Endpoints and EndpointSlices of the embedded cluster equal those of kube-controller-manager."""

import asyncio
import json
from contextlib import suppress
from typing import Any

from moorage.cluster.controllers.endpoints import EndpointsController
from moorage.cluster.controllers.kubelet import running
from moorage.cluster.controllers.manager import ControllerManager
from moorage.common.clock import SystemClock
from moorage.common.errors import NotFound
from moorage.kube.api.pod import Pod
from moorage.kube.client.rest import MERGE_PATCH, ApiClient
from tests.live.controllers import controller_manager
from tests.support.control_plane import ControlPlane, control_plane

Data = dict[str, Any]
CORE = "/api/v1/namespaces/default"
SLICES = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
PORTS = [{"name": "http", "containerPort": 9090}, {"name": "dns", "containerPort": 53, "protocol": "UDP"}]
SERVICES: dict[str, Data] = {
    "plain": {"ports": [{"port": 80, "targetPort": 8080}]},
    "named": {"ports": [{"name": "web", "port": 80, "targetPort": "http", "appProtocol": "http"}]},
    "several": {"ports": [{"name": "a", "port": 1}, {"name": "b", "port": 2, "targetPort": "dns", "protocol": "UDP"}]},
    "missing": {"ports": [{"port": 80, "targetPort": "none"}]},
    "wrong-protocol": {"ports": [{"port": 80, "targetPort": "dns"}]},
    "partly": {"ports": [{"name": "a", "port": 80, "targetPort": "none"}, {"name": "b", "port": 81}]},
    "headless": {"clusterIP": "None", "ports": [{"port": 80}]},
    "portless": {"clusterIP": "None"},
    "unready": {"publishNotReadyAddresses": True, "ports": [{"port": 80}]},
    "unmatched": {"selector": {"app": "absent"}, "ports": [{"port": 80}]},
    "manual": {"selector": None, "ports": [{"port": 80}]},
    "external": {"type": "ExternalName", "externalName": "example.org"},
    "some": {"selector": {"app": "web", "tier": "front"}, "ports": [{"port": 80}]},
    "node-port": {"type": "NodePort", "ports": [{"port": 80}]},
}
PODS = {
    "ready": ("Running", True, {}),
    "front": ("Running", True, {"tier": "front"}),
    "unready": ("Running", False, {}),
    "finished": ("Succeeded", False, {}),
    "pending": ("", False, {}),
}


def test_endpoints_equal_those_of_the_real_controllers() -> None:
    with control_plane() as plane:
        with controller_manager(plane, "endpoints-controller", "endpointslice-controller"):
            theirs = asyncio.run(real(plane))
        assert asyncio.run(own(plane)) == theirs
        assert theirs["slices"]["plain"][0]["endpoints"], "the comparison is empty"


async def real(plane: ControlPlane) -> Data:
    """Create all objects, and wait for the real controllers; then delete what they wrote."""
    async with ApiClient(plane.connection()) as client:
        await create(client)
        return await settled(client)


async def own(plane: ControlPlane) -> Data:
    async with ApiClient(plane.connection()) as client, ApiClient(plane.connection()) as writer:
        for path in (f"{CORE}/endpoints", SLICES):
            for item in await items(client, path):
                if item["metadata"]["name"] != "kubernetes":
                    await client.request("DELETE", f"{path}/{item['metadata']['name']}")
        manager = ControllerManager(writer, [EndpointsController(SystemClock())])
        running_manager = asyncio.create_task(manager.run())
        try:
            return await settled(client)
        finally:
            running_manager.cancel()
            with suppress(asyncio.CancelledError):
                await running_manager


async def create(client: ApiClient) -> None:
    node = {"metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "z1"}}}
    await client.request("POST", "/api/v1/nodes", json.dumps(node).encode())
    for name, spec in SERVICES.items():
        service = {"metadata": {"name": name, "labels": {"of": name}}, "spec": {"selector": {"app": "web"}, **spec}}
        await client.request("POST", f"{CORE}/services", json.dumps(service).encode())
    for name, (phase, is_ready, labels) in PODS.items():
        container = {"name": "main", "image": "app:1", "ports": PORTS}
        spec = {"nodeName": "n1", "containers": [container], "automountServiceAccountToken": False}
        content = {"metadata": {"name": name, "labels": {"app": "web", **labels}}, "spec": spec}
        await client.request("POST", f"{CORE}/pods", json.dumps(content).encode())
        if phase:
            status = running(await client.get(Pod, name, "default"), SystemClock().now())
            conditions = [{**item, "status": "True" if is_ready else "False"} for item in status["conditions"]]
            status |= {"phase": phase, "conditions": conditions}
            path = f"{CORE}/pods/{name}/status"
            await client.request("PATCH", path, json.dumps({"status": status}).encode(), MERGE_PATCH)


async def items(client: ApiClient, path: str) -> list[Data]:
    found: list[Data] = json.loads(await client.request("GET", path))["items"]
    return found


async def settled(client: ApiClient) -> Data:
    """Wait until nothing changes for a few seconds; return the addresses without times and generated names."""
    last: Data = {}
    unchanged = 0
    for _ in range(240):
        with suppress(NotFound):
            current: Data = {
                "endpoints": {
                    item["metadata"]["name"]: plain(item) for item in await items(client, f"{CORE}/endpoints")
                },
                "slices": group(await items(client, SLICES)),
            }
            unchanged = unchanged + 1 if current == last and len(current["slices"]) >= len(SERVICES) - 2 else 0
            last = current
        if unchanged > 8:
            return last
        await asyncio.sleep(0.5)
    raise AssertionError(f"the endpoints did not settle: {last}")


def group(slices: list[Data]) -> dict[str, list[Data]]:
    by_service: dict[str, list[Data]] = {}
    for item in slices:
        by_service.setdefault(item["metadata"]["labels"].get("kubernetes.io/service-name", ""), []).append(plain(item))
    return {name: sorted(pieces, key=json.dumps) for name, pieces in by_service.items()}


def plain(item: Data) -> Data:
    """Return an object without its identity, and with sorted addresses and ports."""
    metadata = item["metadata"]
    kept = {key: metadata[key] for key in ("labels", "ownerReferences", "generateName") if key in metadata}

    def ordered(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: ordered(value[key]) for key in sorted(value)}
        return sorted(map(ordered, value), key=json.dumps) if isinstance(value, list) else value

    content = {key: value for key, value in item.items() if key not in ("metadata", "apiVersion", "kind")}
    result: Data = ordered({"metadata": kept, **content})
    return result
