"""Pod groups: how many members fit at once, in which domain, and which member does not fit."""

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from moorage.insight.whatif.attempts import GroupOutcome
from moorage.insight.whatif.edits import Edit, ObjectId, PatchObject, put, remove
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.scheduler.engine.group_results import GroupTrial
from moorage.scheduler.framework.groups import DescribedGroup
from moorage.scheduler.state.pod_groups import group_key

GATES = ("spec", "schedulingGates")


def list_active_pods(session: Session) -> list[Pod]:
    """List the pods that run or wait, and are not on their way out."""
    objects = (session.objects.find(target) for target in session.objects.known("Pod"))
    return [pod for pod in objects if isinstance(pod, Pod) and not pod.is_finished and not pod.is_terminating]


class GroupView(Struct, frozen=True):
    """A group as it would fare: as a whole, and as many of its members as go together."""

    key: str
    outcome: GroupOutcome
    """The result of the group's attempt."""
    members: int
    scheduled: int
    most: int
    """The number of members with a node, including those that would fit if the group needed no more."""
    needed: int | None
    """The number of members needed to start; ``None`` if members are independent."""
    blocked: str = ""
    """The first member that does not fit next to the others; empty if all fit."""
    topology_key: str = ""
    domain: str = ""
    """The part of the cluster that holds the most."""
    domains: int = 0

    @property
    def is_met(self) -> bool:
        """Whether the group can start, or has."""
        return self.outcome.fits

    def facts(self) -> dict[str, Any]:
        """Write it down as the format has it."""
        facts: dict[str, Any] = {"name": self.key.rpartition("/")[2], "members": self.members, "fits": self.most}
        facts |= {} if self.needed is None else {"minCount": self.needed}
        if self.topology_key:
            facts |= {"topologyKey": self.topology_key, "domains": self.domains, "bestDomain": self.domain}
        facts |= {"message": self.outcome.message} if self.outcome.message else {}
        return {**facts, "victims": list(self.outcome.victims)} if self.outcome.victims else facts


def is_scheduled_with_group(session: Session, pod: Pod) -> bool:
    """Return whether a pod is pending as a member of an existing group."""
    groups = session.scheduler.cache.groups
    return groups is not None and not pod.node_name and groups.root_of(pod) is not None


def described_key(session: Session, pod: Pod) -> str:
    """Name the group that a plugin puts a pod into, by whatever it knows; empty if none does."""
    groups, stored = session.scheduler.cache.groups, session.scheduler.objects[Pod].find(pod.key)
    key = None if groups is None or stored is None else group_key(stored)
    return key if groups is not None and key and isinstance(groups.group(key), DescribedGroup) else ""


def view_group(session: Session, key: str, *, in_detail: bool = False) -> GroupView:
    """Try a group, and then as many of its members as possible."""
    groups = session.groups()
    outcome = session.try_group(key, in_detail=in_detail)
    group_members = groups.members(key)
    assert group_members is not None
    assert group_members.group is not None
    members, scheduled, topology = (
        group_members.known_count,
        group_members.scheduled_count,
        group_members.group.spec.topology_key or "",
    )
    waiting = [pod.key for pod in list_pending_members(session, key)]
    with session.branch():
        session.apply(*remove_gates(session, waiting))
        most = place_members(session, key)
        placed = most.placed if most is not None else {}
    is_by_topology = bool(topology) and session.policy.features.enabled("TopologyAwareWorkloadScheduling")
    names = {info.labels.get(topology) for info in session.scheduler.cache.nodes} - {None} if is_by_topology else set()
    return GroupView(
        key=key,
        outcome=outcome,
        members=members,
        scheduled=scheduled,
        most=scheduled + sum(name in placed for name in waiting),
        needed=group_members.group.min_count,
        blocked=next((name for name in waiting if name not in placed), ""),
        topology_key=topology if is_by_topology else "",
        domain=_domain(most, key) if most is not None else "",
        domains=len(names),
    )


def list_pending_members(session: Session, key: str) -> list[Pod]:
    """List the members of a group that wait and are not on their way out, in the order in which they are tried."""
    queued = session.queued_group(key)
    infos = () if queued is None else queued.members
    return [info.pod for info in infos if info.pod.group_key == key and not info.pod.is_terminating]


def place_members(session: Session, key: str) -> GroupOutcome | None:
    """Place as many members as go together, whatever the group needs; they stay. ``None`` if none has a place."""
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
        best = max(
            target_count,
            group_members.scheduled_count + len([name for name in outcome.placed if _is_of(session, name, key)]),
        )
        if group_members.group.spec.topology_key is None:
            break  # in one place the first that fit are all there are; of several places another may hold more
    if not best:
        return None
    session.apply(set_min_count(session, key, best))
    return session.place_group(key, preempts=False)


def _is_of(session: Session, name: str, key: str) -> bool:
    return session.pod(name).group_key == key


def _domain(outcome: GroupOutcome, key: str) -> str:
    def below(trial: GroupTrial) -> Iterator[GroupTrial]:
        yield from trial.leaves

    trial = outcome.attempt.trial if outcome.attempt is not None else None
    return next((leaf.placement for leaf in below(trial) if leaf.tree.key == key), "") if trial is not None else ""


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


def find_group(session: Session, key: str) -> PodGroup | None:
    """Return a stored group by ``namespace/name``."""
    group = session.objects.find(ObjectId("PodGroup", *key.split("/", 1)))
    return group if isinstance(group, PodGroup) else None


def group_facts(session: Session, pod: Pod) -> dict[str, Any] | None:
    """Count the members of a pod's group that fit one after the other, if groups are not scheduled as a whole."""
    described = described_key(session, pod)
    key = described or pod.group_key
    if not key:
        return None
    everyone = list_active_pods(session)
    members = [
        member for member in everyone if (described_key(session, member) if described else member.group_key) == key
    ]
    fits = 0
    with session.branch():
        for member in members:
            fits += bool(member.node_name or session.place(member.key, preempts=False).node)
    group = session.groups().group(key) if described else find_group(session, key)
    facts: dict[str, Any] = {"name": key.rpartition("/")[2], "members": len(members), "fits": fits}
    return facts if group is None or group.min_count is None else {**facts, "minCount": group.min_count}
