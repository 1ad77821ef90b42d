"""Daemon sets: one pod on every eligible node. The scheduler places each pod on the node it was created for."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, status_actions
from moorage.cluster.controllers.base import PodSetController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import (
    is_active,
    is_available,
    is_ready,
    managed_pods,
    pod_claims,
    pod_from_template,
    scaled,
)
from moorage.cluster.controllers.replicaset import wait_for_availability
from moorage.cluster.controllers.revisions import REVISION_LABEL, History
from moorage.kube.api.affinity import NO_EXECUTE, NO_SCHEDULE
from moorage.kube.api.codec import convert
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodSpec
from moorage.kube.api.selectors import node_matcher
from moorage.kube.api.struct import Data
from moorage.kube.api.workloads import ControllerRevision, DaemonSet

_TOLERATED: Final = {
    NO_EXECUTE: ("not-ready", "unreachable"),
    NO_SCHEDULE: ("disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"),
}
TOLERATIONS: Final = tuple(
    {"key": f"node.kubernetes.io/{name}", "operator": "Exists", "effect": effect}
    for effect, names in _TOLERATED.items()
    for name in names
)
"""Tolerations of every daemon: daemons are needed most on unhealthy nodes."""
_KEEP_OFF: Final = (NO_SCHEDULE, NO_EXECUTE)
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


class DaemonSetController(PodSetController):
    """Manages the pods of daemon sets."""

    name = "daemon sets"
    workload = DaemonSet
    kinds = (DaemonSet, Pod, Node, ControllerRevision)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, Node):
            return [daemon_set.key for daemon_set in cache[DaemonSet]]
        return super().affected(obj, cache)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create missing daemon pods, and delete pods from nodes that should not have one."""
        daemon_set = cache[DaemonSet].get(key)
        if daemon_set is None or daemon_set.is_terminating:
            return ()
        history = History.of(daemon_set, cache)
        if first := [*pod_claims(daemon_set, cache), *history.record(cache)]:
            return first
        pods = managed_pods(daemon_set, cache)
        return Daemons(daemon_set, list(cache[Node]), pods, self._clock.now(), history).actions()


@dataclass(frozen=True)
class Daemons:
    """One daemon set at one moment, with all nodes and its pods."""

    daemon_set: DaemonSet
    nodes: list[Node]
    pods: list[Pod]
    now: float
    history: History

    @property
    def revision(self) -> str:
        """The hash of the current template."""
        return self.history.hash

    @cached_property
    def example(self) -> Pod:
        """A pod made from the template, to evaluate its tolerations and node selector."""
        spec = dict(self.daemon_set.spec.template.get("spec") or {})
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *TOLERATIONS]
        return Pod(spec=convert(PodSpec, spec))

    @cached_property
    def by_node(self) -> dict[str, list[Pod]]:
        """The pods of each node, including pods that are not yet placed there."""
        pods_by_node: dict[str, list[Pod]] = {}
        for pod in self.pods:
            pods_by_node.setdefault(find_target(pod), []).append(pod)
        return pods_by_node

    @cached_property
    def wanted(self) -> set[str]:
        """The nodes that should have a pod."""
        return {node.name for node in self.nodes if self._selects(node) and not self._is_repelled(node, *_KEEP_OFF)}

    @cached_property
    def tolerable(self) -> set[str]:
        """The nodes where an existing pod may remain: NoSchedule taints affect only new pods."""
        return {node.name for node in self.nodes if self._selects(node) and not self._is_repelled(node, NO_EXECUTE)}

    def _selects(self, node: Node) -> bool:
        spec = self.example.spec
        if not (spec.node_selector or {}).items() <= node.labels.items():
            return False
        affinity = spec.affinity.node_affinity if spec.affinity is not None else None
        if affinity is None or affinity.required is None:
            return True
        return node_matcher(affinity.required).matches(node.labels, node.name)

    def _is_repelled(self, node: Node, *effects: str) -> bool:
        return any(taint.effect in effects and not self.example.tolerates(taint) for taint in node.taints)

    def actions(self) -> Iterator[ControllerAction]:
        """Return the actions for the current state."""
        for node in sorted(self.wanted - self.by_node.keys()):
            yield Create(Pod, self._make_pod(node))
        for node, pods in self.by_node.items():
            spare = self._spare(pods) if node in self.tolerable else pods
            doomed = [*spare, *(pod for pod in pods if pod not in spare and pod.is_finished)]
            yield from (Delete(pod) for pod in doomed if not pod.is_terminating)
        yield from self._update()
        yield from status_actions(self.daemon_set, self.daemon_set.status, self._status())
        yield from self.history.forget({pod.labels.get(REVISION_LABEL, "") for pod in self.pods})
        yield from wait_for_availability(self.pods, self.daemon_set.spec.min_ready_seconds, self.now)

    def _spare(self, pods: list[Pod]) -> list[Pod]:
        """Return the surplus pods of a node: all except one, or all except two during a replacement."""
        new = [pod for pod in pods if self._is_new(pod)]
        old = [pod for pod in pods if not self._is_new(pod)]
        if not self._surge or not new or any(self._is_available(pod) for pod in new):
            return (new + old)[1:] if new and any(map(self._is_available, new)) else (old + new)[1:]
        return [*new[1:], *old[1:]]

    @cached_property
    def _surge(self) -> int:
        max_surge = self.daemon_set.spec.update_strategy.rolling_update.max_surge
        return scaled(0 if max_surge is None else max_surge, len(self.wanted), round_up=True)

    def _is_new(self, pod: Pod) -> bool:
        return pod.labels.get(REVISION_LABEL) == self.revision

    def _update(self) -> Iterator[ControllerAction]:
        """Replace pods of previous templates within maxUnavailable and maxSurge."""
        strategy = self.daemon_set.spec.update_strategy
        first_pods = (self.by_node[node][0] for node in sorted(self.tolerable & self.by_node.keys()))
        old = [pod for pod in first_pods if not self._is_new(pod) and is_active(pod)]
        if strategy.type == "OnDelete" or not old:
            return
        if self._surge:
            # Old pods are deleted when their replacements are available.
            old_pods = [pod for pod in old if not any(map(self._is_new, self.by_node[find_target(pod)]))]
            room = self._surge - (len(old) - len(old_pods))
            yield from (Create(Pod, self._make_pod(find_target(pod))) for pod in old_pods[: max(0, room)])
            return
        max_unavailable = strategy.rolling_update.max_unavailable
        most = max(1, scaled(1 if max_unavailable is None else max_unavailable, len(self.wanted), round_up=True))
        pods_by_node = (filter(is_active, self.by_node.get(node, ())) for node in self.wanted)
        room = most - (len(self.wanted) - sum(any(map(self._is_available, pods)) for pods in pods_by_node))
        for pod in old:
            if not self._is_available(pod):
                yield Delete(pod)
            elif room > 0:
                room -= 1
                yield Delete(pod)

    def _is_available(self, pod: Pod) -> bool:
        return is_available(pod, self.daemon_set.spec.min_ready_seconds, self.now)

    def _make_pod(self, node: str) -> Data:
        labels = {REVISION_LABEL: self.revision, "pod-template-generation": str(self.daemon_set.metadata.generation)}
        data = pod_from_template(
            self.daemon_set, self.daemon_set.spec.template, generateName=f"{self.daemon_set.name}-", labels=labels
        )
        spec = data["spec"]
        spec["tolerations"] = [*(spec.get("tolerations") or ()), *TOLERATIONS]
        affinity = spec.get("affinity") or {}
        node_affinity = affinity.get("nodeAffinity") or {}
        field = {"key": "metadata.name", "operator": "In", "values": [node]}
        terms = (node_affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [{}]
        required = {"nodeSelectorTerms": [{**term, "matchFields": [field]} for term in terms]}
        spec["affinity"] = {**affinity, "nodeAffinity": {**node_affinity, _REQUIRED: required}}
        return data

    def _status(self) -> Data:
        node_pods = (self.by_node[node] for node in sorted(self.wanted & self.by_node.keys()))
        daemons = [
            max(pods, key=self._is_new)
            for pods in (list(filter(is_active, candidates)) for candidates in node_pods)
            if pods
        ]
        available = sum(map(self._is_available, daemons))
        return {
            "observedGeneration": self.daemon_set.metadata.generation,
            "desiredNumberScheduled": len(self.wanted),
            "currentNumberScheduled": len(daemons),
            "numberMisscheduled": sum(1 for node in self.by_node if node not in self.wanted),
            "numberReady": sum(map(is_ready, daemons)),
            "updatedNumberScheduled": sum(map(self._is_new, daemons)),
            "numberAvailable": available,
            "numberUnavailable": len(self.wanted) - available,
        }


def find_target(pod: Pod) -> str:
    """Return the node that a daemon pod runs on or was created for."""
    if pod.node_name or pod.spec.affinity is None or pod.spec.affinity.node_affinity is None:
        return pod.node_name
    required = pod.spec.affinity.node_affinity.required
    terms = required.node_selector_terms if required is not None else ()
    names = (item.values[0] for term in terms for item in term.match_fields if item.key == "metadata.name")
    return next(names, "")
