"""Resource claims: created from templates for pods and pod groups, and deallocated when unused."""

from collections.abc import Iterable, Iterator
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import is_active, owner_keys, owner_reference, without_finalizer
from moorage.common.clock import Clock
from moorage.kube.api.devices import ClaimConsumer, ResourceClaim, ResourceClaimTemplate
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod, PodResourceClaim
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.api.struct import Data

MADE_FOR: Final = "resource.kubernetes.io/pod-claim-name"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"


class PodClaimController(BaseController):
    """Creates the claims of pods from templates. With ``has_groups`` pods can share the claims of their group."""

    name = "claims of pods"

    def __init__(self, clock: Clock, *, has_groups: bool = False) -> None:
        super().__init__(clock)
        self._has_groups = has_groups
        self.kinds = (Pod, ResourceClaim, ResourceClaimTemplate, *((PodGroup,) if has_groups else ()))

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, Pod):
            return (obj.key,) if obj.spec.resource_claims else ()
        if isinstance(obj, ResourceClaim):
            return owner_keys(obj, Pod)
        pods = cache[Pod].in_namespace(obj.namespace)
        if isinstance(obj, PodGroup):
            return [pod.key for pod in pods if pod.group_key == obj.key and pod.spec.resource_claims]
        return [pod.key for pod in pods if any(c.resource_claim_template_name for c in pod.spec.resource_claims)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create the missing claims of a pod and record them in its status."""
        pod = cache[Pod].get(key)
        if pod is None or not is_active(pod):
            return ()
        if not self._has_groups or pod.group_key is None:
            return create_claims(pod, cache)
        group = cache[PodGroup].get(pod.group_key)
        # The shared claims are unknown until the group exists.
        return () if group is None else create_claims(pod, cache, group)


class GroupClaimController(BaseController):
    """Creates the shared claims of pod groups from templates."""

    name = "claims of pod groups"
    kinds = (PodGroup, ResourceClaim, ResourceClaimTemplate)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, PodGroup):
            return (obj.key,) if obj.spec.resource_claims else ()
        if isinstance(obj, ResourceClaim):
            return owner_keys(obj, PodGroup)
        return [group.key for group in cache[PodGroup].in_namespace(obj.namespace) if group.spec.resource_claims]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create the missing claims of a group and record them in its status."""
        group = cache[PodGroup].get(key)
        return () if group is None or group.is_terminating else create_claims(group, cache)


def create_claims(
    owner: Pod | PodGroup, cache: InformerCache, group: PodGroup | None = None
) -> Iterator[ControllerAction]:
    """Create the claims of a pod or group. Its status refers to them when all exist.

    Entries that the ``group`` of a pod has, too, use the claims of the group.
    """
    shared = group.spec.resource_claims if group is not None else ()
    claims = _list_generated_claims(owner, cache)
    if group is not None:
        of_group = _list_generated_claims(group, cache)
        claims |= {entry.name: of_group[entry.name] for entry in shared if entry.name in of_group}
    entries = [entry for entry in owner.spec.resource_claims if entry.resource_claim_template_name]
    for entry in entries:
        template = cache[ResourceClaimTemplate].get(f"{owner.namespace}/{entry.resource_claim_template_name}")
        if entry.name not in claims and entry not in shared and template is not None:
            yield Create(ResourceClaim, build_claim(template, owner, entry))
    statuses = [
        {"name": entry.name, "resourceClaimName": claims[entry.name].name} for entry in entries if entry.name in claims
    ]
    reported = owner.status.resource_claim_statuses
    current_statuses = [{"name": status.name, "resourceClaimName": status.resource_claim_name} for status in reported]
    if len(statuses) == len(entries) and statuses and statuses != current_statuses:
        yield Patch(owner, {"status": {"resourceClaimStatuses": statuses}}, "status")


def _list_generated_claims(owner: KubeObject, cache: InformerCache) -> dict[str, ResourceClaim]:
    return {
        claim.annotations[MADE_FOR]: claim
        for claim in cache[ResourceClaim].owned_by(owner.uid)
        if MADE_FOR in claim.annotations and not claim.is_terminating
    }


def build_claim(template: ResourceClaimTemplate, owner: Pod | PodGroup, entry: PodResourceClaim) -> Data:
    """Return the claim for one entry of a pod or a group."""
    metadata = template.spec.metadata
    return {
        "metadata": {
            "generateName": f"{owner.name}-{entry.name}-",
            "namespace": owner.namespace,
            "labels": dict(metadata.get("labels") or {}),
            "annotations": {**(metadata.get("annotations") or {}), MADE_FOR: entry.name},
            "ownerReferences": [owner_reference(owner)],
        },
        "spec": template.spec.spec,
    }


class ClaimUseController(BaseController):
    """Removes the reservations of finished or deleted pods and of deleted groups."""

    name = "use of claims"

    def __init__(self, clock: Clock, *, has_groups: bool = False) -> None:
        super().__init__(clock)
        self._has_groups = has_groups
        self.kinds = (ResourceClaim, Pod, *((PodGroup,) if has_groups else ()))

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, ResourceClaim):
            return (obj.key,)
        if isinstance(obj, Pod):
            may_use_claims = obj.spec.resource_claims or obj.status.extended_resource_claim_status is not None
            if not may_use_claims or _is_consumer(Pod, obj.uid, obj.key, cache):
                return ()
        if isinstance(obj, PodGroup) and _is_consumer(PodGroup, obj.uid, obj.key, cache):
            return ()
        claims = cache[ResourceClaim].in_namespace(obj.namespace)
        return [claim.key for claim in claims if any(user.uid == obj.uid for user in claim.status.reserved_for)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Remove obsolete reservations; deallocate, release or delete an unused claim."""
        claim = cache[ResourceClaim].get(key)
        if claim is None:
            return ()
        kinds: dict[str, type[Pod | PodGroup]] = {"pods": Pod, **({"podgroups": PodGroup} if self._has_groups else {})}
        users = [
            user
            for user in claim.status.reserved_for
            if user.resource not in kinds
            or _is_consumer(kinds[user.resource], user.uid, f"{claim.namespace}/{user.name}", cache)
        ]
        is_unused = claim.is_terminating and not users and claim.status.allocation is not None
        if len(users) < len(claim.status.reserved_for) or is_unused:
            status: Data = {"reservedFor": [_as_data(user) for user in users] or None}
            if not users:
                # An unused claim is deallocated. Prepared devices belong to the allocation.
                status |= {"allocation": None, "devices": None}
            return [Patch(claim, {"status": status}, "status", if_unchanged=True)]
        if users or claim.status.allocation is not None:
            return ()
        if claim.is_terminating:
            # Not earlier: a scheduler adds the finalizer and the allocation in two separate writes.
            return [without_finalizer(claim, PROTECTION)] if PROTECTION in claim.metadata.finalizers else ()
        pods = ((pod, claim.metadata.controller) for key in owner_keys(claim, Pod) if (pod := cache[Pod].get(key)))
        is_orphan = any(owner is not None and pod.uid == owner.uid and pod.is_finished for pod, owner in pods)
        return [Delete(claim)] if is_orphan else ()


def _is_consumer(kind: type[Pod | PodGroup], uid: str, key: str, cache: InformerCache) -> bool:
    """Return whether a group or an unfinished pod exists that a claim is reserved for."""
    obj = cache[kind].get(key)
    return obj is not None and obj.uid == uid and not (isinstance(obj, Pod) and obj.is_finished)


def _as_data(user: ClaimConsumer) -> Data:
    return {"apiGroup": user.api_group, "resource": user.resource, "name": user.name, "uid": user.uid}
