"""Replay a group history with the complete scheduler, and report in the format of the oracle."""

from types import SimpleNamespace
from typing import Any

import msgspec
from tests.conformance.ours import BASE_GATES
from tests.parity.queue_replay import Json, Replay

from moorage.cluster.dry_run import AssumingBinder, FirstAttempts
from moorage.cluster.files.loading import build_cluster_input
from moorage.cluster.offline import DiscardingApi, NoBackground
from moorage.common.clock import VirtualClock
from moorage.common.version import RELEASE
from moorage.kube.api.meta import KubeObject
from moorage.kube.features import RELEASES, FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.effects import Effects
from moorage.scheduler.engine.outcomes import Diagnosis, Failed, Unschedulable
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.framework.status import Code
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.wiring.assembly import Tuning, assemble
from moorage.scheduler.wiring.policy import Policy

CODES = {"scheduled": Code.SUCCESS, "unschedulable": Code.UNSCHEDULABLE, "error": Code.ERROR}
#: Upstream names any of several gating plugins and members.
BY_CHANCE = ("gatingPlugin", "unschedulablePlugins")


class GroupReplay(Replay):
    """A history on a separate scheduler without writes."""

    def __init__(self, gates: dict[str, bool], release: str = RELEASE) -> None:
        recorded = FeatureGates({**BASE_GATES, **gates}, release=RELEASE)
        # A newer release has the gates of the recording, except those that it has locked or removed.
        own = RELEASES[release].values()
        settings = {gate.name: recorded.enabled(gate.name) for gate in own if not gate.locked}
        self._features = features = recorded if release == RELEASE else FeatureGates(settings, release=release)
        self._log = FirstAttempts(with_nodes=True)
        clock = VirtualClock()
        parts = assemble(
            Policy(default_config(gates=features), Registry(IN_TREE), features),
            DiscardingApi(),
            clock,
            observers=(self._log,),
            background=NoBackground(),
            tuning=Tuning(effects=Effects(make_binder=AssumingBinder)),
        )
        self._scheduler = scheduler = parts.scheduler
        self.queue: Any = scheduler.queue
        self.handlers: Any = scheduler.handlers
        self.rig: Any = SimpleNamespace(objects=scheduler.objects, cache=scheduler.cache, clock=clock)
        self.millis = 0
        self.version = 0
        self.popped: dict[str, QueuedPodInfo] = {}
        self._tried: dict[str, QueuedPodGroupInfo] = {}

    async def carry_out(self, step: Json) -> Json:
        """Execute a step and report the state of all pods and groups."""
        if step["do"] != "schedule":
            return self.do(step)
        return await self._schedule()

    async def _schedule(self) -> Json:
        if self.queue.sizes().active:
            await self._scheduler.schedule_next()
        report = self.report()
        pods = {decision.pod: msgspec.to_builtins(decision) for decision in self._log.decisions.values()}
        if self._log.groups:
            (group,) = self._log.groups
            report |= {"group": msgspec.to_builtins(group), "decisions": [pods[name] for name in group.pods]}
        elif pods:
            (report["decision"],) = pods.values()
        self._log.decisions.clear()
        self._log.groups.clear()
        return report

    def _do_pop(self, step: Json) -> Json | None:
        entity = self.queue.pop()
        if not isinstance(entity, QueuedPodGroupInfo):
            if entity is None:
                return None
            self.popped[entity.key] = entity
            return {"popped": entity.key}
        self._tried[entity.root.key] = entity
        self.popped |= {member.key: member for member in entity.members}
        return {"popped": entity.root.key, "members": [member.key for member in entity.members]}

    def _do_finish(self, step: Json) -> None:
        entity = self._tried.pop(step["group"])
        for member in entity.members:
            if member.key not in step["pods"]:
                self._do_succeed({"pod": member.key, "node": step["node"]})
                continue
            rejectors = set(step.get("unschedulablePlugins", ()))
            failed: Unschedulable | Failed = Failed("the attempt failed", nominated_node=None)
            if rejectors:
                failed = Unschedulable(Diagnosis(1, unschedulable_plugins=rejectors))
            self._scheduler.failures.handle(self.popped.pop(member.key), failed)
        self.queue.groups.finish(entity, CODES[step["result"]])

    def _decoded(self, content: Json) -> KubeObject:
        self.version += 1
        obj = build_cluster_input([content], features=self._features).objects[0]
        existing = self.rig.objects[type(obj)].get(obj.name, obj.namespace)
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
        uid = existing.uid if existing is not None else content["metadata"].get("uid", f"uid-{self.version}")
        metadata = msgspec.structs.replace(metadata, uid=uid)
        return msgspec.structs.replace(obj, metadata=metadata)

    def report(self) -> Json:
        """Return the state of all pods and groups."""
        groups = [info for info in self.queue.entries() if isinstance(info, QueuedPodGroupInfo)]
        pods = {info.key: self._described(info, "inFlight") for info in self._flying()}
        pods |= {info.key: self._described(info, self._place(info)) for info in self.queue}
        report: Json = {"time": self.millis / 1000, "pods": pods}
        if groups:
            report["groups"] = {group.root.key: self._of_group(group) for group in groups}
        return report

    def _place(self, info: QueuedPodInfo) -> str:
        queue = self.queue.where(info.pod)
        is_grouped = info.pod.spec.scheduling_group is not None
        return "errorBackoff" if queue == "backoff" and (is_grouped or not info.rejectors) else str(queue)

    def _of_group(self, group: QueuedPodGroupInfo) -> Json:
        report = super()._described(group, self._place(group.members[0]))
        groups = self._scheduler.cache.groups
        assert groups is not None
        leaves = [leaf.key for leaf in groups.tree(group.root).leaves]
        members = sorted(group.members, key=lambda member: leaves.index(member.pod.group_key or ""))
        return {**report, "members": [member.key for member in members]}

    def _described(self, info: QueuedPodInfo | QueuedPodGroupInfo, queue: str) -> Json:
        if info.pod.spec.scheduling_group is None:
            return super()._described(info, queue)
        # The group determines the next attempt of a member.
        plain = super()._described(info, "active")
        return {**plain, "queue": queue}


def comparable(report: Json) -> Json:
    """Remove random values, and nominations, which our history does not carry out."""
    retained = {key: part for key, part in report.items() if key != "nominated"}
    for part in ("pods", "groups"):
        if part in retained:
            retained[part] = {
                name: {key: value for key, value in queued.items() if key not in BY_CHANCE}
                for name, queued in retained[part].items()
            }
    return retained
