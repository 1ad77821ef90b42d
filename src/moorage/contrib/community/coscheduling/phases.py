"""The status of PodGroups of scheduler-plugins: their phase, and the counts of running and finished pods.

The controller of scheduler-plugins may run at the same time, since both write the same values.
"""

from itertools import chain
from typing import Any, Final

from msgspec import Struct, field

from moorage.common.errors import ApiError, NotFound
from moorage.contrib.community.coscheduling.gangs import CoschedulingGroup, CoschedulingStatus, Gangs
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import StateKey
from moorage.scheduler.framework.groups import DescribedGroup
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.state.pod_groups import Members, PodGroups, group_key

PENDING: Final = "Pending"
SCHEDULING: Final = "Scheduling"
RUNNING: Final = "Running"
FINISHED: Final = "Finished"
FAILED: Final = "Failed"

WRITE_AFTER: Final = 1.0
"""Pods of a group change together; the result is written once, after this delay in seconds."""


def compute_phase(status: CoschedulingStatus, pod_count: int, minimum: int) -> str:
    """Return the phase of a group by the counts in its status and the number of its pods; the last phases are final."""
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
    """The state of one group in addition to its pods."""

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
    """Return the patch of a status; zeros that were never written are omitted."""
    status = group.status
    assert members.group is not None
    running = sum(pod.status.phase == "Running" for pod in members.assigned.values())
    now = CoschedulingStatus(status.phase, running=running, succeeded=account.succeeded, failed=account.failed)
    phase = compute_phase(now, members.known_count, members.group.min_count or 1)
    new_status: dict[str, Any] = {"phase": phase, "running": running, "succeeded": now.succeeded, "failed": now.failed}
    pod = next(chain(members.scheduled(), members.waiting.values()), None)
    if phase != PENDING and not status.occupied_by and pod is not None and pod.metadata.owner_references:
        names = sorted(f"{pod.namespace}/{owner.name}" for owner in pod.metadata.owner_references)
        new_status["occupiedBy"] = ",".join(names)
    before = {"phase": status.phase, "running": status.running, "succeeded": status.succeeded, "failed": status.failed}
    return {name: value for name, value in new_status.items() if before.get(name) != value}
