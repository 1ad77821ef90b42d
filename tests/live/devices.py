"""Devices for live tests: a class, slices, claims from a template, and invariants of allocations."""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from moorage.common.errors import Conflict, NotFound
from moorage.kube.api.devices import DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import format_time
from moorage.kube.api.pod import Pod
from moorage.kube.client.informer import Informer
from moorage.kube.client.list_watch import Change
from moorage.kube.client.rest import MERGE_PATCH, ApiClient
from tests.live.cluster import NAMESPACE, PATIENCE, LiveCluster, patiently

DRIVER: Final = "card.example.com"
CARD: Final = "card"
ONE_CARD: Final = "one-card"
ATTACHED: Final = "attached"
CLAIMS: Final[list[dict[str, Any]]] = [{"name": CARD, "resourceClaimTemplateName": ONE_CARD}]
"""An entry of a pod's ``resourceClaims``: a separate claim to one card."""

Place = tuple[str, str]
"""A device: its pool, named like its node, and its name in the pool."""


async def add_template(cluster: LiveCluster) -> None:
    """Create the device class, and a claim template for one card."""
    selector = {"cel": {"expression": f"device.driver == '{DRIVER}'"}}
    await cluster.create(BY_TYPE[DeviceClass].path(), {"metadata": {"name": CARD}, "spec": {"selectors": [selector]}})
    request = {"name": CARD, "exactly": {"deviceClassName": CARD}}
    template = {"metadata": {"name": ONE_CARD}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await cluster.create(BY_TYPE[ResourceClaimTemplate].path(namespace=NAMESPACE), template)


async def add_cards(cluster: LiveCluster, node: str, count: int, *, to_be_attached: bool = False) -> None:
    """Publish the cards of a node, as its driver does; pods wait in PreBind for attachable cards."""
    conditions = {"bindingConditions": [ATTACHED], "bindingFailureConditions": ["broken"]} if to_be_attached else {}
    spec = {
        "driver": DRIVER,
        "nodeName": node,
        "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": f"card-{number}", **conditions} for number in range(count)],
    }
    await cluster.create(BY_TYPE[ResourceSlice].path(), {"metadata": {"name": f"{node}-cards"}, "spec": spec})


class Attacher:
    """Acts as a driver with attachable cards: reports each allocated card as attached after a while."""

    def __init__(self, client: ApiClient, seconds: float) -> None:
        self._client = client
        self._seconds = seconds
        self._informer: Informer[ResourceClaim] = Informer(client, BY_TYPE[ResourceClaim], self._see)
        self._work: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Attach cards until cancelled."""
        await self._informer.run()

    def _see(self, _kind: Kind, changes: Sequence[Change[ResourceClaim]]) -> None:
        for change in changes:
            if change.after is not None and _is_to_be_attached(change.after):
                task = asyncio.get_running_loop().create_task(self._attach(change.after))
                self._work.add(task)
                task.add_done_callback(self._work.discard)

    async def _attach(self, claim: ResourceClaim) -> None:
        await asyncio.sleep(self._seconds)
        message = {
            "type": ATTACHED,
            "status": "True",
            "reason": "Attached",
            "lastTransitionTime": format_time(time.time()),
        }
        devices = [
            {"driver": DRIVER, "pool": pool, "device": device, "conditions": [message]}
            for pool, device in places(claim)
        ]
        path = BY_TYPE[ResourceClaim].path(claim.name, claim.namespace, "status")
        version = {"resourceVersion": claim.metadata.resource_version}
        body = msgspec.json.encode({"metadata": version, "status": {"devices": devices}})
        try:
            await patiently(lambda: self._client.request("PATCH", path, body, MERGE_PATCH))
        except (Conflict, NotFound):
            return  # a changed claim is redelivered


def _is_to_be_attached(claim: ResourceClaim) -> bool:
    allocation = claim.status.allocation
    waits = allocation is not None and any(result.binding_conditions for result in allocation.devices.results)
    return waits and not claim.status.devices


async def device_claims(cluster: LiveCluster) -> dict[str, ResourceClaim]:
    """Read all claims by name."""
    return {claim.name: claim for claim in await cluster.client.list(ResourceClaim, NAMESPACE)}


def places(claim: ResourceClaim) -> list[Place]:
    """Return the devices of a claim."""
    allocation = claim.status.allocation
    return [] if allocation is None else [(result.pool, result.device) for result in allocation.devices.results]


def doubled(claims: Sequence[ResourceClaim]) -> list[Place]:
    """Return the devices of more than one claim, which is always wrong."""
    counts = Counter(location for claim in claims for location in places(claim))
    return [location for location, count in counts.items() if count > 1]


def device_problems(claims: dict[str, ResourceClaim], pods: dict[str, Pod]) -> list[str]:
    """Return doubly allocated or unreachable devices, and claims reserved for deleted pods."""
    selected = [f"{location} was allocated twice" for location in doubled(list(claims.values()))]
    alive = {pod.uid for pod in pods.values()}
    for name, claim in claims.items():
        deleted = [consumer.name for consumer in claim.status.reserved_for if consumer.uid not in alive]
        selected.extend(f"{name} is reserved for {pod}, which is gone" for pod in deleted)
    for pod in pods.values():
        if pod.node_name:
            selected.extend(_wrong_for(pod, claims))
    return selected


def _wrong_for(pod: Pod, claims: dict[str, ResourceClaim]) -> list[str]:
    """Return the missing claims of a bound pod: each needs devices on its node and a reservation."""
    results = []
    for status in pod.status.resource_claim_statuses:
        claim = claims.get(status.resource_claim_name or "")
        if claim is None or [pool for pool, _ in places(claim)] != [pod.node_name]:
            results.append(f"{pod.name} is on {pod.node_name}, its card is at {claim and places(claim)}")
        elif pod.uid not in {consumer.uid for consumer in claim.status.reserved_for}:
            results.append(f"{pod.name} has {claim.name} without a reservation")
    if len(pod.status.resource_claim_statuses) < sum(
        1 for c in pod.spec.resource_claims if c.resource_claim_template_name
    ):
        results.append(f"{pod.name} was bound before its claims were made")
    return results


async def settled_devices(cluster: LiveCluster, seconds: float = PATIENCE) -> dict[str, ResourceClaim]:
    """Wait until the claims of deleted pods are free; fail immediately if a device was allocated twice."""
    deadline = time.monotonic() + seconds
    while True:
        claims = await device_claims(cluster)
        assert not doubled(list(claims.values())), "a device was allocated twice"
        if not (problems := device_problems(claims, await cluster.pods())):
            return claims
        assert time.monotonic() < deadline, f"invariants still violated: {problems}"
        await asyncio.sleep(0.5)


async def clear_devices(cluster: LiveCluster) -> None:
    """Delete pods, claims, templates, slices and classes; wait until the claims are deleted."""
    await cluster.client.request("DELETE", f"/api/v1/namespaces/{NAMESPACE}/pods?gracePeriodSeconds=0")
    for kind, namespace in ((ResourceClaim, NAMESPACE), (ResourceClaimTemplate, NAMESPACE), (ResourceSlice, "")):
        await cluster.remove_all(BY_TYPE[kind].path(namespace=namespace))
    await cluster.remove_all(BY_TYPE[DeviceClass].path())
