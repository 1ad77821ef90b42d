"""Which claims of a stateful set go with it or with its pods, and which stay: its retention policy.

Garbage collection does the rest: a claim that is to go names the one whose end it shares as its owner.
"""

from collections.abc import Iterable, Iterator

from moorage.cluster.controllers.actions import ControllerAction, Patch
from moorage.cluster.controllers.ownership import owner_reference, reference_data
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolumeClaim
from moorage.kube.api.workloads import StatefulSet


def claim_owners(
    stateful_set: StatefulSet, pod: Pod | None, claims: Iterable[PersistentVolumeClaim], *, is_surplus: bool
) -> Iterator[ControllerAction]:
    """Have the claims of one ordinal named after whoever takes them along; ``is_surplus`` if it was scaled away."""
    policy = stateful_set.spec.persistent_volume_claim_retention_policy
    owner: KubeObject | None = None
    if is_surplus and policy.when_scaled == "Delete":
        if pod is None:
            return
        owner = pod
    elif policy.when_deleted == "Delete":
        owner = stateful_set
    for claim in claims:
        found = [item for item in claim.metadata.owner_references if item.kind in _KINDS]
        if [item.uid for item in found] == ([owner.uid] if owner is not None else []):
            continue
        kept = [reference_data(item) for item in claim.metadata.owner_references if item.kind not in _KINDS]
        wanted = [*kept, *([owner_reference(owner)] if owner is not None else [])]
        yield Patch(claim, {"metadata": {"ownerReferences": wanted}}, if_unchanged=True)


_KINDS = frozenset(BY_TYPE[kind].name for kind in (StatefulSet, Pod))
