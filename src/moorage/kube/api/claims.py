"""Pods, claims and volumes as they refer to each other: names, classes, owners, and whether they are bound."""

from typing import Final, NamedTuple

from moorage.common.caches import cached
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import nano_value, unit_value
from moorage.kube.api.selectors import NodeMatcher, NodeSelector, NodeTermMatcher, count_characters, node_matcher
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim
from moorage.kube.api.volume import Volume

CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"
BIND_COMPLETED: Final = "pv.kubernetes.io/bind-completed"
BOUND_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
SELECTED_NODE: Final = "volume.kubernetes.io/selected-node"
NO_PROVISIONER: Final = "kubernetes.io/no-provisioner"
WAIT_FOR_FIRST_CONSUMER: Final = "WaitForFirstConsumer"
READ_WRITE_ONCE_POD: Final = "ReadWriteOncePod"
STORAGE: Final = "storage"


class ClaimUse(NamedTuple):
    """A claim of a pod: named in its spec, or created for an ephemeral volume."""

    name: str
    is_ephemeral: bool


def claim_uses(pod: Pod) -> tuple[ClaimUse, ...]:
    """Return the claims of a pod in the order of its volumes, computed once per pod."""
    if not pod.spec.volumes:
        return ()
    cached_uses: tuple[ClaimUse, ...] | None = pod.__dict__.get("_claim_uses")
    if cached_uses is None:
        uses = (claim_use(pod, volume) for volume in pod.spec.volumes)
        cached_uses = pod.__dict__["_claim_uses"] = tuple(use for use in uses if use is not None)
    return cached_uses


def claim_use(pod: Pod, volume: Volume) -> ClaimUse | None:
    """Return the claim behind a volume, if there is one."""
    if volume.persistent_volume_claim is not None:
        return ClaimUse(volume.persistent_volume_claim.claim_name, False)
    if volume.ephemeral is not None:
        return ClaimUse(f"{pod.name}-{volume.name}", True)
    return None


def uses_claim(pod: Pod, claim: PersistentVolumeClaim, *, ephemeral: bool = True) -> bool:
    """Return whether the pod uses a claim; by default claims of ephemeral volumes count."""
    return pod.namespace == claim.namespace and any(
        use.name == claim.name for use in claim_uses(pod) if ephemeral or not use.is_ephemeral
    )


def ownership_problem(claim: PersistentVolumeClaim, pod: Pod) -> str | None:
    """Return the error message if the claim of an ephemeral volume was not created for this pod."""
    owner = claim.metadata.controller
    if claim.namespace == pod.namespace and owner is not None and owner.uid == pod.uid:
        return None
    return f"PVC {claim.key} was not created for pod {pod.key} (pod is not owner)"


def storage_class_name(obj: PersistentVolumeClaim | PersistentVolume) -> str:
    """Return the storage class of a claim or a volume. The legacy annotation takes precedence."""
    return obj.annotations.get(CLASS_ANNOTATION, obj.spec.storage_class_name or "")


def is_fully_bound(claim: PersistentVolumeClaim) -> bool:
    """Return whether both sides of the binding are in place."""
    return bool(claim.spec.volume_name) and BIND_COMPLETED in claim.annotations


def is_bound_to(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether a volume is bound to a claim, or reserved for a claim of its name."""
    reference = volume.spec.claim_ref
    return (
        reference is not None
        and reference.name == claim.name
        and reference.namespace == claim.namespace
        and reference.uid in ("", claim.uid)
    )


def requested_storage(claim: PersistentVolumeClaim) -> int:
    """Return the requested bytes of a claim."""
    return unit_value(claim.spec.resources.requests.get(STORAGE, 0))


def exact_request(claim: PersistentVolumeClaim) -> int:
    """Return the requested size of a claim in billionths of a byte, for exact comparisons."""
    return nano_value(claim.spec.resources.requests.get(STORAGE, 0))


def exact_capacity(volume: PersistentVolume) -> int:
    """Return the capacity of a volume in billionths of a byte."""
    return nano_value(volume.spec.capacity.get(STORAGE, 0))


def find_reach(volume: PersistentVolume) -> NodeMatcher | None:
    """Return a matcher of the nodes that can use a volume, or ``None`` if all nodes can."""
    affinity = volume.spec.node_affinity
    return None if affinity is None or affinity.required is None else _by_labels(affinity.required)


@cached(4096, count_characters)
def _by_labels(selector: NodeSelector) -> NodeMatcher:
    # Upstream passes a node with labels but without a name: matchFields never match.
    return NodeMatcher(
        tuple(
            NodeTermMatcher(term.expressions, matches_nothing=term.matches_nothing)
            for term in node_matcher(selector).terms
        )
    )
