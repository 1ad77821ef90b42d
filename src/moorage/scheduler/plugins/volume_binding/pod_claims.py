"""The claims of a pod: bound, bound with the pod (WaitForFirstConsumer), and unbound immediate claims."""

from typing import Final

from msgspec import Struct, field

from moorage.kube.api.claims import (
    WAIT_FOR_FIRST_CONSUMER,
    ClaimUse,
    claim_uses,
    class_of_claim,
    is_fully_bound,
    ownership_problem,
)
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim, StorageClass
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.not_found import claim_not_found
from moorage.scheduler.plugins.volume_binding.assume_cache import AssumeCache

UNBOUND_IMMEDIATE: Final = Status.unresolvable("pod has unbound immediate PersistentVolumeClaims")


class PodClaims(Struct):
    """The claims of a pod in the order of its volumes."""

    bound: list[PersistentVolumeClaim] = field(default_factory=list)
    delayed: list[PersistentVolumeClaim] = field(default_factory=list)


class ClaimSorter:
    """Looks up a pod's claims and sorts them by binding mode."""

    def __init__(self, handle: Handle, cache: AssumeCache[PersistentVolumeClaim]) -> None:
        self._claims = handle.lister(PersistentVolumeClaim)
        self._classes = handle.lister(StorageClass)
        self._cache = cache

    def sort(self, pod: Pod) -> PodClaims | Status:
        """Return the pod's claims, or the first problem in the order of volumes."""
        observed = []
        for use in claim_uses(pod):
            claim = self._claims.get(use.name, pod.namespace)
            if claim is None:
                return Status.unresolvable(_missing(use))
            if problem := _problem(claim, use, pod):
                return Status.unresolvable(problem)
            observed.append(claim)
        claims = PodClaims()
        immediate = False
        for claim in map(self._cache.latest, observed):
            if is_fully_bound(claim):
                claims.bound.append(claim)
                continue
            waits = self._waits_for_consumer(claim)
            if isinstance(waits, Status):
                return waits
            # A claim that names its volume and is not bound yet is bound by the PV controller.
            if waits and not claim.spec.volume_name:
                claims.delayed.append(claim)
            else:
                immediate = True
        return UNBOUND_IMMEDIATE if immediate else claims

    def _waits_for_consumer(self, claim: PersistentVolumeClaim) -> bool | Status:
        name = class_of_claim(claim)
        storage_class = self._classes.get(name) if name else None
        if storage_class is None:
            return False
        if storage_class.volume_binding_mode is None:
            return Status.error(f'VolumeBindingMode not set for StorageClass "{name}"')
        return storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def _missing(use: ClaimUse) -> str:
    if use.is_ephemeral:
        return f'waiting for ephemeral volume controller to create the persistentvolumeclaim "{use.name}"'
    return claim_not_found(use.name)


def _problem(claim: PersistentVolumeClaim, use: ClaimUse, pod: Pod) -> str | None:
    if claim.status.phase == "Lost":
        volume = claim.spec.volume_name
        return f'persistentvolumeclaim "{use.name}" bound to non-existent persistentvolume "{volume}"'
    if claim.is_terminating:
        return f'persistentvolumeclaim "{use.name}" is being deleted'
    return ownership_problem(claim, pod) if use.is_ephemeral else None
