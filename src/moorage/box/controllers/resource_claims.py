"""Claims to devices: made from templates for the pods that ask, and given back when nobody uses them."""

from collections.abc import Iterable, Iterator
from typing import Final

from moorage.api.devices import ClaimConsumer, ResourceClaim, ResourceClaimTemplate
from moorage.api.meta import KubeObject
from moorage.api.pod import Pod, PodResourceClaim
from moorage.api.struct import Data
from moorage.box.controllers.actions import ControllerAction, Create, Delete, Patch
from moorage.box.controllers.ownership import owner_reference
from moorage.box.controllers.view import View

MADE_FOR: Final = "resource.kubernetes.io/pod-claim-name"
PROTECTION: Final = "resource.kubernetes.io/delete-protection"


class PodClaimController:
    """Makes the claims of pods from templates."""

    name = "claims of pods"
    kinds = (Pod, ResourceClaim, ResourceClaimTemplate)
    pause = 0.0

    def affected(self, thing: KubeObject, view: View) -> Iterable[str]:
        """Look at a pod that asks for claims, when it or its claim changes or a template appears."""
        match thing:
            case Pod():
                return (thing.key,) if thing.spec.resource_claims else ()
            case ResourceClaim():
                owner = thing.metadata.controller
                return (f"{thing.namespace}/{owner.name}",) if owner is not None and owner.kind == "Pod" else ()
        pods = view[Pod].in_namespace(thing.namespace)
        return [pod.key for pod in pods if any(c.resource_claim_template_name for c in pod.spec.resource_claims)]

    def reconcile(self, key: str, view: View) -> Iterable[ControllerAction]:
        """Make the claims a pod lacks and write down which are whose."""
        pod = view[Pod].get(key)
        if pod is None or pod.is_terminating or pod.is_finished:
            return ()
        return claims_for(pod, view)


def claims_for(pod: Pod, view: View) -> Iterator[ControllerAction]:
    """Decide about the claims of one pod: its status names them when all are there."""
    made = {
        claim.annotations[MADE_FOR]: claim
        for claim in view[ResourceClaim].owned_by(pod.uid)
        if MADE_FOR in claim.annotations and not claim.is_terminating
    }
    wanted = [entry for entry in pod.spec.resource_claims if entry.resource_claim_template_name]
    for entry in wanted:
        template = view[ResourceClaimTemplate].get(f"{pod.namespace}/{entry.resource_claim_template_name}")
        if entry.name not in made and template is not None:
            yield Create(ResourceClaim, claim_from(template, pod, entry))
    statuses = [
        {"name": entry.name, "resourceClaimName": made[entry.name].name} for entry in wanted if entry.name in made
    ]
    known = [{"name": s.name, "resourceClaimName": s.resource_claim_name} for s in pod.status.resource_claim_statuses]
    if len(statuses) == len(wanted) and statuses and statuses != known:
        yield Patch(pod, {"status": {"resourceClaimStatuses": statuses}}, "status")


def claim_from(template: ResourceClaimTemplate, pod: Pod, entry: PodResourceClaim) -> Data:
    """Make a claim for one entry of a pod."""
    given = template.spec.metadata
    return {
        "metadata": {
            "generateName": f"{pod.name}-{entry.name}-",
            "namespace": pod.namespace,
            "labels": dict(given.get("labels") or {}),
            "annotations": {**(given.get("annotations") or {}), MADE_FOR: entry.name},
            "ownerReferences": [owner_reference(pod)],
        },
        "spec": template.spec.spec,
    }


class ClaimUseController:
    """Takes back what pods that are gone or have ended had reserved."""

    name = "use of claims"
    kinds = (ResourceClaim, Pod)
    pause = 0.0

    def affected(self, thing: KubeObject, view: View) -> Iterable[str]:
        """Look at a claim when it changes, or a pod that may have used it ends."""
        if isinstance(thing, ResourceClaim):
            return (thing.key,)
        if not isinstance(thing, Pod) or not _may_use_claims(thing):
            return ()
        if is_consumer(thing.uid, thing.key, view):
            return ()
        claims = view[ResourceClaim].in_namespace(thing.namespace)
        return [claim.key for claim in claims if any(user.uid == thing.uid for user in claim.status.reserved_for)]

    def reconcile(self, key: str, view: View) -> Iterable[ControllerAction]:
        """Drop reservations that are over; deallocate, let go or delete a claim that nobody uses."""
        claim = view[ResourceClaim].get(key)
        if claim is None:
            return ()
        users = [
            user
            for user in claim.status.reserved_for
            if user.resource != "pods" or is_consumer(user.uid, f"{claim.namespace}/{user.name}", view)
        ]
        return give_back(claim, users, is_orphan=_is_of_finished_pod(claim, view))


def give_back(claim: ResourceClaim, users: list[ClaimConsumer], *, is_orphan: bool) -> Iterator[ControllerAction]:
    """Decide about one claim, given who still uses it, and whether the pod it was made for has ended."""
    is_unused = claim.is_terminating and not users and claim.status.allocation is not None
    if len(users) < len(claim.status.reserved_for) or is_unused:
        kept = [_as_data(user) for user in users]
        status: Data = {"reservedFor": kept or None}
        if not users:
            # What nobody uses is free for others; devices prepared under the allocation go with it.
            status |= {"allocation": None, "devices": None}
        yield Patch(claim, {"status": status}, "status", if_unchanged=True)
        return
    if users or claim.status.allocation is not None:
        return
    if PROTECTION in claim.metadata.finalizers and claim.is_terminating:
        # Only then: a scheduler adds the finalizer in a write of its own, and the allocation in the next.
        others = [name for name in claim.metadata.finalizers if name != PROTECTION]
        yield Patch(claim, {"metadata": {"finalizers": others}}, if_unchanged=True)
    elif is_orphan and not claim.is_terminating:
        yield Delete(claim)


def is_consumer(uid: str, key: str, view: View) -> bool:
    """Return whether a pod is there and still uses what was reserved for it."""
    pod = view[Pod].get(key)
    return pod is not None and pod.uid == uid and not pod.is_finished


def _may_use_claims(pod: Pod) -> bool:
    return bool(pod.spec.resource_claims) or pod.status.extended_resource_claim_status is not None


def _is_of_finished_pod(claim: ResourceClaim, view: View) -> bool:
    owner = claim.metadata.controller
    if owner is None or owner.kind != "Pod":
        return False
    pod = view[Pod].get(f"{claim.namespace}/{owner.name}")
    return pod is not None and pod.uid == owner.uid and pod.is_finished


def _as_data(user: ClaimConsumer) -> Data:
    return {"apiGroup": user.api_group, "resource": user.resource, "name": user.name, "uid": user.uid}
