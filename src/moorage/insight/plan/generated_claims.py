"""Claims that belong to one pod, from templates of devices and of ephemeral volumes: they end with their pod.

For the replacement of an evicted pod, Kubernetes creates new claims from the same templates. They have neither devices
nor a volume until the replacement is scheduled. Claims of StatefulSets do not belong to pods, and remain.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from msgspec import to_builtins

from moorage.insight.whatif.edits import CreateObject, DeleteObject, ObjectId, PatchObject, put
from moorage.insight.whatif.session import Session
from moorage.kube.api.pod import Pod
from moorage.scheduler.plugins.dynamic_resources.dra_manager import DRA_MANAGER

DEVICES: Final = "ResourceClaim"
VOLUME: Final = "PersistentVolumeClaim"
BINDING: Final = (
    "pv.kubernetes.io/bind-completed",
    "pv.kubernetes.io/bound-by-controller",
    "volume.kubernetes.io/selected-node",
)
LATE: Final = "WaitForFirstConsumer"


class GeneratedClaims:
    """The claims of each pod that end with it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._by_pod: dict[str, list[ObjectId]] = {}
        for kind in (DEVICES, VOLUME):
            for target in session.objects.known(kind):
                for owner in session.objects.content(target)["metadata"].get("ownerReferences") or ():
                    if owner.get("kind") == "Pod":
                        self._by_pod.setdefault(str(owner.get("uid")), []).append(target)

    def renew(self, pod: Pod, fresh: dict[str, Any], previous: Mapping[str, Any]) -> dict[str, Any]:
        """Replace the claims of an evicted pod by new ones. Return the new pod, whose status names its claims."""
        for target in self._by_pod.get(pod.uid, ()):
            content = self._session.objects.content(target)
            renewed = _without_devices(content) if target.kind == DEVICES else self._without_volume(content)
            if renewed is not None:
                volume = ObjectId("PersistentVolume", "", str((content.get("spec") or {}).get("volumeName")))
                if volume in self._session.objects:
                    self._session.apply(DeleteObject(volume))  # it is deleted, or keeps the data of the former claim
                self._session.apply(DeleteObject(target), CreateObject(renewed))
        statuses = (previous.get("status") or {}).get("resourceClaimStatuses")
        is_generated = any(target.kind == DEVICES for target in self._by_pod.get(pod.uid, ()))
        return {**fresh, "status": {"resourceClaimStatuses": statuses}} if statuses and is_generated else fresh

    def _without_volume(self, content: dict[str, Any]) -> dict[str, Any] | None:
        """Return an unbound claim, or ``None`` if a volume is provisioned without waiting for the pod."""
        spec = content.get("spec") or {}
        storage_class, _ = self._session.objects.remember(
            ObjectId("StorageClass", "", str(spec.get("storageClassName")))
        )
        if storage_class is None or storage_class.content.get("volumeBindingMode") != LATE:
            return None
        metadata = content["metadata"]
        annotations = {key: text for key, text in (metadata.get("annotations") or {}).items() if key not in BINDING}
        return {
            **{key: item for key, item in content.items() if key != "status"},
            "metadata": {**metadata, "annotations": annotations},
            "spec": {key: item for key, item in spec.items() if key != "volumeName"},
        }

    def find_allocations(self, pods: Sequence[Pod]) -> dict[ObjectId, dict[str, Any]]:
        """Return the devices that placed pods have reserved, by claim."""
        targets = [target for pod in pods for target in self._by_pod.get(pod.uid, ()) if target.kind == DEVICES]
        if not targets:
            return {}
        manager, _ = self._session.scheduler.services.shared[DRA_MANAGER]
        allocations = {}
        for target in targets:
            claim = self._session.objects.find(target)
            result = None if claim is None else manager.claims.pending_allocation(claim.uid)
            if result is not None:
                allocations[target] = to_builtins(result)
        return allocations

    def allocate(self, allocations: Mapping[ObjectId, Mapping[str, Any]]) -> None:
        """Write the devices of placed pods to their claims, so that other pods do not get them."""
        for target, allocation in allocations.items():
            content = self._session.objects.content(target)
            patch = put(content, ("status",), {**(content.get("status") or {}), "allocation": dict(allocation)})
            self._session.apply(PatchObject(target, (patch,)))


def _without_devices(content: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in content.items() if key != "status"}
