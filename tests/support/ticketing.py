"""One plugin with a custom resource, background work and a permit, and its expected behavior on every server.

A pod with the label ``ticket`` needs the Ticket of that name: it is rejected without a Ticket, and held until a
background task finds the ticket approved. The ticket's status counts the admitted pods.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from typing import Any, Final

import msgspec
from tests.support.custom_writes import definition

from moorage.common.errors import NotFound
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.struct import KubeStruct
from moorage.kube.client.rest import ApiClient
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import PermitPlugin, PostBindPlugin, PreFilterPlugin, Wait
from moorage.scheduler.framework.status import Status

ROUND_SECONDS: Final = 0.25
PERMIT_SECONDS: Final = 2.0
PATIENCE: Final = 120.0
PLUGIN: Final = "tests.support.ticketing:Ticketing"


class TicketSpec(KubeStruct, frozen=True):
    """The approval of a ticket."""

    approved: bool = False


class TicketStatus(KubeStruct, frozen=True):
    """The number of admitted pods."""

    admitted: int = 0


class Ticket(KubeObject, frozen=True):
    """The ticket that a pod needs."""

    spec: TicketSpec = TicketSpec()
    status: TicketStatus = TicketStatus()


TICKETS: Final = custom_kind("Ticket", "tickets", "ticketing.example.org/v1", type=Ticket)
DEFINITION: Final = definition(TICKETS)


class Ticketing(PreFilterPlugin, PermitPlugin, PostBindPlugin):
    """Admits pods with approved tickets."""

    def __init__(self, *, handle: Handle) -> None:
        self._handle = handle
        self._tickets = handle.lister(Ticket)
        self._admitted: Counter[str] = Counter()
        self._rounds = handle.metrics.counter("rounds_total", "Rounds of the inspector.")

    async def start(self) -> None:
        """Start the background check of tickets."""
        self._handle.in_background(self._inspect(), name="inspecting tickets")

    async def _inspect(self) -> None:
        while True:
            await asyncio.sleep(ROUND_SECONDS)
            self._rounds.inc()
            for waiting in self._handle.waiting_pods():
                ticket = self._ticket(waiting.pod)
                if ticket is not None and ticket.spec.approved:
                    self._handle.log.v(4).info("pod is let in", pod=waiting.pod.key)
                    waiting.allow(self.name)

    async def close(self) -> None:
        """Log the shutdown."""
        self._handle.log.info("the inspector goes home", rounds=self._rounds.value())

    def _ticket(self, pod: Pod) -> Ticket | None:
        return self._tickets.get(pod.labels["ticket"], pod.namespace)

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        """Reject pods without a ticket."""
        if "ticket" in pod.labels and self._ticket(pod) is None:
            return Status.unresolvable(f"there is no ticket {pod.labels['ticket']}")
        return None

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Wait | None:
        """Delay pods until their ticket is approved."""
        return Wait(PERMIT_SECONDS) if "ticket" in pod.labels else None

    async def post_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        """Count the admitted pods in the status of the ticket."""
        ticket = self._ticket(pod) if "ticket" in pod.labels else None
        if ticket is not None:
            self._admitted[ticket.key] += 1
            await self._handle.cluster.patch_status(ticket, {"admitted": self._admitted[ticket.key]})


class ClosedBooth(Ticketing):
    """Fails at start."""

    async def start(self) -> None:
        """Raise an error."""
        raise ConnectionError("the booth is closed")


def ticket(name: str, *, approved: bool) -> dict[str, Any]:
    """Return a ticket as plain data."""
    meta = {"name": name, "namespace": "default"}
    return {"apiVersion": TICKETS.api_version, "kind": "Ticket", "metadata": meta, "spec": {"approved": approved}}


def pod(name: str, ticket: str = "") -> dict[str, Any]:
    """Return a pod as plain data."""
    meta = {"name": name, "namespace": "default", "labels": {"ticket": ticket} if ticket else {}}
    container = {"name": "main", "image": "app:1", "resources": {"requests": {"cpu": "100m"}}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container]}}


THINGS: Final = (
    ticket("gold", approved=True),
    ticket("silver", approved=False),
    pod("holder", "gold"),
    pod("hopeful", "silver"),
    pod("forger", "copper"),
    pod("passer-by"),
)


async def admit(client: ApiClient) -> None:
    """Create pods with approved, missing and later approved tickets; the scheduler is already running."""
    await _served(client)
    for obj in THINGS:
        path = TICKETS.path(namespace="default") if obj["kind"] == "Ticket" else "/api/v1/namespaces/default/pods"
        await client.request("POST", path, msgspec.json.encode(obj))
    await _until(client, "holder", lambda group: bool(group.node_name))
    await _until(client, "passer-by", lambda group: bool(group.node_name))
    await _until(client, "forger", lambda group: "there is no ticket copper" in _why(group))
    await _until(client, "hopeful", lambda group: "Ticketing" in _why(group))
    gold = await client.get(Ticket, "gold", "default")
    while gold.status.admitted != 1:
        await asyncio.sleep(0.05)
        gold = await client.get(Ticket, "gold", "default")

    silver = await client.get(Ticket, "silver", "default")
    await client.patch(silver, {"spec": {"approved": True}})
    await client.request(
        "POST", TICKETS.path(namespace="default"), msgspec.json.encode(ticket("copper", approved=True))
    )
    await _until(client, "hopeful", lambda group: bool(group.node_name))
    await _until(client, "forger", lambda group: bool(group.node_name))


async def _served(client: ApiClient) -> None:
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                await client.request("GET", TICKETS.path())
            except NotFound:
                await asyncio.sleep(0.1)
            else:
                return


async def _until(client: ApiClient, name: str, condition: Callable[[Pod], bool]) -> None:
    stored = await client.get(Pod, name, "default")
    end = asyncio.get_running_loop().time() + PATIENCE
    while not condition(stored):
        assert asyncio.get_running_loop().time() < end, f"{name} is on {stored.node_name!r}: {_why(stored)}"
        await asyncio.sleep(0.05)
        stored = await client.get(Pod, name, "default")


def _why(group: Pod) -> str:
    condition = group.condition("PodScheduled")
    return condition.message if condition is not None else ""
