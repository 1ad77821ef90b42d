"""The groups of pods and their minimum sizes: from PodGroups of scheduler-plugins, or from annotations."""

import re
from collections.abc import Iterable
from typing import Final

from moorage.kube.api.custom import custom_kind
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import GangPolicy, PodGroupPolicy, PodGroupSpec
from moorage.kube.api.quantity import ResourceList
from moorage.kube.api.struct import Int32, KubeStruct
from moorage.scheduler.framework.groups import DescribedGroup
from moorage.scheduler.framework.handle import Lister

GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"
GANG: Final = "moorage.io/gang"
GANG_SIZE: Final = "moorage.io/gang-size"

BY_LABEL: Final = "scheduling.x-k8s.io/"
_BY_ANNOTATION: Final = "moorage.io/"
MAX_NAME: Final = 253
MAX_SIZE: Final = 100_000
_SIZE: Final = re.compile(r"[0-9]{1,6}", re.ASCII)
_MAX_SHOWN: Final = 40


class CoschedulingSpec(KubeStruct, frozen=True):
    """The spec of a group."""

    min_member: Int32 = 0
    min_resources: ResourceList = {}
    schedule_timeout_seconds: Int32 | None = None


class CoschedulingStatus(KubeStruct, frozen=True):
    """The status of a group."""

    phase: str = ""
    occupied_by: str = ""
    running: Int32 = 0
    succeeded: Int32 = 0
    failed: Int32 = 0


class CoschedulingGroup(KubeObject, frozen=True, dict=True, gc=True):
    """A PodGroup of scheduler-plugins."""

    spec: CoschedulingSpec = CoschedulingSpec()
    status: CoschedulingStatus = CoschedulingStatus()


KIND: Final = custom_kind("PodGroup", "podgroups", "scheduling.x-k8s.io/v1alpha1", type=CoschedulingGroup)


def plain_name(name: str) -> str:
    """Return the name of a group as users write it."""
    return name.removeprefix(BY_LABEL).removeprefix(_BY_ANNOTATION)


def group_name(pod: Pod) -> str:
    """Return the group name of a pod: its label takes precedence over its annotation; empty without both."""
    labels, annotations = pod.metadata.labels, pod.metadata.annotations
    if labels and (label := labels.get(GROUP_LABEL)):
        return BY_LABEL + label
    if annotations and (gang := annotations.get(GANG)):
        return _BY_ANNOTATION + gang[: MAX_NAME + 1]
    return ""


class Gangs:
    """Describes groups of both kinds as PodGroups with a minimum."""

    def __init__(self, objects: Lister[CoschedulingGroup]) -> None:
        self._objects = objects

    def find_object(self, group: DescribedGroup) -> CoschedulingGroup | None:
        """Return the object that describes a group."""
        is_by_label = group.name.startswith(BY_LABEL)
        return self._objects.get(plain_name(group.name), group.namespace) if is_by_label else None

    def describe(self, namespace: str, name: str, members: Iterable[Pod]) -> DescribedGroup | None:
        """Describe a group by its object or by its members' annotations; return ``None`` without either."""
        if not name.startswith(BY_LABEL):
            return _describe_by_members(namespace, name, members)
        group = self._objects.get(plain_name(name), namespace)
        first = next(iter(members), None)
        if group is not None:
            return _described(namespace, name, first, group.spec.min_member, uid=group.uid)
        if first is None:
            return None
        problem = (
            f'there is no PodGroup "{plain_name(name)}" of {KIND.api_version} in the namespace "{namespace}", '
            f"which the label {GROUP_LABEL} names"
        )
        return _described(namespace, name, first, 1, problem=problem)


def is_settled(group: DescribedGroup, pod: Pod) -> bool:
    """Return whether a member does not change the description of its group."""
    if group.problem or group.priority != pod.priority:
        return False
    return group.name.startswith(BY_LABEL) or _stated_size(pod) == str(group.min_count)


def _describe_by_members(namespace: str, name: str, members: Iterable[Pod]) -> DescribedGroup | None:
    pods = iter(members)
    first = next(pods, None)
    if first is None:
        return None
    gang, stated = plain_name(name), _stated_size(first)
    if not stated:
        problem = f'{first.name} is in the gang "{_shown(gang)}" without a pod count: add {GANG_SIZE}'
    elif _SIZE.fullmatch(stated) and stated[0] != "0" and int(stated) <= MAX_SIZE:
        problem = ""
    else:
        problem = f"{GANG_SIZE} of {first.name} is {_quoted(stated)}: write a whole number from 1 to {MAX_SIZE}"
    if len(gang) > MAX_NAME:
        problem = f"the annotation {GANG} is too long: the name of a gang has at most {MAX_NAME} characters"
    for pod in () if problem else pods:
        if (size := _stated_size(pod)) != stated:
            problem = (
                f'the pods of gang "{_shown(gang)}" disagree about {GANG_SIZE}: {_quoted(stated)} in {first.name}, '
                f"{_quoted(size)} in {pod.name}"
            )
            break
    return _described(namespace, name, first, 1 if problem else int(stated), problem=problem)


def _stated_size(pod: Pod) -> str:
    return (pod.metadata.annotations or {}).get(GANG_SIZE, "")


def _described(
    namespace: str, name: str, first: Pod | None, minimum: int, *, uid: str = "", problem: str = ""
) -> DescribedGroup:
    # Groups of scheduler-plugins have no priority; they get that of their pods.
    priority = 0 if first is None else first.priority
    policy = PodGroupPolicy(gang=GangPolicy(min_count=max(minimum, 1)))
    return DescribedGroup(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or f"{namespace}/{name}"),
        spec=PodGroupSpec(scheduling_policy=policy, priority=priority),
        problem=problem,
    )


def _shown(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _quoted(text: str) -> str:
    return f'"{_shown(text)}"' if text else "nothing"
