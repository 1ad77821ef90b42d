"""GangScheduling: pods of a group are queued, scheduled and bound together."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Final

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import CompositePodGroup, PodGroup
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.group_plugins import PlacementFeasiblePlugin
from moorage.scheduler.framework.groups import DescribedGroup, Group, GroupTree
from moorage.scheduler.framework.plugin import PermitPlugin, PreEnqueuePlugin, Wait
from moorage.scheduler.framework.status import Status
from moorage.scheduler.state.handle import ClusterHandle
from moorage.scheduler.state.pod_groups import MAX_DEPTH, Members, PodGroups, group_key

MAX_WAIT: Final = 300.0
TOO_FEW: Final = Status.unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")


class GangScheduling(PreEnqueuePlugin, PermitPlugin, PlacementFeasiblePlugin):
    """Start the pods of a group together: no pod is queued or bound before the quorum can be.

    Groups described by other plugins are ignored.
    """

    _minimum: ClassVar[str] = "minCount"
    """The field name of the quorum in messages."""

    def __init__(self, *, handle: ClusterHandle) -> None:
        self._handle = handle
        self._is_since_1_38 = handle.features.since(1, 38)
        self._owner = "pod's" if self._is_since_1_38 else "pods's"

    @property
    def _groups(self) -> PodGroups:
        return self._handle.groups

    def _judges(self, group: Group) -> bool:
        return not isinstance(group, DescribedGroup)

    def _max_wait(self, group: PodGroup) -> float:
        return MAX_WAIT

    # ── PreEnqueue ───────────────────────────────────────────────────────────────────────────────────────────────────

    def pre_enqueue(self, pod: Pod) -> Status | None:
        if pod.node_name or (key := group_key(pod)) is None:
            return None
        members = self._groups.members(key)
        group = None if members is None else members.group
        if members is None or group is None:
            if self._groups.with_composites:
                problem = f"pod group object not found in state for podgroup/{key}"
                return Status.unresolvable(f"failed to build hierarchy snapshot: {problem}")
            name = key.removeprefix(f"{pod.namespace}/")
            return Status.unresolvable(f'waiting for {self._owner} pod group "{name}" to appear in scheduling queue')
        if not self._judges(group):
            return None
        if self._groups.find_parent(group) is None:
            return TOO_FEW if members.known_count < (group.min_count or 0) else None
        try:
            # From 1.38, an attempt reports groups that are nested too deeply as an error of each group.
            levels = MAX_DEPTH if self._is_since_1_38 else MAX_LEVELS
            root = root_above(self._groups, group, levels)
        except BrokenTree as problem:
            return Status.unresolvable(f"failed to build hierarchy snapshot: {problem}")
        if is_complete(self._groups, self._groups.tree(root), lambda counted: counted.known_count):
            return None
        return Status.unresolvable(f'waiting for composite pod group "{root.name}" tree to meet quorum')

    # ── PlacementFeasible ────────────────────────────────────────────────────────────────────────────────────────────

    def placement_feasible(self, group: GroupTree, remaining: int, scheduled: int) -> Status | None:
        return group.quorum_status(remaining, scheduled, self._minimum) if self._judges(group.group) else None

    # ── Permit ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def permit(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | Wait | None:
        key = group_key(pod)
        if key is None:
            return None
        group = self._groups.group(key)
        if group is None:
            raise PluginError(self.name, f'failed to get podGroup {key}: podgroup "{key}" not found')
        if not self._judges(group) or (self._groups.find_parent(group) is None and group.min_count is None):
            return None
        keys, has_quorum = [key], False
        if self._groups.find_parent(group) is None:
            members = self._groups.members(key)
            has_quorum = members is not None and members.scheduled_count >= (group.min_count or 0)
        else:
            try:
                root = root_above(self._groups, group)
            except BrokenTree as problem:
                raise PluginError(self.name, f"failed to build hierarchy snapshot: {problem}") from problem
            keys = self._groups.leaf_keys(root)
            has_quorum = is_complete(self._groups, self._groups.tree(root), lambda counted: counted.scheduled_count)
        tree = [members for key in keys if (members := self._groups.members(key)) is not None]
        if not has_quorum:
            # Activating one unscheduled member is sufficient: the queue activates its entire group.
            unscheduled = (pod for members in tree for pod in members.unscheduled())
            if (next_pod := next(unscheduled, None)) is not None:
                cycle.activate(next_pod)
            return Wait(self._max_wait(group))
        for members in tree:
            for uid in members.assumed:
                if (waiting_pod := self._handle.waiting_pod(uid)) is not None:
                    waiting_pod.allow(self.name)
        return None

    # ── Queueing hints ───────────────────────────────────────────────────────────────────────────────────────────────

    def events_to_register(self) -> Sequence[EventRegistration]:
        events = (
            (Resource.UNSCHEDULED_POD, Action.ADD, self.after_pod_added),
            (Resource.ASSIGNED_POD, Action.ADD, self.after_pod_added),
            (Resource.POD_GROUP, Action.ADD, self.after_group_added),
            (Resource.POD_GROUP, Action.UPDATE, self.after_group_changed),
        )
        registered = [
            EventRegistration(ClusterEvent(resource, action), hint, same_group=True)
            for resource, action, hint in events
        ]
        if self._groups.with_composites:
            group_added = ClusterEvent(Resource.COMPOSITE_POD_GROUP, Action.ADD)
            registered.append(EventRegistration(group_added, self.after_group_added, same_group=True))
            if self._is_since_1_38:
                group_updated = ClusterEvent(Resource.COMPOSITE_POD_GROUP, Action.UPDATE)
                registered.append(EventRegistration(group_updated, self.after_composite_changed, same_group=True))
        return tuple(registered)

    def after_pod_added(self, pod: Pod, _old: None, new: Pod) -> QueueingHint:
        """Queue if another pod of the same tree was added."""
        return queue_if(self._root(pod) is not None and self._root(pod) == self._root(new))

    def after_group_added(self, pod: Pod, _old: None, new: Group) -> QueueingHint:
        """Queue if a group of the same tree was added."""
        above = self._groups.find_group_root(new)
        return queue_if(above is not None and self._root(pod) == _identity(above))

    def after_group_changed(self, pod: Pod, old: PodGroup, new: PodGroup) -> QueueingHint:
        """Queue if the minimum count of a group of the same tree decreased."""
        return self._after_decrease(pod, new, old.min_count, new.min_count)

    def after_composite_changed(self, pod: Pod, old: CompositePodGroup, new: CompositePodGroup) -> QueueingHint:
        """Queue if the minimum group count of a composite group of the same tree decreased (from 1.38)."""
        return self._after_decrease(pod, new, old.min_group_count, new.min_group_count)

    def _after_decrease(self, pod: Pod, group: Group, before: int | None, after: int | None) -> QueueingHint:
        if before is None or after is None or after >= before:
            return QueueingHint.SKIP
        above = self._groups.find_group_root(group)
        return queue_if(above is not None and self._root(pod) == _identity(above))

    def _root(self, pod: Pod) -> tuple[bool, str] | None:
        if not self._groups.with_composites:
            key = group_key(pod)
            return None if key is None else (False, key)
        root = self._groups.find_root(pod)
        return None if root is None else _identity(root)


def _identity(group: Group) -> tuple[bool, str]:
    return isinstance(group, CompositePodGroup), group.key


MAX_LEVELS = 3
"""Maximum number of composite groups above a PodGroup."""


class BrokenTree(Exception):
    """The groups above a pod are missing or invalid."""


def root_above(groups: PodGroups, group: PodGroup, max_levels: int = MAX_LEVELS) -> Group:
    """Return the root of a group's tree. Raise BrokenTree if a group is missing, or above too many others."""
    top: Group = group
    for level, above in enumerate(groups.chain(group)):
        if level > max_levels:
            raise BrokenTree(f"composite pod groups above podgroup/{group.key} are nested too deeply")
        top = above
    parent = groups.find_parent(top)
    if parent is not None:
        if groups.composite(parent) is not None:
            raise BrokenTree(f"composite pod groups above podgroup/{group.key} are part of each other")
        raise BrokenTree(f"parent composite pod group state not found for {parent}")
    return top


def is_complete(groups: PodGroups, tree: GroupTree, count: Callable[[Members], int]) -> bool:
    """Return whether a tree has its quorum, by a count of the pods of its PodGroups."""
    if not isinstance(tree.group, CompositePodGroup):
        members = groups.members(tree.key)
        return members is not None and count(members) >= tree.quorum
    ready = sum(is_complete(groups, child, count) for child in tree.children)
    return ready >= tree.quorum
