"""Pods that belong together: how many members of a group fit, and how many have to."""

from typing import Any

from moorage.api.pod import Pod
from moorage.api.pod_groups import PodGroup
from moorage.whatif.edits import ObjectId
from moorage.whatif.session import Session


def group_of(pod: Pod) -> str:
    """Return the key of the group that a pod belongs to; empty if it belongs to none."""
    group = pod.spec.scheduling_group
    name = group.pod_group_name if group is not None else None
    return f"{pod.namespace}/{name}" if name else ""


def pods_that_count(session: Session) -> list[Pod]:
    """List the pods that run or wait, and are not on their way out."""
    found = (session.objects.find(known) for known in session.objects.known("Pod"))
    return [pod for pod in found if isinstance(pod, Pod) and not pod.is_finished and not pod.is_terminating]


def group_facts(session: Session, pod: Pod) -> dict[str, Any] | None:
    """Say how many members of a pod's group fit together, one after the other, and how many have to."""
    key = group_of(pod)
    if not key:
        return None
    members = [other for other in pods_that_count(session) if group_of(other) == key]
    fits = 0
    with session.branch():
        for other in members:
            fits += bool(other.node_name or session.place(other.key, preempts=False).node)
    group = session.objects.find(ObjectId("PodGroup", *key.split("/", 1)))
    gang = group.spec.scheduling_policy.gang if isinstance(group, PodGroup) else None
    facts: dict[str, Any] = {"name": key.rpartition("/")[2], "members": len(members), "fits": fits}
    return facts if gang is None else {**facts, "minCount": gang.min_count}
