"""Pod groups: how many members fit together, in which domain, and which member does not fit."""

from typing import Any

from msgspec import Struct

from moorage.insight.whatif.attempts import GroupOutcome
from moorage.insight.whatif.edits import Edit, ObjectId, PatchObject, put, remove
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.scheduler.framework.groups import DescribedGroup
from moorage.scheduler.state.pod_groups import group_key

GATES = ("spec", "schedulingGates")


def list_active_pods(session: Session) -> list[Pod]:
    """List the running and pending pods that are not terminating."""
    objects = (session.objects.find(target) for target in session.objects.known("Pod"))
    return [pod for pod in objects if isinstance(pod, Pod) and not pod.is_finished and not pod.is_terminating]


class GroupView(Struct, frozen=True):
    """The result of trying a group: as a unit, and with as many of its members as fit together."""

    key: str
    outcome: GroupOutcome
    """The result of the group's attempt."""
    members: int
    scheduled: int
    most: int
    """The number of members with a node, including members that would be placed if fewer were required."""
    needed: int | None
    """The number of members needed to start, or ``None`` if members are independent."""
    blocked: str = ""
    """The first member that does not fit next to the other members, or empty if all fit."""
    topology_key: str = ""
    domain: str = ""
    """The topology domain that holds the most members."""
    domains: int = 0

    @property
    def is_met(self) -> bool:
        """Whether the group can start, or has started."""
        return self.outcome.fits

    def facts(self) -> dict[str, Any]:
        """Return the group in the documented format."""
        facts: dict[str, Any] = {"name": self.key.rpartition("/")[2], "members": self.members, "fits": self.most}
        facts |= {} if self.needed is None else {"minCount": self.needed}
        if self.topology_key:
            facts |= {"topologyKey": self.topology_key, "domains": self.domains, "bestDomain": self.domain}
        facts |= {"message": self.outcome.message} if self.outcome.message else {}
        return {**facts, "victims": list(self.outcome.victims)} if self.outcome.victims else facts


def is_scheduled_with_group(session: Session, pod: Pod) -> bool:
    """Return whether a pod is pending as a member of an existing group."""
    groups = session.scheduler.cache.groups
    return groups is not None and not pod.node_name and groups.find_root(pod) is not None


def described_key(session: Session, pod: Pod) -> str:
    """Return the key of the group that a plugin assigns to a pod, or empty without such a plugin."""
    groups, stored_pod = session.scheduler.cache.groups, session.scheduler.objects[Pod].find(pod.key)
    key = None if groups is None or stored_pod is None else group_key(stored_pod)
    return key if groups is not None and key and isinstance(groups.group(key), DescribedGroup) else ""


def view_group(session: Session, key: str) -> GroupView:
    """Try a group, and then as many of its members as possible."""
    groups = session.groups()
    outcome = session.try_group(key, in_detail=True)
    group_members = groups.members(key)
    assert group_members is not None
    assert group_members.group is not None
    members, scheduled = group_members.known_count, group_members.scheduled_count
    topology = group_members.group.spec.topology_key or ""
    pending_keys = [pod.key for pod in list_pending_members(session, key)]
    with session.branch():
        session.apply(*remove_gates(session, pending_keys))
        most = place_members(session, key)
        placed = most.placed if most is not None else {}
    trial = None if most is None or most.attempt is None else most.attempt.trial
    leaves = () if trial is None else trial.leaves
    is_by_topology = bool(topology) and session.policy.features.enabled("TopologyAwareWorkloadScheduling")
    names = {info.labels.get(topology) for info in session.scheduler.cache.nodes} - {None} if is_by_topology else set()
    return GroupView(
        key=key,
        outcome=outcome,
        members=members,
        scheduled=scheduled,
        most=scheduled + sum(name in placed for name in pending_keys),
        needed=group_members.group.min_count,
        blocked=next((name for name in pending_keys if name not in placed), ""),
        topology_key=topology if is_by_topology else "",
        domain=next((leaf.placement for leaf in leaves if leaf.tree.key == key), ""),
        domains=len(names),
    )


def list_pending_members(session: Session, key: str) -> list[Pod]:
    """List the pending members of a group that are not terminating, in the order of their attempts."""
    queued = session.queued_group(key)
    infos = () if queued is None else queued.members
    return [info.pod for info in infos if info.pod.group_key == key and not info.pod.is_terminating]


def place_members(session: Session, key: str) -> GroupOutcome | None:
    """Place as many members as fit together, regardless of minCount. Return ``None`` if no member fits."""
    group_members = session.groups().members(key)
    assert group_members is not None
    assert group_members.group is not None
    best = 0
    while (target_count := max(best, group_members.scheduled_count) + 1) <= group_members.known_count:
        with session.branch():
            session.apply(set_min_count(session, key, target_count))
            outcome = session.place_group(key, preempts=False)
        if not outcome.fits:
            break
        placed = sum(session.pod(name).group_key == key for name in outcome.placed)
        best = max(target_count, group_members.scheduled_count + placed)
        if group_members.group.spec.topology_key is None:
            break  # without domains, one attempt places all that fit. Another domain might hold more
    if not best:
        return None
    session.apply(set_min_count(session, key, best))
    return session.place_group(key, preempts=False)


def set_min_count(session: Session, key: str, count: int) -> PatchObject:
    """Return an edit that sets the minCount of a group."""
    target = ObjectId("PodGroup", *key.split("/", 1))
    content = session.objects.content(target)
    operation = put(content, ("spec", "schedulingPolicy"), {"gang": {"minCount": count}})
    if ((content.get("spec") or {}).get("schedulingPolicy") or {}).get("gang"):
        operation = put(content, ("spec", "schedulingPolicy", "gang", "minCount"), count)
    return PatchObject(target, (operation,), api_version=str(content.get("apiVersion", "")))


def remove_gates(session: Session, names: list[str]) -> list[Edit]:
    """Return edits that remove the scheduling gates of members."""
    gated = (ObjectId("Pod", *name.split("/", 1)) for name in names)
    return [
        PatchObject(target, (remove(*GATES),), api_version="v1")
        for target in gated
        if (session.objects.content(target).get("spec") or {}).get("schedulingGates")
    ]


def group_facts(session: Session, pod: Pod) -> dict[str, Any] | None:
    """Count the members of a pod's group that fit one after the other, if groups are not scheduled as a unit."""
    described = described_key(session, pod)
    key = described or pod.group_key
    if not key:
        return None
    members = [
        member
        for member in list_active_pods(session)
        if (described_key(session, member) if described else member.group_key) == key
    ]
    fits = 0
    with session.branch():
        for member in members:
            fits += bool(member.node_name or session.place(member.key, preempts=False).node)
    pod_group = session.objects.find(ObjectId("PodGroup", *key.split("/", 1)))
    group = session.groups().group(key) if described else pod_group if isinstance(pod_group, PodGroup) else None
    facts: dict[str, Any] = {"name": key.rpartition("/")[2], "members": len(members), "fits": fits}
    return facts if group is None or group.min_count is None else {**facts, "minCount": group.min_count}
