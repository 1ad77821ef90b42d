"""Replay a queue history with our queue: the steps of `oracle queue`, and the same reports."""

from typing import Any

import msgspec

from moorage.cluster.files.loading import build_cluster_input
from moorage.common.clock import VirtualClock
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.event_handlers import EventHandlers
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.waiting import WaitingPods
from moorage.scheduler.framework.events import Action, ClusterEvent
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.queue.entities import QueuedPodGroupInfo, QueuedPodInfo
from moorage.scheduler.queue.gates import ProfileQueueing
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.testing.rig import Rig

Json = dict[str, Any]
EPOCH = VirtualClock().now()


class UpstreamHandlers(EventHandlers):
    """Retries no pods that upstream does not retry: docs/parity.md lists the differences."""

    def _relabeled_while_assumed(self, assumed: Pod, pod: Pod) -> None:
        pass


class UpstreamQueue(SchedulingQueue):
    """See above."""

    def end_nomination(self, pod: Pod, placed_on: str = "") -> None:
        self.nominator.remove(pod)


class Replay:
    """A running history: queue, cache and handlers as in the scheduler, with the default profile's plugins."""

    def __init__(self, gates: dict[str, bool]) -> None:
        features = FeatureGates.parse(",".join(f"{name}={str(on).lower()}" for name, on in gates.items()))
        self.rig = Rig(features=features)
        profile = Profile(default_config().profiles[0], Registry(IN_TREE), lambda _plugin: self.rig)
        upstreams = {
            plugin: tuple(item for item in registrations if not item.beyond_upstream)
            for plugin, registrations in profile.registrations().items()
        }
        self.queue = UpstreamQueue(
            clock=self.rig.clock,
            sort=profile.queue_sort[0],
            profiles={profile.name: ProfileQueueing(profile.pre_enqueue, upstreams)},
            pop_from_backoff=features.enabled("SchedulerPopFromBackoffQ"),
            pods=self.rig.objects[Pod],
        )
        self.rig.nominator = self.queue.nominator
        self.handlers = UpstreamHandlers(
            cache=self.rig.cache,
            objects=self.rig.objects,
            queue=self.queue,
            profiles=[profile.name],
            waiting=WaitingPods(),
        )
        self.millis = 0
        self.version = 0
        self.popped: dict[str, QueuedPodInfo] = {}

    def do(self, step: Json) -> Json:
        """Execute a step and report the state of all pods."""
        report = getattr(self, f"_do_{step['do']}")(step) or {}
        self.queue.check_invariants()
        return self.report() | report

    def _do_apply(self, step: Json) -> None:
        new = self._decoded(step["object"])
        old = self.rig.objects[type(new)].get(new.name, new.namespace)
        self.handlers.apply(old, new)

    def _do_delete(self, step: Json) -> None:
        obj = self._decoded(step["object"])
        existing = self.rig.objects[type(obj)].get(obj.name, obj.namespace)
        if existing is not None:
            self.handlers.apply(existing, None)

    def _do_pop(self, step: Json) -> Json | None:
        info = self.queue.pop()
        if info is None:
            return None
        assert isinstance(info, QueuedPodInfo)
        self.popped[info.key] = info
        return {"popped": info.key}

    def _do_fail(self, step: Json) -> None:
        info = self.popped.pop(step["pod"])
        info.rejected_by(set(step.get("unschedulablePlugins", ())), set(step.get("pendingPlugins", ())))
        current = self.rig.objects[Pod].get(info.pod.name, info.pod.namespace)
        if current is not None and current.uid != info.uid:
            self.queue.done(info.uid)
            return
        if current is None or current.node_name:
            self.queue.done(info.uid)
        else:
            self.queue.add_unschedulable(info, current)
        self.queue.nominator.add(info.pod, step.get("nominatedNode"))

    def _do_succeed(self, step: Json) -> None:
        info = self.popped.pop(step["pod"])
        self.rig.cache.assume(info.pod.on_node(step["node"]))
        self.queue.nominator.remove(info.pod)
        self.queue.done(info.uid)

    def _do_advance(self, step: Json) -> None:
        target = self.millis + round(step["seconds"] * 1000)
        for millis in [*range(self.millis - self.millis % 1000 + 1000, target + 1, 1000), target]:
            self.millis = millis
            self.rig.clock.advance_to(EPOCH + millis / 1000)
            self.queue.flush(self.rig.clock.now())

    def _do_activate(self, step: Json) -> None:
        pods = [self.rig.objects[Pod].get(key.partition("/")[2], key.partition("/")[0]) for key in step["pods"]]
        self.queue.activate([pod for pod in pods if pod is not None])

    def _do_move(self, step: Json) -> None:
        action = Action(0)
        for name in step["event"]["actions"]:
            action |= ACTIONS[name]
        self.queue.move_all_to_active_or_backoff(ClusterEvent(step["event"]["resource"], action))

    def _decoded(self, content: Json) -> KubeObject:
        self.version += 1
        obj = build_cluster_input([content]).objects[0]
        metadata = msgspec.structs.replace(obj.metadata, resource_version=str(self.version))
        return msgspec.structs.replace(obj, metadata=metadata)

    def report(self) -> Json:
        """Return the state of all pods, in the oracle's terms."""
        pods = {info.key: self._described(info, "inFlight") for info in self._flying()}
        pods |= {info.key: self._described(info, self._place(info)) for info in self.queue}
        nodes = sorted(node.name for node in self.rig.objects[Node].list())
        nominated = {node: sorted(pod.key for pod in self.queue.nominator.nominated_pods(node)) for node in nodes}
        report: Json = {"time": self.millis / 1000, "pods": pods}
        if any(nominated.values()):
            report["nominated"] = {node: promised for node, promised in nominated.items() if promised}
        return report

    def _flying(self) -> list[QueuedPodInfo]:
        flying = set(self.queue.in_flight())
        return [info for info in self.popped.values() if info.uid in flying]

    def _place(self, info: QueuedPodInfo) -> str:
        queue = self.queue.where(info.pod)
        assert queue is not None
        return "errorBackoff" if queue == "backoff" and not info.rejectors else queue

    def _described(self, info: QueuedPodInfo | QueuedPodGroupInfo, queue: str) -> Json:
        report: Json = {
            "queue": queue,
            "attempts": info.attempts,
            "unschedulableCount": info.unschedulable_count,
            "consecutiveErrors": info.consecutive_errors,
            "timestamp": self._since(info.timestamp),
            "unschedulablePlugins": sorted(info.unschedulable_plugins),
            "pendingPlugins": sorted(info.pending_plugins),
            "gatingPlugin": info.gating_plugin,
            "flushed": info.was_flushed,
        }
        report = {key: value for key, value in report.items() if value or key in ("attempts", "timestamp")}
        if queue in ("backoff", "errorBackoff"):
            assert info.backoff_expiration is not None
            report["backoffExpiration"] = self._since(info.backoff_expiration)
        return report

    @staticmethod
    def _since(moment: float) -> float:
        return round(moment - EPOCH, 3)


ACTIONS = {"Add": Action.ADD, "Delete": Action.DELETE, "Update": Action.UPDATE, "All": Action.ALL}


def replay(history: Json) -> list[Json]:
    """Execute a complete history; return a report for each step."""
    actual = Replay(history.get("featureGates", {}))
    return [actual.do(step) for step in history["steps"]]
