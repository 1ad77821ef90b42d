"""Groups of pods: their members with their states, and their parent groups.

A member is *waiting* (it needs a node from us; assumed or not) or *assigned* (the API shows it on a node). A group's
state exists while it has a member or its object has been seen. The root of a group is the end of its chain of parents.
A chain that is not complete, or runs in a circle, has none.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

import structlog
from msgspec import Struct, field

from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.scheduler.framework.groups import Group, GroupTree

ENTITY: Final = "podgroup/"
"""The prefix of the keys of groups in the queue."""

MAX_DEPTH: Final = 8
"""Maximum depth of a tree; Kubernetes allows three composite groups above a PodGroup."""

log = structlog.get_logger(__name__)


def group_key(pod: Pod) -> str | None:
    """Return ``namespace/name`` of the group that a pod names."""
    scheduling_group = pod.spec.scheduling_group
    if scheduling_group is None or not scheduling_group.pod_group_name:
        return None
    return f"{pod.metadata.namespace}/{scheduling_group.pod_group_name}"


class Members(Struct):
    """The pods of a PodGroup by uid, and its object once it has been seen."""

    group: PodGroup | None = None
    waiting: dict[str, Pod] = field(default_factory=dict)
    assumed: dict[str, Pod] = field(default_factory=dict)
    assigned: dict[str, Pod] = field(default_factory=dict)

    @property
    def known_count(self) -> int:
        """The number of members, in any state."""
        return len(self.waiting) + len(self.assigned) + len(self.assumed.keys() - self.waiting.keys())

    @property
    def scheduled_count(self) -> int:
        """The number of members with a node, confirmed or not."""
        return len(self.assumed) + len(self.assigned)

    def scheduled(self) -> Iterator[Pod]:
        """Go through the members that have a node."""
        yield from self.assigned.values()
        yield from self.assumed.values()

    def unscheduled(self) -> Iterator[Pod]:
        """Go through the members that have none."""
        assumed = self.assumed
        return (pod for uid, pod in self.waiting.items() if uid not in assumed)

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known of the group any more."""
        return self.group is None and not (self.waiting or self.assumed or self.assigned)


class PodGroups:
    """All groups; written by the event handlers and the cache, read by queue, plugins and engine.

    With ``with_composites`` (gate CompositePodGroup) groups may be part of groups.
    """

    def __init__(self, *, with_composites: bool = False) -> None:
        self.with_composites = with_composites
        self.has_been_used = False
        """Whether there ever was a group, or a pod that names one: without them, everything is as fast as before."""
        self._members: dict[str, Members] = {}
        self._composites: dict[str, CompositePodGroup] = {}
        self._children: dict[str, dict[tuple[bool, str], None]] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    # ── members ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def members(self, key: str) -> Members | None:
        """Return the PodGroup ``namespace/name``."""
        return self._members.get(key)

    def group(self, key: str) -> PodGroup | None:
        """Return the object of a PodGroup, by ``namespace/name``."""
        members = self._members.get(key)
        return None if members is None else members.group

    def composite(self, key: str) -> CompositePodGroup | None:
        """Return a composite group by ``namespace/name``."""
        return self._composites.get(key)

    def add_waiting(self, pod: Pod) -> None:
        """Count a pod that needs a node from us, new or changed."""
        if (key := group_key(pod)) is not None:
            self._of(key).waiting[pod.metadata.uid] = pod

    def drop_waiting(self, pod: Pod) -> None:
        """Forget a pod that needs no node any more."""
        self._drop(pod, lambda members: members.waiting)

    def assume(self, pod: Pod) -> None:
        """Count a pod on the node it was just given."""
        if (key := group_key(pod)) is not None:
            self._of(key).assumed[pod.metadata.uid] = pod

    def assign(self, pod: Pod) -> None:
        """Count a pod that the API shows on a node."""
        if (key := group_key(pod)) is not None:
            members = self._of(key)
            members.waiting.pop(pod.metadata.uid, None)
            members.assumed.pop(pod.metadata.uid, None)
            members.assigned[pod.metadata.uid] = pod

    def displace(self, pod: Pod) -> None:
        """Forget that a pod was on a node."""
        self._drop(pod, lambda members: members.assumed, lambda members: members.assigned)

    def _drop(self, pod: Pod, *states: Callable[[Members], dict[str, Pod]]) -> None:
        key = group_key(pod)
        members = self._members.get(key) if key is not None else None
        if members is not None and key is not None:
            for state in states:
                state(members).pop(pod.metadata.uid, None)
            if members.is_empty:
                del self._members[key]

    def _of(self, key: str) -> Members:
        members = self._members.get(key)
        if members is None:
            members = self._members[key] = Members()
            self.has_been_used = True
        return members

    # ── the forest ───────────────────────────────────────────────────────────────────────────────────────────────────

    def put(self, group: Group) -> None:
        """Take in a group, new or changed."""
        if isinstance(group, PodGroup):
            members = self._of(group.key)
            self._move(members.group, group)
            members.group = group
        else:
            self._move(self._composites.get(group.key), group)
            self.has_been_used = True
            self._composites[group.key] = group

    def drop(self, group: Group) -> None:
        """Forget a group. Its pods may remain."""
        self._move(group, None)
        if isinstance(group, PodGroup):
            members = self._members.get(group.key)
            if members is not None:
                members.group = None
                if members.is_empty:
                    del self._members[group.key]
        else:
            self._composites.pop(group.key, None)

    def _move(self, before: Group | None, after: Group | None) -> None:
        if before is not None and (parent := self.find_parent(before)) is not None:
            siblings = self._children.get(parent, {})
            siblings.pop(_place(before), None)
            if not siblings:
                self._children.pop(parent, None)
        if after is not None and (parent := self.find_parent(after)) is not None:
            self._children.setdefault(parent, {})[_place(after)] = None

    def find_parent(self, group: Group) -> str | None:
        """Return the key of the group that this one is part of, if groups may be."""
        return group.parent_key if self.with_composites else None

    def find_root(self, pod: Pod) -> Group | None:
        """Return the top of the chain of groups that a pod belongs to, or ``None`` if it is not (completely) there."""
        key = group_key(pod)
        group = self.group(key) if key is not None else None
        return None if group is None else self.find_group_root(group)

    def find_group_root(self, group: Group) -> Group | None:
        """Return the top of the chain above a group, or ``None`` if it is not complete, or a circle."""
        chain = [*self.chain(group)]
        return chain[-1] if self.find_parent(chain[-1]) is None else None

    def chain(self, group: Group) -> Iterator[Group]:
        """Go up from a group while parents exist; stop at a cycle."""
        visited: set[str] = set()
        above: Group | None = group
        while above is not None:
            yield above
            parent = self.find_parent(above)
            if parent is not None and parent in visited:
                log.error("cycle of composite pod groups", group=group.key, again=parent)
                return
            if parent is not None:
                visited.add(parent)
            above = None if parent is None else self._composites.get(parent)

    def leaf_keys(self, group: Group) -> list[str]:
        """Return the keys of the PodGroups below a group that have been seen, or of the group itself."""
        leaves, visited, pending = list[str](), set[tuple[bool, str]](), [_place(group)]
        while pending:
            entry = pending.pop()
            if entry in visited:
                continue
            visited.add(entry)
            is_composite, key = entry
            if is_composite:
                pending += self._children.get(key, ())
            else:
                leaves.append(key)
        return leaves

    def tree(
        self, group: Group, members: Mapping[str, Iterable[Pod]] | None = None, depth: int = MAX_DEPTH
    ) -> GroupTree:
        """Return a group with all groups below it, children in the order of their creation.

        ``members`` are the pending pods of a cycle, by the key of their PodGroup. Groups below the maximum depth are
        omitted, so that the tree of groups that contain each other is finite.
        """
        if isinstance(group, PodGroup):
            group_members = self._members.get(group.key)
            scheduled = () if group_members is None else tuple(group_members.scheduled())
            pending_members = () if members is None else tuple(members.get(group.key, ()))
            return GroupTree(group, members=pending_members, scheduled=scheduled)
        below: list[Group] = []
        for is_composite, key in self._children.get(group.key, ()):
            child = self._composites.get(key) if is_composite else self.group(key)
            if child is not None:
                below.append(child)
        below.sort(key=lambda child: (child.metadata.creation_timestamp or "", child.name))
        return GroupTree(group, tuple(self.tree(child, members, depth - 1) for child in below if depth))


def _place(group: Group) -> tuple[bool, str]:
    return isinstance(group, CompositePodGroup), group.key
