"""The scheduler's view of claims: as observed, as written by the scheduler, and with pending allocations.

Claims written by the scheduler take precedence over older observed versions. A claim with an unwritten allocation has
a *pending allocation*: its devices are treated as allocated, and other pods cannot use it.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from moorage.common.errors import MoorageError
from moorage.kube.api.devices import AllocationResult, ResourceClaim
from moorage.kube.api.integers import to_int64
from moorage.kube.api.pod import Pod, PodResourceClaim
from moorage.kube.api.pod_groups import PodGroup
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.plugins.dynamic_resources.devices.identifiers import AllocatedDevices, PoolId

GROUPS: Final = "scheduling.k8s.io"
EXTENDED_CLAIM_ANNOTATION: Final = "resource.kubernetes.io/extended-resource-claim"


class ClaimProblem(MoorageError):
    """A pod's claim cannot be used. The pod must wait for an event.

    ``claim`` is the key of the claim that must change, or empty if the pod must change.
    """

    def __init__(self, message: str, claim: str = "") -> None:
        super().__init__(message)
        self.claim = claim


class ClaimTracker:
    """All claims and the devices in use. ``on_change`` receives the pools with changed devices."""

    def __init__(
        self,
        claims: Lister[ResourceClaim],
        *,
        shares: bool,
        on_change: Callable[[Iterable[PoolId]], None],
        with_groups: bool = False,
        qualifies: bool = False,
    ) -> None:
        self.allocated = AllocatedDevices(shares=shares, qualifies=qualifies)
        self._claims = claims
        self._on_change = on_change
        self._version = -1
        self._assumed: dict[str, ResourceClaim] = {}
        self._uids: dict[str, str] = {}
        self._stored: dict[str, AllocationResult] = {}
        self._in_flight: dict[str, AllocationResult] = {}
        self._pending_pods: dict[str, int] = {}
        self._with_groups = with_groups
        self._counted: dict[str, AllocationResult] = {}
        self._extended: dict[str, str] = {}

    def refresh(self) -> None:
        """Apply observed changes."""
        if self._version == self._claims.version:
            return
        changed_keys = self._claims.changed_since(self._version) if self._version >= 0 else None
        self._version = self._claims.version
        if changed_keys is None:
            changed_keys = [*self._uids, *(claim.key for claim in self._claims.list())]
        for key in dict.fromkeys(changed_keys):
            observed, assumed = self._claims.find(key), self._assumed.get(key)
            if assumed is None or observed is None or _version(observed) >= _version(assumed):
                self._assumed.pop(key, None)
                self._update_index(key, observed)

    def get(self, name: str, namespace: str) -> ResourceClaim | None:
        """Return the latest known version of a claim."""
        self.refresh()
        return self._assumed.get(f"{namespace}/{name}") or self._claims.get(name, namespace)

    def find_extended_claim(self, pod: Pod) -> ResourceClaim | None:
        """Return the claim that an earlier attempt created for a pod's extended resources."""
        self.refresh()
        key = self._extended.get(pod.uid)
        claim = None if key is None else (self._assumed.get(key) or self._claims.find(key))
        owner = claim.metadata.controller if claim is not None else None
        return claim if owner is not None and owner.name == pod.name else None

    def add_pending_allocation(self, uid: str, allocation: AllocationResult) -> None:
        """Count the devices of a pending allocation as in use. If a pod names a claim twice, the first call counts.

        Pods of a group may share a pending allocation: it ends when all of them have removed it.
        """
        self._in_flight.setdefault(uid, allocation)
        self._pending_pods[uid] = self._pending_pods.get(uid, 0) + 1
        self._count(uid)

    def pending_allocation(self, uid: str) -> AllocationResult | None:
        """Return the pending allocation of a claim, if any."""
        return self._in_flight.get(uid)

    def remove_pending_allocation(self, uid: str) -> bool:
        """Remove a pending allocation, written or not. Return whether it ended."""
        if uid not in self._in_flight:
            return False
        self._pending_pods[uid] -= 1
        if self._pending_pods[uid]:
            return False
        del self._in_flight[uid], self._pending_pods[uid]
        self._count(uid)
        return True

    def assume(self, claim: ResourceClaim) -> None:
        """Use the version that the API returned for a write until it is observed."""
        self.refresh()
        observed = self._claims.find(claim.key)
        if observed is None or _version(observed) < _version(claim):
            self._assumed[claim.key] = claim
            self._update_index(claim.key, claim)

    def _update_index(self, key: str, claim: ResourceClaim | None) -> None:
        before = self._uids.pop(key, None)
        if before is not None and (claim is None or claim.uid != before):
            self._stored.pop(before, None)
            self._count(before)
        if claim is None:
            self._extended = {uid: claim_key for uid, claim_key in self._extended.items() if claim_key != key}
            return
        self._uids[key] = claim.uid
        if claim.annotations.get(EXTENDED_CLAIM_ANNOTATION) == "true" and claim.metadata.controller is not None:
            self._extended[claim.metadata.controller.uid] = key
        if claim.status.allocation is None:
            self._stored.pop(claim.uid, None)
        else:
            self._stored[claim.uid] = claim.status.allocation
        self._count(claim.uid)

    def _count(self, uid: str) -> None:
        """Update the allocated devices after a change of a claim's stored or pending allocation."""
        before, after = self._counted.get(uid), self._in_flight.get(uid) or self._stored.get(uid)
        if before is after or (
            before is not None and after is not None and before.devices.results == after.devices.results
        ):
            return
        if before is not None:
            self.allocated.add(before, -1)
            del self._counted[uid]
        if after is not None:
            self.allocated.add(after)
            self._counted[uid] = after
        for allocation in (before, after):
            results = () if allocation is None else allocation.devices.results
            self._on_change({PoolId(result.driver, result.pool) for result in results})

    def iter_claims(self, pod: Pod) -> Iterator[ResourceClaim]:
        """Iterate over the claims of a pod. Raise :class:`ClaimProblem` for an unusable claim."""
        return (claim for _, claim in self.iter_entries(pod))

    def iter_entries(self, pod: Pod) -> Iterator[tuple[PodResourceClaim, ResourceClaim]]:
        """Iterate over the claims of a pod, each with its entry in the pod's spec."""
        group = pod.spec.scheduling_group.pod_group_name if self._with_groups and pod.spec.scheduling_group else None
        for entry in pod.spec.resource_claims:
            name = claim_name(pod, entry)
            if name is None:
                continue
            claim = self.get(name, pod.namespace)
            if claim is None:
                key = f"{pod.namespace}/{name}"
                raise ClaimProblem(f'could not find ResourceClaim "{key}"', key)
            if claim.is_terminating:
                raise ClaimProblem(f'resourceclaim "{claim.name}" is being deleted', claim.key)
            if entry.resource_claim_name is None and not _is_generated_for(claim, pod, group):
                owners = "Pod is not owner" if group is None else f"neither Pod nor PodGroup {group} is the owner"
                raise ClaimProblem(f"ResourceClaim {claim.key} was not created for Pod {pod.key} ({owners})", claim.key)
            yield entry, claim

    def iter_group_claims(self, group: PodGroup) -> Iterator[ResourceClaim]:
        """Iterate over the claims that a group names. Skip generated claims with another owner."""
        generated = {status.name: status.resource_claim_name for status in group.status.resource_claim_statuses}
        for entry in group.spec.resource_claims:
            name = entry.resource_claim_name
            if name is None and entry.resource_claim_template_name is None:
                text = f"PodGroup {group.key}, spec.resourceClaim {entry.name}: none of the supported fields are set"
                raise ClaimProblem(text)
            if name is None and entry.name not in generated:
                raise ClaimProblem(f"PodGroup {group.key}: ResourceClaim not created yet")
            name = name if name is not None else generated[entry.name]
            if name is None:
                continue
            claim = self.get(name, group.namespace)
            if claim is None:
                raise ClaimProblem(f'could not find ResourceClaim "{group.namespace}/{name}"')
            owner = claim.metadata.controller
            if entry.resource_claim_name is not None or (owner is not None and owner.uid == group.uid):
                yield claim


def is_reserved_for_member(claim: ResourceClaim, pod: Pod) -> bool:
    """Return whether a claim is reserved for a pod or for its group (by name: pods do not have its UID)."""
    group = pod.spec.scheduling_group.pod_group_name if pod.spec.scheduling_group else None
    return any(
        user.uid == pod.uid or (user.api_group == GROUPS and user.resource == "podgroups" and user.name == group)
        for user in claim.status.reserved_for
    )


def is_reserved_for(claim: ResourceClaim, uid: str) -> bool:
    """Return whether a claim is reserved for a pod or group."""
    return any(consumer.uid == uid for consumer in claim.status.reserved_for)


def claim_name(pod: Pod, entry: PodResourceClaim) -> str | None:
    """Return the claim name of an entry, or ``None`` if no claim is needed."""
    if entry.resource_claim_name is not None:
        return entry.resource_claim_name
    if entry.resource_claim_template_name is None:
        text = f'pod "{pod.key}", spec.resourceClaim "{entry.name}": none of the supported fields are set'
        raise ClaimProblem(text)
    for generated in pod.status.resource_claim_statuses:
        if generated.name == entry.name:
            return generated.resource_claim_name
    raise ClaimProblem(f'pod "{pod.key}": ResourceClaim not created yet')


def _is_generated_for(claim: ResourceClaim, pod: Pod, group: str | None) -> bool:
    owner = claim.metadata.controller
    if owner is None or owner.uid == pod.uid:
        return owner is not None
    is_group = owner.kind == "PodGroup" and owner.api_version.startswith(GROUPS + "/")
    return group is not None and is_group and owner.name == group


def _version(claim: ResourceClaim) -> int:
    return to_int64(claim.metadata.resource_version) or 0
