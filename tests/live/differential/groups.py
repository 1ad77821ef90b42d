"""Groups with both schedulers: all members arrive, then the group itself, and all are scheduled together.

Only what chance has no part in is played: no racks, and no trees, which need them.
"""

import asyncio
import time
from copy import deepcopy
from dataclasses import dataclass, field, replace
from typing import Final

from moorage.kube.client.rest import ApiClient
from tests.conformance.compare import Difference
from tests.conformance.generator import Case, generate
from tests.conformance.generator.words import Object
from tests.live.differential.play import BINDING_SECONDS, DOUBT_SECONDS, POLL_SECONDS, Fate, Play, is_judged
from tests.live.differential.pods import PodFitter
from tests.live.differential.scene import Scene, scene_of
from tests.live.differential.sides import OURS, THEIRS, Side, side
from tests.live.differential.stage import Stage
from tests.support.control_plane import ControlPlane

GATES: Final = {"GenericWorkload": True}
FLAGS: Final = ("--feature-gates=GenericWorkload=true", "--runtime-config=scheduling.k8s.io/v1beta1=true")
KIND: Final = "PodGroup"


@dataclass
class GroupFate:
    """The result of a group: its condition, and the results of its members."""

    group: str
    condition: str = ""
    members: list[Fate] = field(default_factory=list)
    victims: list[str] = field(default_factory=list)

    @property
    def compared(self) -> dict[str, object]:
        """The part that does not depend on the time of reading.

        The remaining members of a partially placed group are retried immediately, and the message of a group with
        leaving victims changes.
        """
        nodes = {fate.pod: fate.node or fate.nominated for fate in self.members}
        summary: dict[str, object] = {"nodes": nodes, "victims": self.victims}
        if not self.victims:
            summary["messages"] = {fate.pod: (fate.reason, fate.message) for fate in self.members}
            if len({bool(fate.node) for fate in self.members}) == 1:
                summary["condition"] = self.condition
        return summary


@dataclass(frozen=True)
class GroupScene:
    """A cluster, and groups that arrive in sequence, each with its pending pods."""

    scene: Scene
    standing: list[Object]
    arriving: list[tuple[Object, list[Object]]]


def make_group_scene(seed: str) -> GroupScene:
    """Make a scene with a group that has members to place."""
    number = 0
    while True:
        case = generate(f"{seed}.{number}", features=frozenset({"groups"}))
        scene = _scene(replace(case, config=None, feature_gates=GATES))
        if scene.arriving:
            return scene
        number += 1


def _scene(case: Case) -> GroupScene:
    groups = [deepcopy(obj) for obj in case.objects if obj["kind"] == KIND]
    peers = [obj for obj in case.objects if obj["kind"] not in (KIND, "CompositePodGroup")]
    scene = scene_of(replace(case, objects=peers))
    fitter = PodFitter()
    standing, arriving = [], []
    for group in groups:
        group["apiVersion"], group["spec"] = "scheduling.k8s.io/v1beta1", _spec(group["spec"], fitter)
        group.pop("status", None)
        members = [entrant.pod for entrant in scene.entrants if _key(entrant.pod) == _name(group)]
        if members:
            arriving.append((group, members))
        else:
            standing.append(group)
    existing = {obj["metadata"]["name"] for obj in scene.of("PriorityClass")}
    classes = [obj for obj in fitter.classes() if obj["metadata"]["name"] not in existing]
    return GroupScene(replace(scene, objects=[*classes, *scene.objects], entrants=[]), standing, arriving)


def _spec(spec: Object, fitter: PodFitter) -> Object:
    retained: Object = {key: spec[key] for key in ("schedulingPolicy", "disruptionMode", "priority") if key in spec}
    if spec.get("preemptionPolicy"):
        retained["preemptionPolicy"] = spec["preemptionPolicy"]
    fitter.fit_priority(retained)
    return retained


def _name(obj: Object) -> str:
    return f"{obj['metadata'].get('namespace', 'default')}/{obj['metadata']['name']}"


def _key(pod: Object) -> str:
    group = pod["spec"].get("schedulingGroup", {}).get("podGroupName", "")
    return f"{pod['metadata'].get('namespace', 'default')}/{group}"


class GroupPlay(Play):
    """One scene of groups with one scheduler."""

    def __init__(self, stage: Stage, scene: GroupScene, scheduler: Side) -> None:
        super().__init__(stage, scene.scene, scheduler)
        self._made = scene

    async def play(self) -> list[GroupFate]:
        """Create the groups."""
        await self._send_canary()
        await self._add_nodes()
        return [await self._arrive(group, members) for group, members in self._made.arriving]

    async def _arrive(self, group: Object, members: list[Object]) -> GroupFate:
        created = [pod for content in members if (pod := await self._stage.add(content)) is not None]
        # Ordered by creation, which the API server reports in whole seconds; the names have the same order.
        await self._send_canary()
        added = await self._stage.add(group)
        assert added is not None, self._stage.refused
        fate = GroupFate(group["metadata"]["name"])
        verdict = await self._all_judged(created)
        await self._note_victims(fate)
        for pod in verdict:
            current = await self._now(pod)
            report = Fate(pod["metadata"]["name"])
            await self._note(report, current)
            fate.members.append(report)
        fate.condition = await self._condition_of(group)
        await self._clear(group, verdict, fate)
        return fate

    async def _all_judged(self, pods: list[Object]) -> list[Object]:
        """Wait until each member is bound, rejected, or known to be gated."""
        for patience in (DOUBT_SECONDS, BINDING_SECONDS / 5):
            deadline = time.monotonic() + patience
            while time.monotonic() < deadline:
                selected = [await self._now(pod) for pod in pods]
                if all(map(is_judged, selected)):
                    break
                await asyncio.sleep(POLL_SECONDS)
            await self._send_canary()
        return [await self._now(pod) for pod in pods]

    async def _note_victims(self, fate: GroupFate) -> None:
        await asyncio.sleep(DOUBT_SECONDS)
        for pod in await self._stage.all_of("Pod"):
            if self._is_new_victim(pod):
                self._gone.add(pod["metadata"]["uid"])
                fate.victims.append(pod["metadata"]["name"])
        fate.victims.sort()

    async def _condition_of(self, group: Object) -> str:
        metadata = group["metadata"]
        obj = await self._stage.get(KIND, metadata["name"], metadata.get("namespace", "default"))
        conditions = (obj or {}).get("status", {}).get("conditions", ())
        return " / ".join(f"{item['status']} {item['reason']} {item['message']}" for item in conditions)

    async def _clear(self, group: Object, pods: list[Object], fate: GroupFate) -> None:
        """Delete victims, pending pods and the group, so that the next group starts with the same cluster."""
        for pod in pods:
            name, namespace = pod["metadata"]["name"], pod["metadata"]["namespace"]
            if not (await self._now(pod))["spec"].get("nodeName"):
                await self._stage.remove("Pod", name, namespace)
        for name in fate.victims:
            await self._let_go(name)
        if not any(report.node for report in fate.members):
            await self._stage.remove(KIND, group["metadata"]["name"], group["metadata"].get("namespace", "default"))


async def play(plane: ControlPlane, scene: GroupScene, name: str) -> list[GroupFate]:
    """Run a scene with one scheduler on an empty cluster, and clean up."""
    async with ApiClient(plane.connection()) as client:
        stage = Stage(client)
        await _clear_groups(stage)
        await stage.tear_down()
        await stage.set_up(scene.scene)
        for group in scene.standing:
            await stage.add(group)
        with side(name, plane, scene.scene) as scheduler:
            return await GroupPlay(stage, scene, scheduler).play()


async def _clear_groups(stage: Stage) -> None:
    for group in await stage.all_of(KIND):
        await stage.remove(KIND, group["metadata"]["name"], group["metadata"]["namespace"])


def compare(plane: ControlPlane, scene: GroupScene) -> tuple[list[Difference], list[GroupFate]]:
    """Run a scene with both schedulers; stop at the first difference, because the clusters differ afterward."""
    upstream = asyncio.run(play(plane, scene, THEIRS))
    actual = asyncio.run(play(plane, scene, OURS))
    for own, their in zip(actual, upstream, strict=True):
        if own.compared != their.compared:
            return [
                Difference(own.group, key, key, own.compared.get(key), their.compared.get(key))
                for key in sorted({*own.compared, *their.compared})
                if own.compared.get(key) != their.compared.get(key)
            ], upstream
    return [], upstream
