"""The groups of pods and their minimum sizes: from PodGroups of scheduler-plugins, or from annotations."""

import re
from collections.abc import Iterable
from itertools import chain
from typing import Any, Final

from msgspec import Struct, field

from moorage.common.errors import ApiError, NotFound
from moorage.kube.api.custom import custom_kind
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import GangPolicy, PodGroupPolicy, PodGroupSpec
from moorage.kube.api.quantity import ResourceList
from moorage.kube.api.struct import Int32, KubeStruct
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.groups import DescribedGroup
from moorage.scheduler.framework.handle import Handle, Lister
from moorage.scheduler.state.pod_groups import Members, PodGroups, group_key

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
        """Describe a group by its object or by its members' annotations. Return ``None`` without either."""
        if not name.startswith(BY_LABEL):
            return _describe_by_members(namespace, name, members)
        group = self._objects.get(plain_name(name), namespace)
        first = next(iter(members), None)
        if group is not None:
            return _describe(namespace, name, first, group.spec.min_member, uid=group.uid)
        if first is None:
            return None
        problem = (
            f'there is no PodGroup "{plain_name(name)}" of {KIND.api_version} in the namespace "{namespace}", '
            f"which the label {GROUP_LABEL} names"
        )
        return _describe(namespace, name, first, 1, problem=problem)


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
        problem = f'{first.name} is in the gang "{_shorten(gang)}" without a pod count: add {GANG_SIZE}'
    elif _SIZE.fullmatch(stated) and stated[0] != "0" and int(stated) <= MAX_SIZE:
        problem = ""
    else:
        problem = f"{GANG_SIZE} of {first.name} is {_quote(stated)}: write a whole number from 1 to {MAX_SIZE}"
    if len(gang) > MAX_NAME:
        problem = f"the annotation {GANG} is too long: the name of a gang has at most {MAX_NAME} characters"
    for pod in () if problem else pods:
        if (size := _stated_size(pod)) != stated:
            problem = (
                f'the pods of gang "{_shorten(gang)}" have different values of {GANG_SIZE}: '
                f"{_quote(stated)} in {first.name}, {_quote(size)} in {pod.name}"
            )
            break
    return _describe(namespace, name, first, 1 if problem else int(stated), problem=problem)


def _stated_size(pod: Pod) -> str:
    return (pod.metadata.annotations or {}).get(GANG_SIZE, "")


def _describe(
    namespace: str, name: str, first: Pod | None, minimum: int, *, uid: str = "", problem: str = ""
) -> DescribedGroup:
    # Groups of scheduler-plugins have no priority. They get that of their pods.
    priority = 0 if first is None else first.priority
    policy = PodGroupPolicy(gang=GangPolicy(min_count=max(minimum, 1)))
    return DescribedGroup(
        metadata=ObjectMeta(name=name, namespace=namespace, uid=uid or f"{namespace}/{name}"),
        spec=PodGroupSpec(scheduling_policy=policy, priority=priority),
        problem=problem,
    )


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."


def _quote(text: str) -> str:
    return f'"{_shorten(text)}"' if text else "nothing"


PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
RUNNING: Final = "Running"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"

WRITE_AFTER: Final = 1.0
"""Pods of a group change together. The result is written once, after this delay in seconds."""


def compute_phase(status: CoschedulingStatus, pod_count: int, minimum: int) -> str:
    """Return the phase of a group by the counts in its status and the number of its pods. The last phases are final."""
    finished = status.succeeded + status.failed
    if status.phase in (FINISHED, FAILED):
        return status.phase
    if status.succeeded >= minimum:
        return FINISHED
    if status.failed and finished + status.running >= minimum:
        return FAILED
    if status.succeeded + status.running >= minimum:
        return RUNNING
    return SCHEDULING if pod_count + finished >= minimum else PENDING


class _Account(Struct):
    """The state of a group in addition to its pods."""

    succeeded: int
    failed: int
    gone: list[Pod] = field(default_factory=list)
    """Pods that had a node and disappeared: finished pods are not watched, so their result must be read."""
    is_stale: bool = False
    is_busy: bool = False


ACCOUNTS: Final = StateKey[dict[str, _Account]]("state of coscheduled groups")


class Phases:
    """Writes the status of groups that have an object, while the scheduler leads."""

    def __init__(self, handle: Handle, gangs: Gangs, groups: PodGroups) -> None:
        self._handle = handle
        self._gangs = gangs
        self._groups = groups
        # Shared between configurations: recently finished pods are counted after a reload.
        self._accounts = handle.shared(ACCOUNTS, dict[str, _Account])
        self._is_leading = False

    def start(self) -> None:
        """Start writing, with the existing groups."""
        self._is_leading = True
        for key in list(self._groups):
            if (account := self._accounts.get(key)) is not None:
                account.is_stale = False  # the writer may be closed by then
            self.changed(key)

    async def close(self) -> None:
        """Write pending updates now: a successor may start soon."""
        for key, account in list(self._accounts.items()):
            if account.is_stale and not account.is_busy:
                account.is_busy = True
                await self._write(key, account)

    def changed(self, key: str) -> None:
        """Record that a group or one of its pods changed."""
        group = self._object(key) if self._is_leading else None
        if group is None:
            self._accounts.pop(key, None)
            return
        account = self._accounts.get(key)
        if account is None:
            account = self._accounts[key] = _Account(group.status.succeeded, group.status.failed)
        if not account.is_stale:
            account.is_stale = True
            if not account.is_busy:
                self._handle.call_later(WRITE_AFTER, lambda: self._write_soon(key))

    def pod_gone(self, pod: Pod) -> None:
        """Record that a pod was deleted or has finished."""
        key = group_key(pod) or ""
        self.changed(key)
        account = self._accounts.get(key)
        if account is not None and pod.node_name:
            account.gone.append(pod)

    def _object(self, key: str) -> CoschedulingGroup | None:
        group = self._groups.group(key)
        return self._gangs.find_object(group) if isinstance(group, DescribedGroup) else None

    def _write_soon(self, key: str) -> None:
        account = self._accounts.get(key)
        if account is not None and not account.is_busy:
            account.is_busy = True
            self._handle.in_background(self._write(key, account), name=f"status of pod group {key}")

    async def _write(self, key: str, account: _Account) -> None:
        try:
            while account.is_stale:
                account.is_stale = False
                await self._take_ends(account)
                group, members = self._object(key), self._groups.members(key)
                if group is not None and members is not None and (patch := _patch(group, members, account)):
                    await self._handle.cluster.patch_status(group, patch)
        except ApiError as error:
            self._handle.log.warning("pod group status was not written", group=key, error=str(error))
        finally:
            account.is_busy = False

    async def _take_ends(self, account: _Account) -> None:
        """Read the result of pods that disappeared."""
        while account.gone:
            pod = account.gone[-1]
            try:
                last = await self._handle.cluster.get(pod)
            except NotFound:
                last = None
            account.gone.remove(pod)
            if last is not None and last.uid == pod.uid:
                account.succeeded += last.status.phase == "Succeeded"
                account.failed += last.status.phase == "Failed"


def _patch(group: CoschedulingGroup, members: Members, account: _Account) -> dict[str, Any]:
    """Return the patch of a status. Zeros that were never written are omitted."""
    status = group.status
    assert members.group is not None
    running_count = sum(pod.status.phase == "Running" for pod in members.assigned.values())
    now = CoschedulingStatus(status.phase, running=running_count, succeeded=account.succeeded, failed=account.failed)
    phase = compute_phase(now, members.known_count, members.group.min_count or 1)
    new_status: dict[str, Any] = {
        "phase": phase,
        "running": running_count,
        "succeeded": now.succeeded,
        "failed": now.failed,
    }
    pod = next(chain(members.scheduled(), members.waiting.values()), None)
    if phase != PENDING and not status.occupied_by and pod is not None and pod.metadata.owner_references:
        names = sorted(f"{pod.namespace}/{owner.name}" for owner in pod.metadata.owner_references)
        new_status["occupiedBy"] = ",".join(names)
    before = {"phase": status.phase, "running": status.running, "succeeded": status.succeeded, "failed": status.failed}
    return {name: value for name, value in new_status.items() if before.get(name) != value}
