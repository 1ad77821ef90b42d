"""Pods that could be evicted: deleted by a user, or preempted by a pod of higher priority."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from moorage.insight.explain.fixes.resources import shortage
from moorage.insight.explain.obstacles import list_short_resources
from moorage.insight.explain.subject import LAST_RESORT, RELUCTANT, ProposedChange, Remedy, Subject, fix
from moorage.insight.whatif.edits import CreateObject, DeleteObject, Edit, ObjectId
from moorage.kube.api.cluster import PodDisruptionBudget, PriorityClass
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.plugins.default_preemption.budgets import Budgets

FIXED_BY_DELETING_PODS: Final = (
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


@fix()
def delete_pods(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Delete one pod if that is sufficient, or else the fewest of a node. Disruption budgets are respected."""
    curable = subject.rows_where_only(*FIXED_BY_DELETING_PODS)
    ranked = sorted(curable, key=lambda row: _weight(subject, row))
    yield from _delete_pods_of_node(subject, ranked)
    obstacles = {name for row in ranked[:MAX_NODES] for name in subject.obstacles.of(row)} & ABOUT_OTHERS
    if obstacles or subject.obstacles.everywhere.keys() & ABOUT_OTHERS:

        def concerns(neighbor: Pod) -> bool:
            affinity, own_affinity = neighbor.spec.affinity, subject.pod.spec.affinity
            has_anti = affinity is not None and affinity.pod_anti_affinity is not None
            return has_anti or neighbor.namespace == subject.pod.namespace or own_affinity is not None

        candidates = (pod for info in subject.nodes for pod in _list_other_pods(subject, info) if concerns(pod))
        for pod in list_deletable(subject, candidates)[:MAX_PODS]:
            yield propose_deletion(subject, [pod])


@fix()
def delete_pods_of_node(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    """Delete the fewest pods of a node. Disruption budgets are respected."""
    return _delete_pods_of_node(subject, rows)


def _delete_pods_of_node(subject: Subject, rows: list[int]) -> Iterator[ProposedChange]:
    for row in rows[:MAX_NODES]:
        pods = list_deletable(subject, _list_other_pods(subject, subject.nodes[row]))
        # The last pods are the most important ones: they are spared first.
        victims = subject.fewest(pods, deletions, spares_last=True)
        if victims is not None:
            yield propose_deletion(subject, victims)


def _list_other_pods(subject: Subject, node: NodeInfo) -> list[Pod]:
    group = subject.pod.group_key
    return [
        pod for pod in node.pods.values() if pod.key not in subject.spared and not (group and pod.group_key == group)
    ]


def _weight(subject: Subject, row: int) -> float:
    """Return a sort key: nodes with small shortages and few obstacles are first."""
    node, obstacles = subject.nodes[row], subject.obstacles.of(row)
    fit = obstacles.get("NodeResourcesFit")
    names = list_short_resources(fit) if fit is not None else ()
    requests = subject.pod.requests
    return len(obstacles) + sum(
        shortage(node, name, requests.get(name, 0)) / max(1, node.allocatable.get(name, 0)) for name in names
    )


def list_deletable(subject: Subject, pods: Iterable[Pod]) -> list[Pod]:
    """List the pods that may be deleted, the least important first.

    Pods that a disruption budget protects, and pods that would return immediately, are omitted.
    """

    def comes_back(pod: Pod) -> bool:
        owners = pod.metadata.owner_references
        return MIRROR in (pod.metadata.annotations or {}) or any(owner.kind == "DaemonSet" for owner in owners)

    def importance(pod: Pod) -> tuple[bool, int, int, str]:
        return not pod.is_terminating, pod.priority, pod.requests.get("cpu", 0), pod.key

    scheduler = subject.session.scheduler
    budgets = Budgets(scheduler.objects[PodDisruptionBudget], scheduler.services.features)
    _, unprotected = budgets.split(sorted((pod for pod in pods if not comes_back(pod)), key=importance))
    return unprotected


def deletions(pods: Sequence[Pod]) -> list[Edit]:
    """Return edits that delete pods."""
    return [DeleteObject(ObjectId("Pod", pod.namespace, pod.name)) for pod in pods]


def propose_deletion(subject: Subject, pods: Sequence[Pod]) -> ProposedChange:
    """Propose to delete pods; more important pods, and pods that a controller recreates, only as a last resort."""
    names = " and ".join(f"{pod.key}{_note(pod)}" for pod in pods)
    # A replacement would compete for the same node.
    is_harmful = any(
        not pod.is_terminating and (pod.metadata.controller is not None or pod.priority > subject.pod.priority)
        for pod in pods
    )
    cost = len(pods) + (LAST_RESORT if is_harmful else RELUCTANT)
    if all(pod.is_terminating for pod in pods):
        cost = -1  # it happens anyway
    return ProposedChange("delete-pod", f"Delete {names}", deletions(pods), cost)


def _note(pod: Pod) -> str:
    if pod.is_terminating:
        return " (it is already terminating)"
    owner = next((item for item in pod.metadata.owner_references if item.controller), None)
    return f" (its {owner.kind} {owner.name} will create a replacement)" if owner is not None else ""


def raise_priority(subject: Subject) -> Iterator[Remedy]:
    """Find the lowest priority with which the pod can preempt other pods: of an existing class, or of a new one."""
    preempting = subject if subject.preempts else subject.preempting()
    pod = subject.pod
    for name, value in _classes(subject):
        if value > pod.priority or pod.spec.preemption_policy == "Never":
            text = f"Set its priority class to {name} ({value}), so that it can preempt other pods"
            offer = preempting.offer("priority", text, _with_class(subject, name), cost=RELUCTANT + 1)
            if offer is not None and offer.attempt.nominated_node:
                yield offer
                return
    priorities = {running_pod.priority for info in subject.nodes for running_pod in info.pods.values()}
    values = [value + 1 for value in sorted(priorities) if pod.priority <= value < MAX_USER_PRIORITY]
    if pod.spec.preemption_policy == "Never":
        values.insert(0, pod.priority)  # its priority may be high enough. Only the policy prevents preemption
    for value in values:
        name = f"priority-{value}"
        if value <= MAX_USER_PRIORITY and ObjectId("PriorityClass", "", name) not in subject.session.objects:
            new_class: dict[str, Any] = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
            new_class |= {"metadata": {"name": name}, "value": value}
            text = f"Create a priority class with value {value} and set it, so that the pod can preempt other pods"
            edits = (CreateObject(new_class), _with_class(subject, name))
            offer = preempting.offer("priority", text, *edits, cost=RELUCTANT + 2)
            if offer is not None and offer.attempt.nominated_node:
                yield offer
                return


def _classes(subject: Subject) -> list[tuple[str, int]]:
    """List the classes that may preempt, the lowest first. System classes are only for system pods."""
    objects = (subject.session.objects.find(target) for target in subject.session.objects.known("PriorityClass"))
    classes = [item for item in objects if isinstance(item, PriorityClass) and item.preemption_policy != "Never"]
    if subject.pod.namespace != SYSTEM_NAMESPACE:
        classes = [item for item in classes if not item.name.startswith(SYSTEM_CLASSES)]
    return sorted(((item.name, item.value) for item in classes), key=lambda item: item[1])


def _with_class(subject: Subject, name: str) -> Edit:
    draft = subject.draft()
    spec = draft.content.get("spec", {})
    for field in ("priority", "preemptionPolicy"):
        if field in spec:
            draft.remove("spec", field)
    return draft.put(("spec", "priorityClassName"), name).edit()
