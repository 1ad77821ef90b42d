"""Pods that can move: their controller recreates them, and the user has not excluded them."""

from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import msgspec
from msgspec import Struct

from moorage.common.errors import InputError
from moorage.insight.whatif.changes import is_bound_to_node
from moorage.insight.whatif.edits import ObjectId
from moorage.insight.whatif.session import Session
from moorage.kube.api.meta import parse_time
from moorage.kube.api.pod import Pod

BACKOFF_LIMIT: Final = 6
MAX_WEIGHT: Final = 9.0
DAY: Final = 86_400.0
NAMESPACE: Final = "namespace"


class Constraints(Struct, frozen=True, rename="camel", omit_defaults=True):
    """Limits that the user sets.

    ``exclude`` has patterns of node names and of ``namespace/pod`` names. Their pods do not move. ``keep`` has
    ``namespace=NAME`` or a label ``KEY=VALUE`` of pods that do not move. ``force`` also evicts pods that are not
    recreated; ``allow_pending`` also evicts pods that no other node can hold.
    """

    max_moves: int | None = None
    exclude: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()
    force: bool = False
    allow_pending: bool = False

    def check(self) -> None:
        """Raise InputError if an item of ``keep`` has no value."""
        for item in self.keep:
            key, equals, value = item.partition("=")
            if not (key and equals and value):
                hint = "use namespace=kube-system, or a label of pods such as app=db"
                raise InputError(f"--keep {item}", "not of the form KEY=VALUE", hint=hint)

    def as_data(self) -> dict[str, Any]:
        """Return the limits that are set."""
        data: dict[str, Any] = msgspec.to_builtins(self)
        return data

    def find_unmatched(self, nodes: Iterable[str], pods: Sequence[Pod]) -> Iterator[str]:
        """Yield a message for each item of ``exclude`` and ``keep`` that matches nothing."""
        names = [*nodes, *(pod.key for pod in pods)]
        for pattern in self.exclude:
            if not any(fnmatchcase(name, pattern) for name in names):
                pod_pattern = "" if "/" in pattern else f"; for pods, use NAMESPACE/POD, such as default/{pattern}"
                yield f"--exclude {pattern} matches no node and no pod{pod_pattern}"
        for item in self.keep:
            if not any(_is_kept(pod, item) for pod in pods):
                yield f"--keep {item} matches no pod"

    def excludes(self, name: str) -> bool:
        """Return whether a node, or a pod ``namespace/name``, is excluded."""
        return any(fnmatchcase(name, pattern) for pattern in self.exclude)

    def find_keep_option(self, pod: Pod) -> str:
        """Return the option that keeps a pod on its node, otherwise an empty string."""
        for item in self.keep:
            if _is_kept(pod, item):
                return f"--keep {item}"
        excluded = next(
            (item for item in self.exclude for name in (pod.key, pod.node_name) if fnmatchcase(name, item)), ""
        )
        return f"--exclude {excluded}" if excluded else ""


def _is_kept(pod: Pod, item: str) -> bool:
    key, _, value = item.partition("=")
    return (pod.namespace if key == NAMESPACE else pod.labels.get(key)) == value


UNLIMITED: Final = Constraints()


class MoveRefusal(Struct, frozen=True):
    """Reason why a pod does not move."""

    kind: str
    reason: str


class MobilityRules:
    """Classifies pods by their controllers and by the constraints of the user."""

    def __init__(self, session: Session, constraints: Constraints) -> None:
        self._session = session
        self.constraints = constraints

    def stays_with_node(self, pod: Pod) -> bool:
        """Return whether a pod belongs to its node: a pod of a DaemonSet, or a static pod."""
        return is_bound_to_node(self._content("Pod", pod.namespace, pod.name) or {})

    def find_refusal(self, pod: Pod) -> MoveRefusal | None:
        """Return why a pod must not be evicted. Budgets and free resources are checked elsewhere."""
        if option := self.constraints.find_keep_option(pod):
            return MoveRefusal("kept", f"{option} keeps it on its node")
        if pod.scheduler_name not in self._session.scheduler.runners:
            return MoveRefusal(
                "scheduler", f"the configuration has no profile for its schedulerName {pod.scheduler_name!r}"
            )
        if reason := self.explain_loss(pod):
            if not self.constraints.force:
                return MoveRefusal("not-recreated", f"{reason}; use --force to evict it anyway")
            if pod.group_key:
                return MoveRefusal("not-recreated", f"{reason}, and it is a member of a pod group")
        return None

    def explain_loss(self, pod: Pod) -> str:
        """Return why an evicted pod is not recreated, or empty if it is."""
        owner = pod.metadata.controller
        if owner is None:
            return "no controller recreates it"
        if owner.kind in ("ReplicaSet", "StatefulSet", "ReplicationController"):
            workload = self._content(owner.kind, pod.namespace, owner.name)
            replicas = ((workload or {}).get("spec") or {}).get("replicas", 1)
            return f"its {owner.kind} {owner.name} has no replicas" if workload and replicas == 0 else ""
        job = self._content("Job", pod.namespace, owner.name) if owner.kind == "Job" else None
        return _explain_lost_job_pod(job) if job is not None else ""

    def _content(self, kind: str, namespace: str, name: str) -> dict[str, Any] | None:
        document, _ = self._session.objects.remember(ObjectId(kind, namespace, name))
        return None if document is None else dict(document.content)

    def restart_cost(self, pod: Pod, now: float) -> float:
        """Return the cost of a restart: 1, times up to 10 for the priority, times up to 10 for the age in days."""
        started = pod.status.start_time or pod.metadata.creation_timestamp
        try:
            age = max(0.0, now - parse_time(started)) if started else 0.0
        except ValueError:
            age = 0.0
        urgency = min(max(0, pod.priority) / 1000, MAX_WEIGHT)
        return round((1 + urgency) * (1 + min(age / DAY, MAX_WEIGHT)), 3)


def _explain_lost_job_pod(job: dict[str, Any]) -> str:
    """Return why a Job does not replace an evicted pod: it is suspended, or the eviction exceeds its backoff limit."""
    spec, status = job.get("spec") or {}, job.get("status") or {}
    name = job["metadata"]["name"]
    if spec.get("suspend"):
        return f"its Job {name} is suspended"
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        if any(item.get("type") == "DisruptionTarget" for item in rule.get("onPodConditions") or ()):
            if rule.get("action") == "Ignore":
                return ""
            if rule.get("action") == "FailJob":
                return f"its Job {name} fails after an eviction (podFailurePolicy)"
            break
    limit, failure_count = spec.get("backoffLimit", BACKOFF_LIMIT), status.get("failed", 0)
    return f"its Job {name} fails after this eviction (backoffLimit {limit})" if failure_count >= limit else ""


def has_local_data(pod: Pod) -> bool:
    """Return whether an eviction deletes data: emptyDir volumes end with their pod."""
    return any(volume.empty_dir is not None for volume in pod.spec.volumes)


def largest_first(pods: Sequence[Pod]) -> list[Pod]:
    """Sort pods in the order of the scheduling queue: by priority; of the same priority, the largest first."""

    def order(pod: Pod) -> tuple[int, int, int, str]:
        return -pod.priority, -pod.requests.get("cpu", 0), -pod.requests.get("memory", 0), pod.key

    return sorted(pods, key=order)
