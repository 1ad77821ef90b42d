"""Groups that plugins describe: their pods are marked as members, and the books of groups follow what is described.

Everything behind it (queue, cycle, preemption) knows PodGroups only, whoever they come from.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from msgspec.structs import replace

from moorage.api.meta import KubeObject
from moorage.api.originals import carry_original
from moorage.api.pod import Pod, SchedulingGroup
from moorage.framework.events import Action, ClusterEvent, Resource
from moorage.framework.group_plugins import GroupSourcePlugin
from moorage.framework.groups import DescribedGroup
from moorage.framework.status import Status
from moorage.queue.scheduling_queue import SchedulingQueue
from moorage.state.pod_groups import PodGroups, group_key


class GroupSources:
    """Asks the plugins of each profile which pods belong together, and tells the queue of groups that come and go.

    ``with_objects`` (gate GenericWorkload) says that pods may name PodGroups of the API as well; such a pod is a member
    of that group and of no other.
    """

    def __init__(
        self,
        sources: Mapping[str, Sequence[GroupSourcePlugin]],
        groups: PodGroups,
        queue: SchedulingQueue,
        *,
        with_objects: bool,
    ) -> None:
        self._sources = {profile: tuple(found) for profile, found in sources.items() if found}
        self._groups = groups
        self._queue = queue
        self._with_objects = with_objects
        self._source_of: dict[str, GroupSourcePlugin] = {}

    # ── pods ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def adapt(self, pod: Pod, known: Pod | None) -> Pod:
        """Return a pod as a member of its group; ``known`` is what it was taken for when it was last seen."""
        is_known = known is not None and known.metadata.uid == pod.metadata.uid
        group = known.spec.scheduling_group if known is not None and is_known else self._group_of(pod)
        if group == pod.spec.scheduling_group:
            return pod
        member = replace(pod, spec=replace(pod.spec, scheduling_group=group))
        carry_original(pod, member)
        return member

    def _group_of(self, pod: Pod) -> SchedulingGroup | None:
        if self._with_objects and pod.spec.scheduling_group is not None:
            return pod.spec.scheduling_group
        for source in self._sources.get(pod.scheduler_name, ()):
            if name := source.group_name(pod):
                self._source_of.setdefault(f"{pod.namespace}/{name}", source)
                return SchedulingGroup(pod_group_name=name)
        return None

    def member_changed(self, pod: Pod) -> None:
        """Follow a pod that has come or changed; it need not be in the books yet."""
        key = group_key(pod)
        source = None if key is None else self._source_of.get(key)
        if source is None or key is None:
            return
        group = self._groups.group(key)
        if not isinstance(group, DescribedGroup) or not source.is_described(group, pod):
            self._describe(source, key, pod)

    def member_settled(self, pod: Pod) -> None:
        """Tell whoever named a pod's group that it is in the books now."""
        key = group_key(pod)
        if key is not None and (source := self._source_of.get(key)) is not None:
            source.group_changed(key)

    def member_gone(self, pod: Pod) -> None:
        """Follow a pod that is gone, and is in the books no more."""
        key = group_key(pod)
        if key is not None and (source := self._source_of.get(key)) is not None:
            self._describe(source, key)
            source.member_gone(pod)

    # ── what describes groups ────────────────────────────────────────────────────────────────────────────────────────

    def object_changed(self, thing: KubeObject) -> None:
        """Follow an object that has come, changed or gone, as the listers show it now."""
        for source in chain.from_iterable(self._sources.values()):
            if type(thing) in source.group_kinds and (name := source.name_of_object(thing)):
                key = f"{thing.namespace}/{name}"
                describing = self._source_of.setdefault(key, source)
                self._describe(describing, key)
                describing.group_changed(key)
                return

    def attempted(self, group: DescribedGroup, status: Status | None) -> None:
        """Tell whoever described a group what has come of it."""
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
        assert queued is not None, "whoever knows of groups has a queue that does"
        if after is None:
            assert before is not None
            self._groups.drop(before)
            queued.group_deleted(before)
            action = Action.DELETE
        else:
            self._groups.put(after)
            (queued.group_added if before is None else queued.group_updated)(after)
            action = Action.ADD if before is None else Action.UPDATE
        self._queue.move_all(ClusterEvent(Resource.POD_GROUP, action), before, after)

    def _members(self, key: str, newcomer: Pod | None) -> Iterator[Pod]:
        known = self._groups.members(key)
        uid = "" if newcomer is None else newcomer.metadata.uid
        if known is not None:
            seen = {**known.assigned, **known.assumed, **known.waiting}
            yield from (pod for pod in seen.values() if pod.metadata.uid != uid)
        if newcomer is not None:
            yield newcomer
