"""Pods that could be evicted: deleted by a user, or preempted by a pod of higher priority."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from moorage.insight.explain.fixes.resources import shortage
from moorage.insight.explain.obstacles import list_short_resources
from moorage.insight.explain.subject import Remedy, Subject
from moorage.insight.whatif.edits import CreateObject, DeleteObject, Edit, ObjectId
from moorage.kube.api.cluster import PodDisruptionBudget, PriorityClass
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.plugins.default_preemption.budgets import Budgets

CURED_BY_LEAVING: Final = (
    "NodeResourcesFit",
    "NodePorts",
    "InterPodAffinity",
    "PodTopologySpread",
    "VolumeRestrictions",
    "NodeVolumeLimits",
    "VolumeBinding",
    "DynamicResources",
)
ABOUT_OTHERS: Final = frozenset(
    ("InterPodAffinity", "PodTopologySpread", "VolumeRestrictions", "VolumeBinding", "DynamicResources")
)
MIRROR: Final = "kubernetes.io/config.mirror"
MAX_NODES: Final = 6
MAX_PODS: Final = 40
"""Number of pods of other nodes to try one by one."""
MAX_USER_PRIORITY: Final = 1_000_000_000
SYSTEM_NAMESPACE: Final = "kube-system"
SYSTEM_CLASSES: Final = "system-"


def delete_pods(subject: Subject, _rows: list[int]) -> Iterator[Remedy]:
    """Delete one pod if that is enough, or else the fewest of one node; disruption budgets are respected."""
    curable = subject.rows_where_only(*CURED_BY_LEAVING)
    budgets = Budgets(subject.session.scheduler.objects[PodDisruptionBudget])
    ranked = sorted(curable, key=lambda row: _weight(subject, row))
    if remedy := next(delete_from(subject, ranked), None):
        yield remedy
        return
    met = {name for row in ranked[:MAX_NODES] for name in subject.obstacles.of(row)} & ABOUT_OTHERS
    if met or subject.obstacles.everywhere.keys() & ABOUT_OTHERS:
        candidates = (pod for info in subject.nodes for pod in _others(subject, info) if _concerns(pod, subject.pod))
        for pod in may_leave(candidates, budgets)[:MAX_PODS]:
            if offer := _offer(subject, [pod]):
                yield offer
                return


def delete_from(subject: Subject, rows: list[int]) -> Iterator[Remedy]:
    """Delete the fewest pods of one node; disruption budgets are respected."""
    budgets = Budgets(subject.session.scheduler.objects[PodDisruptionBudget])
    for row in rows[:MAX_NODES]:
        if offer := _delete(subject, may_leave(_others(subject, subject.nodes[row]), budgets)):
            yield offer
            return


def _others(subject: Subject, node: NodeInfo) -> list[Pod]:
    """List the pods of a node that are not of the same workload or group."""
    group = subject.pod.group_key
    return [
        pod for pod in node.pods.values() if pod.key not in subject.spared and not (group and pod.group_key == group)
    ]


def _weight(subject: Subject, row: int) -> float:
    """Prefer nodes that are short of little, and of few things."""
    node, obstacles = subject.nodes[row], subject.obstacles.of(row)
    fit = obstacles.get("NodeResourcesFit")
    names = list_short_resources(fit) if fit is not None else ()
    requests = subject.pod.requests
    return len(obstacles) + sum(
        shortage(node, name, requests.get(name, 0)) / max(1, node.allocatable.get(name, 0)) for name in names
    )


def _concerns(neighbour: Pod, pod: Pod) -> bool:
    affinity = neighbour.spec.affinity
    has_anti = affinity is not None and affinity.pod_anti_affinity is not None
    return has_anti or neighbour.namespace == pod.namespace or pod.spec.affinity is not None


def may_leave(pods: Iterable[Pod], budgets: Budgets) -> list[Pod]:
    """List the pods that may go, the least important first: none that a budget protects, or that comes back at once."""
    able = [pod for pod in pods if not _returns(pod)]
    ordered = sorted(able, key=lambda pod: (not pod.is_terminating, pod.priority, _size(pod), pod.key))
    protected, unprotected = budgets.split(ordered)
    del protected
    return unprotected


def _returns(pod: Pod) -> bool:
    owners = pod.metadata.owner_references
    return MIRROR in (pod.metadata.annotations or {}) or any(owner.kind == "DaemonSet" for owner in owners)


def _size(pod: Pod) -> int:
    return pod.requests.get("cpu", 0)


def _delete(subject: Subject, pods: list[Pod]) -> Remedy | None:
    def edits_for(victims: Sequence[Pod]) -> list[Edit]:
        return [DeleteObject(ObjectId("Pod", pod.namespace, pod.name)) for pod in victims]

    if not pods or subject.trial(*edits_for(pods)) is None:
        return None
    for pod in pods:
        if offer := _offer(subject, [pod]):
            return offer
    remaining = list(pods)
    for pod in reversed(pods):  # the most important are spared first
        fewer = [victim for victim in remaining if victim is not pod]
        if fewer and subject.trial(*edits_for(fewer)) is not None:
            remaining = fewer
    return _offer(subject, remaining)


def _offer(subject: Subject, pods: Sequence[Pod]) -> Remedy | None:
    edits = [DeleteObject(ObjectId("Pod", pod.namespace, pod.name)) for pod in pods]
    names = " and ".join(f"{pod.key}{_note(pod)}" for pod in pods)
    return subject.offer("delete-pod", f"Delete {names}", *edits, cost=len(pods))


def _note(pod: Pod) -> str:
    if pod.is_terminating:
        return " (it is on its way out already)"
    owner = next((item for item in pod.metadata.owner_references if item.controller), None)
    return f" (its {owner.kind} {owner.name} will create a replacement)" if owner is not None else ""


def raise_priority(subject: Subject) -> Iterator[Remedy]:
    """Find the lowest priority with which the pod would have others preempted: of a class there is, or of a new one."""
    preempting = subject if subject.preempts else subject.preempting()
    pod = subject.pod
    for name, value in _classes(subject):
        if value > pod.priority or pod.spec.preemption_policy == "Never":
            edit = _with_class(subject, name)
            text = f"Set its priority class to {name} ({value}), so that it can preempt other pods"
            if (
                offer := preempting.offer("priority", text, *edit, cost=1)
            ) is not None and offer.attempt.nominated_node:
                yield offer
                return
    running = {running_pod.priority for info in subject.nodes for running_pod in info.pods.values()}
    values = [value + 1 for value in sorted(running) if pod.priority <= value < MAX_USER_PRIORITY]
    if pod.spec.preemption_policy == "Never":
        values.insert(0, pod.priority)  # perhaps it is important enough, and only must not preempt
    for value in values:
        name = f"priority-{value}"
        if value <= MAX_USER_PRIORITY and ObjectId("PriorityClass", "", name) not in subject.session.objects:
            new_class: dict[str, Any] = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            new_class |= {"metadata": {"name": name}, "value": value}
            text = f"Create a priority class with value {value} and set it, so that the pod can preempt other pods"
            edits = (CreateObject(new_class), *_with_class(subject, name))
            if (
                offer := preempting.offer("priority", text, *edits, cost=2)
            ) is not None and offer.attempt.nominated_node:
                yield offer
                return


def _classes(subject: Subject) -> list[tuple[str, int]]:
    """List the classes that preempt, the lowest first; those of the system are for its own pods."""
    objects = (subject.session.objects.find(target) for target in subject.session.objects.known("PriorityClass"))
    classes = [item for item in objects if isinstance(item, PriorityClass) and item.preemption_policy != "Never"]
    if subject.pod.namespace != SYSTEM_NAMESPACE:
        classes = [item for item in classes if not item.name.startswith(SYSTEM_CLASSES)]
    return sorted(((item.name, item.value) for item in classes), key=lambda item: item[1])


def _with_class(subject: Subject, name: str) -> list[Edit]:
    draft = subject.draft()
    spec = draft.content.get("spec", {})
    for field in ("priority", "preemptionPolicy"):
        if field in spec:
            draft.remove("spec", field)
    return [draft.put(("spec", "priorityClassName"), name).edit()]
