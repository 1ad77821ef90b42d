"""A scene with one scheduler: pods arrive one at a time, and the result of each is recorded."""

import asyncio
import re
import time
from dataclasses import dataclass, field
from typing import Final

from tests.conformance.generator.words import Object
from tests.live.differential.scene import CANARY, Entrant, Scene
from tests.live.differential.sides import Side
from tests.live.differential.stage import Stage

READY_SECONDS: Final = 60.0
#: Seconds without a result until a canary is created: if it is scheduled, the pod before it is gated.
DOUBT_SECONDS: Final = 1.5
#: Controllers bind volumes and devices first, and victims terminate.
BINDING_SECONDS: Final = 10.0
#: Victims are complete if no victim was added for this number of seconds.
QUIET_SECONDS: Final = 0.8
#: Claims arrive on another watch than pods: a pod that is released too early would miss its claim.
WATCH_SECONDS: Final = 0.4
POLL_SECONDS: Final = 0.02
HOLD: Final = {"name": "example.com/being-prepared"}
_UID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass
class Fate:
    """The result of a pod, in a text without uids and times."""

    pod: str
    node: str = ""
    scheduled: str = ""
    reason: str = ""
    message: str = ""
    event: str = ""
    nominated: str = ""
    victims: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, str] = field(default_factory=dict)
    devices: dict[str, list[str]] = field(default_factory=dict)
    before: list[Object] = field(default_factory=list, compare=False, repr=False)


class Play:
    """One scene with one scheduler; optionally records the cluster before each pod."""

    def __init__(self, stage: Stage, scene: Scene, scheduler: Side, *, records: bool = False) -> None:
        self._stage = stage
        self._scene = scene
        self._scheduler = scheduler
        self._profiles = {profile["schedulerName"] for profile in scene.config["profiles"]}
        self._records = records
        self._gone: set[str] = set()
        self._started = 0

    async def run(self) -> list[Fate]:
        """Create the pods in order."""
        await self._send_canary()
        await self._add_nodes()
        fates = []
        for entrant in self._scene.entrants:
            fate = await self._enter(entrant)
            if fate is not None:
                fates.append(fate)
        return fates

    async def _add_nodes(self) -> None:
        """Create the nodes one by one, and wait until the scheduler has all of them.

        kube-scheduler lists existing nodes in map order, and the order decides ties.
        """
        nodes = [await self._stage.add(node) for node in self._scene.of("Node")]
        existing = f"0/{len(nodes)} nodes are available"
        deadline = time.monotonic() + BINDING_SECONDS
        while nodes and not (await self._send_canary()).startswith(existing) and time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)

    async def _enter(self, entrant: Entrant) -> Fate | None:
        before = await self._stage.everything() if self._records else []
        pod = await self._admit(entrant)
        if pod is None:
            return None
        fate = Fate(entrant.name, before=[*before, _as_it_came(pod, entrant)])
        if pod["spec"]["schedulerName"] not in self._profiles:
            return fate
        pod = await self._verdict(pod)
        await self._note(fate, pod)
        if fate.nominated and not fate.node:
            pod = await self._follow_victims(fate, pod)
        if fate.node:
            await self._start(pod)
        elif not (fate.victims and self._scene.lingers):
            await self._stage.remove("Pod", entrant.name, pod["metadata"]["namespace"])
        return fate

    async def _admit(self, entrant: Entrant) -> Object | None:
        """Create the pod; gate it until the objects that belong to it exist and are known."""
        content = dict(entrant.pod)
        gates = content["spec"].get("schedulingGates", [])
        if entrant.is_prepared:
            content["spec"] = {**content["spec"], "schedulingGates": [*gates, HOLD]}
        pod = await self._stage.add(content)
        if pod is None:
            return None
        for obj in entrant.belongings:
            await self._stage.add(obj)
        if entrant.is_prepared:
            await asyncio.sleep(WATCH_SECONDS)
        if entrant.is_prepared or gates:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            await self._stage.patch("Pod", name, namespace, {"spec": {"schedulingGates": None}})
        return await self._now(pod)

    async def _now(self, pod: Object) -> Object:
        obj = await self._stage.get("Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
        assert obj is not None, f"{pod['metadata']['name']} is gone"
        return obj

    async def _verdict(self, pod: Object) -> Object:
        """Wait until the pod is bound, reported, or known to be gated."""
        verdict = await self._await_verdict(pod, DOUBT_SECONDS)
        if not is_judged(verdict):
            await self._send_canary()
            patience = BINDING_SECONDS if _needs_others(pod) else 0.0
            verdict = await self._await_verdict(pod, patience)
        return verdict

    async def _await_verdict(self, pod: Object, seconds: float) -> Object:
        deadline = time.monotonic() + seconds
        while True:
            verdict = await self._now(pod)
            if is_judged(verdict) or time.monotonic() > deadline:
                return verdict
            self._scheduler.require_alive()
            await asyncio.sleep(POLL_SECONDS)

    async def _send_canary(self) -> str:
        """Wait for the result of an infeasible pod that is created after all others; return it."""
        resources = {"requests": {"cpu": "1000000"}}
        spec = {
            "containers": [{"name": "main", "image": "canary", "resources": resources}],
            "nodeSelector": {"for": CANARY},
            "priorityClassName": CANARY,
            "schedulerName": self._scene.config["profiles"][0]["schedulerName"],
        }
        pod = await self._stage.add({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": CANARY}, "spec": spec})
        assert pod is not None, self._stage.refused
        verdict = await self._await_verdict(pod, READY_SECONDS)
        assert is_judged(verdict), f"{self._scheduler.name} did not schedule the canary:\n{self._scheduler.log()}"
        await self._stage.remove("Pod", CANARY, "default")
        message: str = _condition(verdict).get("message", "")
        return message

    async def _note(self, fate: Fate, pod: Object) -> None:
        """Record the result, its event, and the objects bound with the pod."""
        fate.node = pod["spec"].get("nodeName", "")
        fate.nominated = pod["status"].get("nominatedNodeName", "")
        condition = _condition(pod)
        if not fate.node:
            fate.reason, fate.message = condition.get("reason", ""), _plain(condition.get("message", ""))
        if fate.node:
            fate.scheduled = await self._event(pod, "Scheduled")
            await self._note_belongings(fate, pod)
        elif is_judged(pod):
            fate.event = await self._event(pod, "FailedScheduling")

    async def _event(self, pod: Object, reason: str) -> str:
        deadline = time.monotonic() + BINDING_SECONDS
        while time.monotonic() < deadline:
            for event in await self._stage.events(pod):
                if event["reason"] == reason:
                    return f"{event['type']} {event.get('action', '')} {_plain(event['message'])}"
            await asyncio.sleep(POLL_SECONDS)
        return "(no event)"

    async def _note_belongings(self, fate: Fate, pod: Object) -> None:
        name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
        for volume in pod["spec"].get("volumes", ()):
            claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
            if claim := claim or (f"{name}-{volume['name']}" if "ephemeral" in volume else ""):
                obj = await self._stage.get("PersistentVolumeClaim", claim, namespace)
                fate.volumes[claim] = _plain(obj["spec"].get("volumeName", "") if obj else "(gone)")
        for key, claim in _device_claims(pod).items():
            obj = await self._stage.get("ResourceClaim", claim, namespace)
            results = ((obj or {}).get("status", {}).get("allocation") or {}).get("devices", {}).get("results", ())
            fate.devices[key] = [f"{item['driver']}/{item['pool']}/{item['device']}" for item in results]

    async def _follow_victims(self, fate: Fate, pod: Object) -> Object:
        """Wait for all victims; delete them unless they linger, and record the pods that are bound then."""
        quiet_since = time.monotonic()
        while time.monotonic() < quiet_since + QUIET_SECONDS:
            for victim in await self._stage.all_of("Pod"):
                if self._is_new_victim(victim):
                    quiet_since = time.monotonic()
                    self._gone.add(victim["metadata"]["uid"])
                    fate.victims[victim["metadata"]["name"]] = await self._farewell(victim)
            await asyncio.sleep(POLL_SECONDS)
        if self._scene.lingers or not fate.victims:
            return pod
        for name in fate.victims:
            await self._let_go(name)
        deadline = time.monotonic() + BINDING_SECONDS
        while not pod["spec"].get("nodeName") and time.monotonic() < deadline:
            await asyncio.sleep(POLL_SECONDS)
            pod = await self._now(pod)
        fate.node = pod["spec"].get("nodeName", "")
        return pod

    def _is_new_victim(self, pod: Object) -> bool:
        uid = pod["metadata"]["uid"]
        return "deletionTimestamp" in pod["metadata"] and uid not in self._gone and uid not in self._stage.leaving

    async def _farewell(self, victim: Object) -> str:
        conditions = [item for item in victim["status"].get("conditions", ()) if item["type"] == "DisruptionTarget"]
        words = [f"{item['status']} {item['reason']} {item['message']}" for item in conditions]
        return " / ".join((*words, await self._event(victim, "Preempted")))

    async def _let_go(self, name: str) -> None:
        for pod in await self._stage.all_of("Pod"):
            if pod["metadata"]["name"] == name:
                await self._stage.remove("Pod", name, pod["metadata"]["namespace"])

    async def _start(self, pod: Object) -> None:
        """Set a bound pod to running, as its kubelet does, at the same point with both schedulers."""
        self._started += 1
        status = {"phase": "Running", "startTime": f"2026-01-01T00:01:{self._started:02}Z"}
        await self._stage.patch(
            "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"], {"status": status}, "status"
        )


def _as_it_came(pod: Object, entrant: Entrant) -> Object:
    """Return the pod with the defaults of the API server, before it is scheduled."""
    spec = {key: part for key, part in pod["spec"].items() if key not in ("nodeName", "schedulingGates")}
    stored = {"resourceClaimStatuses"} & pod["status"].keys()
    status = {**entrant.pod.get("status", {}), **{key: pod["status"][key] for key in stored}}
    return {**entrant.pod, "metadata": pod["metadata"], "spec": spec, "status": status}


def _condition(pod: Object) -> Object:
    conditions: list[Object] = [item for item in pod["status"].get("conditions", ()) if item["type"] == "PodScheduled"]
    return conditions[0] if conditions else {}


def is_judged(pod: Object) -> bool:
    """Return whether a pod is bound or has a reason."""
    return bool(pod["spec"].get("nodeName")) or _condition(pod).get("reason", "SchedulingGated") != "SchedulingGated"


def _needs_others(pod: Object) -> bool:
    """Return whether an object must be bound before the pod is."""
    spec = pod["spec"]
    limits = [name for each in spec["containers"] for name in each.get("resources", {}).get("limits", ())]
    return bool(spec.get("volumes") or spec.get("resourceClaims") or any("/" in name for name in limits))


def _device_claims(pod: Object) -> dict[str, str]:
    """Return the claims of a pod by their names in its spec."""
    claims = {item["name"]: item.get("resourceClaimName", "") for item in pod["spec"].get("resourceClaims", ())}
    for item in pod["status"].get("resourceClaimStatuses", ()):
        claims[item["name"]] = item.get("resourceClaimName", "")
    if extended := pod["status"].get("extendedResourceClaimStatus"):
        claims["(extended resources)"] = extended["resourceClaimName"]
    return {key: claim for key, claim in claims.items() if claim}


def _plain(text: str) -> str:
    return _UID.sub("<uid>", text)
