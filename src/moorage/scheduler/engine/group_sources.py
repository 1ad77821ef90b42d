"""Groups that plugins describe: marks their pods as members, and keeps ``PodGroups`` in line with the plugins.

Later stages (queue, cycle, preemption) see PodGroups only, independent of their source.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.originals import carry_original
from moorage.kube.api.pod import Pod, SchedulingGroup
from moorage.scheduler.framework.events import Action, ClusterEvent, Resource
from moorage.scheduler.framework.group_plugins import GroupSourcePlugin
from moorage.scheduler.framework.groups import DescribedGroup
from moorage.scheduler.framework.status import Status
from moorage.scheduler.queue.scheduling_queue import SchedulingQueue
from moorage.scheduler.state.pod_groups import PodGroups, group_key


def regroup(before: "GroupSources | None", after: "GroupSources | None", pods: Iterable[Pod]) -> list[tuple[Pod, Pod]]:
    """Switch to other group plugins. Return (old, new) for each pod with a changed group."""
    if before is None and after is None:
        return []
    sources = before or after
    assert sources is not None
    return (after or sources.empty()).take_over(before or sources.empty(), pods)


def signature(sources: Mapping[str, Sequence[GroupSourcePlugin]]) -> Mapping[str, tuple[object, ...]]:
    """Return which classes describe groups, by profile."""
    return {profile: tuple(map(type, plugins)) for profile, plugins in sources.items()}


class GroupSources:
    """Assigns pods to the groups that the plugins of each profile describe, and reports group changes to the queue.

    With ``with_objects`` (gate GenericWorkload) pods may name PodGroups of the API as well. Such a pod is a member of
    that group and of no other.
    """

    def __init__(
        self,
        sources: Mapping[str, Sequence[GroupSourcePlugin]],
        groups: PodGroups,
        queue: SchedulingQueue,
        *,
        with_objects: bool,
    ) -> None:
        self._sources = {profile: tuple(plugins) for profile, plugins in sources.items() if plugins}
        self._groups = groups
        self._queue = queue
        self._with_objects = with_objects
        self._source_of: dict[str, GroupSourcePlugin] = {}

    def take_over(self, previous: "GroupSources", pods: Iterable[Pod]) -> list[tuple[Pod, Pod]]:
        """Take over the groups of previous sources. Return the pods that are in another group now, before and after.

        Plugins of the same classes and names describe the same groups. Otherwise every pod is reassigned.
        """
        if signature(previous._sources) == signature(self._sources):
            positions = {
                id(plugin): (name, at)
                for name, plugins in previous._sources.items()
                for at, plugin in enumerate(plugins)
            }
            for key, plugin in previous._source_of.items():
                name, at = positions[id(plugin)]
                self._source_of[key] = self._sources[name][at]
            moved_pods: list[tuple[Pod, Pod]] = []
        else:
            moved_pods = [(pod, member) for pod in pods if (member := self._regroup(previous, pod)) is not pod]
        for key in previous._source_of.keys() - self._source_of.keys():
            group, queued = self._groups.group(key), self._queue.groups
            if group is not None and queued is not None:
                self._groups.drop(group)
                queued.group_deleted(group)
        return moved_pods

    def describe_again(self) -> None:
        """Describe every group: other code or other arguments may describe it differently."""
        for key, source in list(self._source_of.items()):
            self._describe(source, key)

    def _regroup(self, previous: "GroupSources", pod: Pod) -> Pod:
        is_described = group_key(pod) in previous._source_of
        plain = replace(pod, spec=replace(pod.spec, scheduling_group=None)) if is_described else pod
        member = self.adapt(plain, None)
        return pod if member.spec.scheduling_group == pod.spec.scheduling_group else member

    def empty(self) -> "GroupSources":
        """Return sources that describe no groups, over the same ``PodGroups``."""
        return GroupSources({}, self._groups, self._queue, with_objects=self._with_objects)

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def adapt(self, pod: Pod, last_version: Pod | None) -> Pod:
        """Return a pod as a member of its group. ``last_version`` has the group assigned before."""
        is_known = last_version is not None and last_version.metadata.uid == pod.metadata.uid
        group = last_version.spec.scheduling_group if last_version is not None and is_known else self._find_group(pod)
        if group == pod.spec.scheduling_group:
            return pod
        member = replace(pod, spec=replace(pod.spec, scheduling_group=group))
        carry_original(pod, member)
        return member

    def _find_group(self, pod: Pod) -> SchedulingGroup | None:
        if self._with_objects and pod.spec.scheduling_group is not None:
            return pod.spec.scheduling_group
        for source in self._sources.get(pod.scheduler_name, ()):
            if name := source.group_name(pod):
                self._source_of.setdefault(f"{pod.namespace}/{name}", source)
                return SchedulingGroup(pod_group_name=name)
        return None

    def member_changed(self, pod: Pod) -> None:
        """Follow a new or changed pod. It need not be in ``PodGroups`` yet."""
        key = group_key(pod)
        source = None if key is None else self._source_of.get(key)
        if source is None or key is None:
            return
        group = self._groups.group(key)
        if not isinstance(group, DescribedGroup) or not source.is_described(group, pod):
            self._describe(source, key, pod)

    def member_settled(self, pod: Pod) -> None:
        """Notify the plugin that named a pod's group after the pod is in ``PodGroups``."""
        key = group_key(pod)
        if key is not None and (source := self._source_of.get(key)) is not None:
            source.group_changed(key)

    def member_gone(self, pod: Pod) -> None:
        """Follow a deleted pod after ``PodGroups`` dropped it."""
        key = group_key(pod)
        if key is not None and (source := self._source_of.get(key)) is not None:
            self._describe(source, key)
            source.member_gone(pod)

    # ── what describes groups ────────────────────────────────────────────────────────────────────────────────────────

    def object_changed(self, obj: KubeObject) -> None:
        """Process an added, changed or deleted object. Listers have its current state."""
        for source in chain.from_iterable(self._sources.values()):
            if type(obj) in source.group_kinds and (name := source.name_of_object(obj)):
                key = f"{obj.namespace}/{name}"
                describing = self._source_of.setdefault(key, source)
                self._describe(describing, key)
                describing.group_changed(key)
                return

    def attempted(self, group: DescribedGroup, status: Status | None) -> None:
        """Report the result of a group's attempt to the plugin that described the group."""
        if (source := self._source_of.get(group.key)) is not None:
            source.attempted(group, status)

    def _describe(self, source: GroupSourcePlugin, key: str, newcomer: Pod | None = None) -> None:
        before = self._groups.group(key)
        namespace, _, name = key.partition("/")
        after = source.describe(namespace, name, self._members(key, newcomer))
        if after is None:
            del self._source_of[key]
        if before == after:
            return
        queued = self._queue.groups
        assert queued is not None, "groups need a queue that supports them"
        if after is None:
            assert before is not None
            self._groups.drop(before)
            queued.group_deleted(before)
            action = Action.DELETE
        else:
            self._groups.put(after)
            (queued.group_added if before is None else queued.group_updated)(after)
            action = Action.ADD if before is None else Action.UPDATE
        self._queue.move_all_to_active_or_backoff(ClusterEvent(Resource.POD_GROUP, action), before, after)

    def _members(self, key: str, newcomer: Pod | None) -> Iterator[Pod]:
        members = self._groups.members(key)
        uid = "" if newcomer is None else newcomer.metadata.uid
        if members is not None:
            member_pods = {**members.assigned, **members.assumed, **members.waiting}
            yield from (pod for pod in member_pods.values() if pod.metadata.uid != uid)
        if newcomer is not None:
            yield newcomer
