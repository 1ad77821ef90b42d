"""API writes of DynamicResources: allocations and reservations before a pod is bound, and their rollback."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Final, TypeVar

from msgspec import to_builtins
from msgspec.structs import replace

from moorage.common.errors import ApiError, Conflict, MoorageError, NotFound
from moorage.kube.api.devices import (
    AllocationResult,
    ClaimConsumer,
    DeviceRequestAllocationResult,
    ResourceClaim,
    ResourceClaimStatus,
)
from moorage.kube.api.meta import format_time, parse_time
from moorage.kube.api.pod import ExtendedResourceClaimStatus, Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.api.records import EventNote
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.dynamic_resources.claims.extended_resource_claims import UNSAVED_CLAIM_NAME
from moorage.scheduler.plugins.dynamic_resources.claims.tracker import (
    ClaimProblem,
    ClaimTracker,
    is_reserved_for,
    is_reserved_for_member,
)
from moorage.scheduler.plugins.dynamic_resources.device_state import DeviceState

FINALIZER: Final = "resource.kubernetes.io/delete-protection"
DEALLOCATED: Final = Status.unschedulable("deallocation of ResourceClaim completed")
DELETED: Final = Status.unschedulable("deletion of ResourceClaim completed")
GROUP_DEALLOCATED: Final = Status.unschedulable("deallocation of PodGroup ResourceClaim completed")
GROUP_UNRESERVED: Final = Status.unresolvable("ResourceClaim unreserved for PodGroup")
NOTHING_TO_FREE: Final = Status.unschedulable()
MAX_ATTEMPTS: Final = 5
FIRST_PAUSE: Final = 0.01
POLL_INTERVAL: Final = 5.0
CREATIONS: Final = "dynamic_resource_allocation_resourceclaim_creates_total"
PREPARED: Final = "scheduler_dra_bindingconditions_allocations_total"
WAITS: Final = "scheduler_dra_bindingconditions_wait_duration_seconds"

T = TypeVar("T")


class BindingProblem(MoorageError):
    """A claim can no longer be bound. The pod must be retried."""


@contextmanager
def describing(action: str) -> Iterator[None]:
    """Prefix API errors with the action that failed."""
    try:
        yield
    except ApiError as error:
        raise BindingProblem(f"{action}: {error}") from error


class ClaimBinder:
    """Writes claims. Waits up to ``timeout`` for devices to become ready (``None``: does not wait)."""

    def __init__(self, handle: Handle, claims: ClaimTracker, timeout: float | None) -> None:
        self._handle = handle
        self._claims = claims
        self._timeout = timeout

    async def bind(self, state: DeviceState, pod: Pod, node_name: str) -> Status | None:
        """Write allocations and reservations of all claims of a pod, and wait until their devices are ready."""
        try:
            for index, claim in enumerate(state.claims):
                if not is_reserved_for(claim, _consumer(state, index, pod).uid):
                    await self._bind_claim(state, index, pod)
            if state.statuses:
                # Before the wait, so that other components see the resources that the scheduler counts for the pod.
                with describing(f"update pod {pod.key} NodeAllocatableResourceClaimStatuses"):
                    patch = {"nodeAllocatableResourceClaimStatuses": to_builtins(state.statuses)}
                    await self._handle.cluster.patch_status(pod, patch)
                state.are_written = True
            if self._timeout is not None and any(has_conditions(claim) for claim in state.claims):
                await self._wait_for_devices(state, pod, node_name, self._timeout)
        except (BindingProblem, DeviceBindingError, ApiError) as error:
            return Status.error(str(error), cause=error)
        for uid in state.pending_uids:
            self._claims.remove_pending_allocation(uid)
        state.pending_uids.clear()
        return None

    def undo(self, state: DeviceState, pod: Pod) -> None:
        """Release pending allocations, and remove reservations in the background."""
        for uid in state.pending_uids:
            self._claims.remove_pending_allocation(uid)
        state.pending_uids.clear()
        if state.are_written:
            removal = self._handle.cluster.patch_status(pod, {"nodeAllocatableResourceClaimStatuses": []})
            self._handle.in_background(removal, name="remove node resources of devices")
            state.are_written = False
        for claim in state.claims:
            if claim is state.extended:
                if claim.name != UNSAVED_CLAIM_NAME:
                    self._handle.in_background(self._delete(claim), name="delete extended claim", must_finish=True)
            elif claim.status.allocation is not None and is_reserved_for(claim, pod.uid):
                self._handle.in_background(self._unreserve(claim, pod.uid), name="unreserve claim", must_finish=True)

    async def free_claim(self, state: DeviceState, pod: Pod, unavailable: Collection[int]) -> Status:
        """Deallocate a claim with unreachable devices, so that other devices can be allocated."""
        stale = state.extended if state.extended is not None and state.extended.name != UNSAVED_CLAIM_NAME else None
        try:
            # Upstream picks a random claim. The first one is deterministic.
            for index in sorted(unavailable):
                claim = state.claims[index]
                if claim is not state.extended and _is_used_only_by(claim, pod.uid):
                    empty = replace(claim, status=ResourceClaimStatus())
                    await self._handle.cluster.update(empty, subresource="status")
                    return DEALLOCATED
            if stale is not None:
                await self._delete(stale)
                return DELETED
        except (BindingProblem, ApiError) as error:
            return Status.error(str(error), cause=error)
        return NOTHING_TO_FREE

    async def free_group_claim(self, group: PodGroup, pod: Pod, away: Iterable[ResourceClaim]) -> Status:
        """Deallocate a claim that may block a group, or remove the group's reservation from one of its claims.

        ``away`` are claims of its pods that could not be used on some node. ``pod`` is the first pod.
        """
        try:
            for claim in away:
                if _is_used_only_by(claim, group.uid):
                    empty = replace(claim, status=ResourceClaimStatus())
                    await self._handle.cluster.update(empty, subresource="status")
                    return GROUP_DEALLOCATED
            for claim in self._claims.iter_group_claims(group):
                if claim.status.allocation is not None and is_reserved_for_member(claim, pod):
                    await self._unreserve(claim, group.uid)
                    return GROUP_UNRESERVED
        except (ClaimProblem, BindingProblem, ApiError) as error:
            return Status.error(str(error), cause=error)
        return NOTHING_TO_FREE

    async def _bind_claim(self, state: DeviceState, index: int, pod: Pod) -> None:
        claim, allocation = state.claims[index], state.allocations.get(index)
        is_extended = claim is state.extended
        if is_extended:
            if allocation is None and not claim.spec.devices.requests:
                return  # a device plugin serves the pod's extended resources on this node
            if claim.name == UNSAVED_CLAIM_NAME:
                claim = await self._create(state)
                state.claims[index] = state.extended = claim
        reading = f"get updated claim {claim.key} after conflict"
        consumer, is_shared = _consumer(state, index, pod), index in state.shared

        async def write(latest: ResourceClaim) -> ResourceClaim:
            if is_shared and latest.status.allocation is not None:
                # The pod of the original allocation wrote it first.
                return await self._store(latest, None, consumer)
            return await self._store(latest, allocation, consumer)

        if is_shared:
            with describing(f"get claim {claim.key}"):
                claim = await self._handle.cluster.get(claim)
        try:
            stored_claim = await self._retry(claim, write, reading)
        except BindingProblem:
            # Its devices may belong to another attempt, or to this one: reload the claim before they are treated as
            # free, because with a late watch event they would be allocated twice.
            with suppress(ApiError):
                self._claims.assume(await self._handle.cluster.get(claim))
            raise
        self._claims.assume(stored_claim)
        state.claims[index] = stored_claim
        if is_extended:
            state.extended = stored_claim
            mappings = state.reserved.mappings if state.reserved is not None else ()
            if not mappings:
                text = f"nil or empty request mappings, no update of pod {pod.key} ExtendedResourceClaimStatus"
                raise BindingProblem(text)
            status = ExtendedResourceClaimStatus(request_mappings=mappings, resource_claim_name=stored_claim.name)
            with describing(f"update pod {pod.key} ExtendedResourceClaimStatus"):
                await self._handle.cluster.patch_status(pod, {"extendedResourceClaimStatus": to_builtins(status)})

    async def _create(self, state: DeviceState) -> ResourceClaim:
        assert state.reserved is not None
        assert state.reserved.extended_claim is not None
        template = state.reserved.extended_claim
        unnamed = replace(template, metadata=replace(template.metadata, name="", uid=""))
        result = "failure"
        try:
            with describing(f"create claim for extended resources {unnamed.key}"):
                created = await self._handle.cluster.create(unnamed)
            result = "success"
        finally:
            self._handle.meter.count(CREATIONS, result, "false", "", "Pod")
        self._claims.assume(created)
        return created

    async def _store(
        self, claim: ResourceClaim, allocation: AllocationResult | None, consumer: ClaimConsumer
    ) -> ResourceClaim:
        """Write allocation and reservation into the current version of a claim."""
        if claim.is_terminating:
            raise BindingProblem(f"claim {claim.key} got deleted in the meantime")
        new_allocation = claim.status.allocation
        if allocation is not None:
            if new_allocation is not None:
                raise BindingProblem(f"claim {claim.key} got allocated elsewhere in the meantime")
            new_allocation = allocation
            if FINALIZER not in claim.metadata.finalizers:
                # The finalizer is not part of the status, so it needs a separate write, which must be first.
                finalizers = (*claim.metadata.finalizers, FINALIZER)
                with describing(f"add finalizer to claim {claim.key}"):
                    claim = await self._handle.cluster.update(
                        replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))
                    )
        if self._timeout is not None:
            if new_allocation is None:
                raise BindingProblem(f"claim {claim.key} got deallocated elsewhere in the meantime")
            if new_allocation.allocation_timestamp is None:
                new_allocation = replace(new_allocation, allocation_timestamp=format_time(self._handle.clock.wall()))
        users = claim.status.reserved_for
        if not is_reserved_for(claim, consumer.uid):
            users = (*users, consumer)
        status = replace(claim.status, allocation=new_allocation, reserved_for=users)
        additions = "reservation" if allocation is None else "allocation and reservation"
        with describing(f"add {additions} to claim {claim.key}"):
            return await self._handle.cluster.update(replace(claim, status=status), subresource="status")

    async def _retry(self, claim: ResourceClaim, write: Callable[[ResourceClaim], Awaitable[T]], reading: str) -> T:
        """Call ``write``; after a conflict, reload the claim and retry a few times."""
        for attempt in range(1, MAX_ATTEMPTS):
            try:
                return await write(claim)
            except BindingProblem as error:
                if not isinstance(error.__cause__, Conflict):
                    raise
            await asyncio.sleep(FIRST_PAUSE * attempt)
            with describing(reading):
                claim = await self._handle.cluster.get(claim)
            self._claims.assume(claim)
        return await write(claim)

    async def _wait_for_devices(self, state: DeviceState, pod: Pod, node_name: str, timeout: float) -> None:
        began, result = self._handle.clock.now(), "error"
        try:
            note = f"waiting for binding conditions for device on node {node_name}"
            self._handle.cluster.record(
                EventNote(pod, "BindingConditionsPending", "Scheduling", note, pod.scheduler_name)
            )
            end = self._handle.clock.now() + timeout
            while not self._are_ready(state, timeout):
                remaining_seconds = end - self._handle.clock.now()
                if remaining_seconds <= 0:
                    raise DeviceBindingTimeoutError("device binding timeout: context deadline exceeded")
                await asyncio.sleep(min(POLL_INTERVAL, remaining_seconds))
            result = "success"
        except DeviceBindingError as error:
            result = "timeout" if isinstance(error, DeviceBindingTimeoutError) else "failure"
            raise
        finally:
            seconds, meter, profile = self._handle.clock.now() - began, self._handle.meter, pod.scheduler_name
            for claim in state.claims:
                allocation = claim.status.allocation
                for device in allocation.devices.results if allocation else ():
                    meter.observe(WAITS, seconds, profile, device.driver, result)
                for device in devices_with_conditions(claim):
                    meter.count(PREPARED, profile, device.driver, result)

    def _are_ready(self, state: DeviceState, timeout: float) -> bool:
        for index, bound in enumerate(state.claims):
            claim = self._claims.get(bound.name, bound.namespace)
            if claim is None:
                raise BindingProblem(f'could not find ResourceClaim "{bound.key}"')
            if bound is state.extended:
                state.extended = claim
            state.claims[index] = claim
            if not is_ready(claim):
                if is_overdue(claim, now=self._handle.clock.wall(), timeout=timeout):
                    raise DeviceBindingTimeoutError(f"device binding timeout: claim={claim.name}")
                return False
        return True

    async def _unreserve(self, claim: ResourceClaim, uid: str) -> None:
        # A strategic merge patch removes one entry, independent of other changes of the claim.
        removal = {"reservedFor": [{"$patch": "delete", "uid": uid}]}
        await self._handle.cluster.patch_status(claim, removal)

    async def _delete(self, claim: ResourceClaim) -> None:
        """Delete a claim created by the scheduler, after removing its finalizer."""
        try:
            reading = f"get resourceclaim {claim.key}"
            await self._handle.cluster.delete(await self._retry(claim, self._unprotect, reading))
        except NotFound:
            return

    async def _unprotect(self, claim: ResourceClaim) -> ResourceClaim:
        finalizers = tuple(name for name in claim.metadata.finalizers if name != FINALIZER)
        with describing(f"update resourceclaim {claim.key}"):
            return await self._handle.cluster.update(
                replace(claim, metadata=replace(claim.metadata, finalizers=finalizers))
            )


def _consumer(state: DeviceState, index: int, pod: Pod) -> ClaimConsumer:
    """Return the consumer that a claim is reserved for: the pod, or its group."""
    return state.consumers.get(index) or ClaimConsumer(resource="pods", name=pod.name, uid=pod.uid)


def _is_used_only_by(claim: ResourceClaim, uid: str) -> bool:
    users = claim.status.reserved_for
    return len(users) <= 1 and all(consumer.uid == uid for consumer in users)


class DeviceBindingError(MoorageError):
    """A device failed to become ready."""


class DeviceBindingTimeoutError(DeviceBindingError):
    """A device was not ready before the binding timeout."""


def is_ready(claim: ResourceClaim) -> bool:
    """Return whether all devices of a claim are ready. Raise :class:`DeviceBindingError` if one has failed."""
    if claim.status.allocation is None:
        return False
    for result in devices_with_conditions(claim):
        device_id = (result.driver, result.pool, result.device)
        statuses = (item for item in claim.status.devices if (item.driver, item.pool, item.device) == device_id)
        status = next(statuses, None)
        if status is None:
            return False
        conditions = {condition.type: condition for condition in reversed(status.conditions)}
        for name in result.binding_failure_conditions:
            failure = conditions.get(name)
            if failure is not None and failure.status == "True":
                message = failure.message.replace("\\", "\\\\").replace('"', '\\"')
                text = f'claim={claim.name}, reason={failure.reason}, message="{message}"'
                raise DeviceBindingError(f"device binding failed: {text}")
        if any(name not in conditions or conditions[name].status != "True" for name in result.binding_conditions):
            return False
    return True


def is_overdue(claim: ResourceClaim, *, now: float, timeout: float) -> bool:
    """Return whether the binding timeout of a claim's devices has expired."""
    allocation = claim.status.allocation
    if allocation is None or allocation.allocation_timestamp is None or not has_conditions(claim):
        return False
    return parse_time(allocation.allocation_timestamp) + timeout < now


def is_stuck(claim: ResourceClaim, *, now: float, timeout: float) -> bool:
    """Return whether a claim must be deallocated before use: its devices failed, or timed out."""
    try:
        return not is_ready(claim) and is_overdue(claim, now=now, timeout=timeout)
    except DeviceBindingError:
        return True


def has_conditions(claim: ResourceClaim) -> bool:
    """Return whether a claim has devices with binding conditions."""
    return next(devices_with_conditions(claim), None) is not None


def devices_with_conditions(claim: ResourceClaim) -> Iterator[DeviceRequestAllocationResult]:
    """Yield the devices of a claim that have binding conditions."""
    allocation = claim.status.allocation
    return (result for result in (allocation.devices.results if allocation else ()) if result.binding_conditions)
