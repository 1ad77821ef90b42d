"""Resource claims: created from templates for pods and pod groups, and deallocated when unused."""

from collections.abc import Iterable, Iterator
from typing import Final

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import owner_reference
from moorage.kube.api.devices import ClaimConsumer, ResourceClaim, ResourceClaimTemplate
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod, PodResourceClaim
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.api.struct import Data

MADE_FOR: Final = "resource.kubernetes.io/pod-claim-name"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"


class PodClaimController:
    """Creates the claims of pods from templates; with ``has_groups`` pods can share the claims of their group."""

    name = "claims of pods"
    pause = 0.0

    def __init__(self, *, has_groups: bool = False) -> None:
        self._has_groups = has_groups
        groups = (PodGroup,) if has_groups else ()
        self.kinds: tuple[type[KubeObject], ...] = (Pod, ResourceClaim, ResourceClaimTemplate, *groups)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the keys of pods with claims that a changed pod, claim or template affects."""
        match obj:
            case Pod():
                return (obj.key,) if obj.spec.resource_claims else ()
            case ResourceClaim():
                owner = obj.metadata.controller
                return (f"{obj.namespace}/{owner.name}",) if owner is not None and owner.kind == "Pod" else ()
            case PodGroup():
                pods = cache[Pod].in_namespace(obj.namespace)
                return [pod.key for pod in pods if pod.group_key == obj.key and pod.spec.resource_claims]
        pods = cache[Pod].in_namespace(obj.namespace)
        return [pod.key for pod in pods if any(c.resource_claim_template_name for c in pod.spec.resource_claims)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create the missing claims of a pod and record them in its status."""
        pod = cache[Pod].get(key)
        if pod is None or pod.is_terminating or pod.is_finished:
            return ()
        if not self._has_groups or pod.group_key is None:
            return claims_for(pod, cache)
        group = cache[PodGroup].get(pod.group_key)
        # Which claims are the group's is not known before the group is.
        return () if group is None else claims_for(pod, cache, group)


class GroupClaimController:
    """Creates the shared claims of pod groups from templates."""

    name = "claims of pod groups"
    kinds = (PodGroup, ResourceClaim, ResourceClaimTemplate)
    pause = 0.0

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the keys of groups with claims that a changed group, claim or template affects."""
        if isinstance(obj, PodGroup):
            return (obj.key,) if obj.spec.resource_claims else ()
        if isinstance(obj, ResourceClaim):
            owner = obj.metadata.controller
            return (f"{obj.namespace}/{owner.name}",) if owner is not None and owner.kind == "PodGroup" else ()
        return [group.key for group in cache[PodGroup].in_namespace(obj.namespace) if group.spec.resource_claims]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create the missing claims of a group and record them in its status."""
        group = cache[PodGroup].get(key)
        return () if group is None or group.is_terminating else claims_for(group, cache)


def claims_for(
    owner: Pod | PodGroup, cache: InformerCache, group: PodGroup | None = None
) -> Iterator[ControllerAction]:
    """Decide about the claims of one pod or group: its status names them when all are there.

    An entry that the ``group`` of a pod has, too, is served by the claim of the group.
    """
    shared = group.spec.resource_claims if group is not None else ()
    claims = _claims_made_for(owner, cache)
    if group is not None:
        of_group = _claims_made_for(group, cache)
        claims |= {entry.name: of_group[entry.name] for entry in shared if entry.name in of_group}
    entries = [entry for entry in owner.spec.resource_claims if entry.resource_claim_template_name]
    for entry in entries:
        template = cache[ResourceClaimTemplate].get(f"{owner.namespace}/{entry.resource_claim_template_name}")
        if entry.name not in claims and entry not in shared and template is not None:
            yield Create(ResourceClaim, claim_from(template, owner, entry))
    statuses = [
        {"name": entry.name, "resourceClaimName": claims[entry.name].name} for entry in entries if entry.name in claims
    ]
    reported = owner.status.resource_claim_statuses
    current_statuses = [{"name": status.name, "resourceClaimName": status.resource_claim_name} for status in reported]
    if len(statuses) == len(entries) and statuses and statuses != current_statuses:
        yield Patch(owner, {"status": {"resourceClaimStatuses": statuses}}, "status")


def _claims_made_for(owner: KubeObject, cache: InformerCache) -> dict[str, ResourceClaim]:
    return {
        claim.annotations[MADE_FOR]: claim
        for claim in cache[ResourceClaim].owned_by(owner.uid)
        if MADE_FOR in claim.annotations and not claim.is_terminating
    }


def claim_from(template: ResourceClaimTemplate, owner: Pod | PodGroup, entry: PodResourceClaim) -> Data:
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


class ClaimUseController:
    """Removes the reservations of finished or deleted pods and of deleted groups."""

    name = "use of claims"
    pause = 0.0

    def __init__(self, *, has_groups: bool = False) -> None:
        self._has_groups = has_groups
        self.kinds: tuple[type[KubeObject], ...] = (ResourceClaim, Pod, *((PodGroup,) if has_groups else ()))

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        """Return the claims that a changed claim, pod or group affects."""
        if isinstance(obj, ResourceClaim):
            return (obj.key,)
        if isinstance(obj, Pod) and (not _may_use_claims(obj) or is_consumer(obj.uid, obj.key, cache)):
            return ()
        if isinstance(obj, PodGroup) and _is_there(obj.uid, obj.key, cache):
            return ()
        claims = cache[ResourceClaim].in_namespace(obj.namespace)
        return [claim.key for claim in claims if any(user.uid == obj.uid for user in claim.status.reserved_for)]

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Remove obsolete reservations; deallocate, release or delete an unused claim."""
        claim = cache[ResourceClaim].get(key)
        if claim is None:
            return ()
        users = [
            user
            for user in claim.status.reserved_for
            if self._still_uses(user, f"{claim.namespace}/{user.name}", cache)
        ]
        return release_claim(claim, users, is_orphan=_is_of_finished_pod(claim, cache))

    def _still_uses(self, user: ClaimConsumer, key: str, cache: InformerCache) -> bool:
        if user.resource == "podgroups" and self._has_groups:
            return _is_there(user.uid, key, cache)
        return user.resource != "pods" or is_consumer(user.uid, key, cache)


def release_claim(claim: ResourceClaim, users: list[ClaimConsumer], *, is_orphan: bool) -> Iterator[ControllerAction]:
    """Decide about one claim, given who still uses it, and whether the pod it was made for has ended."""
    is_unused = claim.is_terminating and not users and claim.status.allocation is not None
    if len(users) < len(claim.status.reserved_for) or is_unused:
        reserved_for = [_as_data(user) for user in users]
        status: Data = {"reservedFor": reserved_for or None}
        if not users:
            # An unused claim is deallocated; prepared devices belong to the allocation.
            status |= {"allocation": None, "devices": None}
        yield Patch(claim, {"status": status}, "status", if_unchanged=True)
        return
    if users or claim.status.allocation is not None:
        return
    if PROTECTION in claim.metadata.finalizers and claim.is_terminating:
        # Only now: a scheduler adds the finalizer and the allocation in two separate writes.
        finalizers = [name for name in claim.metadata.finalizers if name != PROTECTION]
        yield Patch(claim, {"metadata": {"finalizers": finalizers}}, if_unchanged=True)
    elif is_orphan and not claim.is_terminating:
        yield Delete(claim)


def is_consumer(uid: str, key: str, cache: InformerCache) -> bool:
    """Return whether a pod exists and still uses its reservation."""
    pod = cache[Pod].get(key)
    return pod is not None and pod.uid == uid and not pod.is_finished


def _is_there(uid: str, key: str, cache: InformerCache) -> bool:
    group = cache[PodGroup].get(key)
    return group is not None and group.uid == uid


def _may_use_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def _is_of_finished_pod(claim: ResourceClaim, cache: InformerCache) -> bool:
    owner = claim.metadata.controller
    if owner is None or owner.kind != "Pod":
        return False
    pod = cache[Pod].get(f"{claim.namespace}/{owner.name}")
    return pod is not None and pod.uid == owner.uid and pod.is_finished


def _as_data(user: ClaimConsumer) -> Data:
    return {"apiGroup": user.api_group, "resource": user.resource, "name": user.name, "uid": user.uid}
