"""Persistent volumes: bind claims to volumes, and provision fake volumes dynamically.

A claim of a class with WaitForFirstConsumer is bound after the scheduler has selected the node.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from moorage.cluster.controllers.actions import ControllerAction, Create, Delete, Patch, status_actions
from moorage.cluster.controllers.base import BaseController
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.ownership import is_active, owner_keys, owner_reference, without_finalizer
from moorage.kube.api import claims
from moorage.kube.api.claims import BIND_COMPLETED, BOUND_BY_CONTROLLER, NO_PROVISIONER, SELECTED_NODE, claim_use
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import HOSTNAME_LABEL, REGION_LABEL, ZONE_LABEL, Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import label_matcher
from moorage.kube.api.storage import (
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttributesClass,
    find_default_class,
)
from moorage.kube.api.struct import Data

IN_USE: Final = "kubernetes.io/pvc-protection"
VOLUME_IN_USE: Final = "kubernetes.io/pv-protection"
CLASS_IN_USE: Final = "kubernetes.io/vac-protection"
PROVISIONERS: Final = ("volume.kubernetes.io/storage-provisioner", "volume.beta.kubernetes.io/storage-provisioner")
"""Annotations on claims that name the provisioner."""
PROVISIONED_BY: Final = "pv.kubernetes.io/provisioned-by"
TOPOLOGY: Final = "moorage.io/topology"
"""Storage class parameter: volumes are accessible from one ``host``, one ``zone`` (default) or ``any`` node."""


class ClaimController(BaseController):
    """Finds or creates a volume for every claim."""

    name = "volume claims"
    kinds = (PersistentVolumeClaim, PersistentVolume, StorageClass, Node, Pod)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        match obj:
            case PersistentVolumeClaim():
                return (obj.key,)
            case Pod():
                return [f"{obj.namespace}/{use.name}" for use in claims.claim_uses(obj)]
            case PersistentVolume() if (reference := obj.spec.claim_ref) is not None:
                return (f"{reference.namespace}/{reference.name}",)
            case PersistentVolume() | StorageClass():
                return [claim.key for claim in cache[PersistentVolumeClaim] if not claim.spec.volume_name]
        return ()

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Bind or provision the volume of a claim; release a terminating claim that is not in use."""
        claim = cache[PersistentVolumeClaim].get(key)
        if claim is None:
            return ()
        if not claim.is_terminating:
            return Claiming(claim, cache).actions()
        # A pod without a node does not use its claims yet.
        pods = (pod for pod in cache[Pod].in_namespace(claim.namespace) if pod.node_name and not pod.is_finished)
        is_released = IN_USE in claim.metadata.finalizers and not any(claims.uses_claim(pod, claim) for pod in pods)
        return [without_finalizer(claim, IN_USE)] if is_released else ()


@dataclass(frozen=True, slots=True)
class Claiming:
    """One claim, and the objects that its binding depends on."""

    claim: PersistentVolumeClaim
    cache: InformerCache

    @property
    def storage_class(self) -> StorageClass | None:
        """The class of the claim."""
        return self.cache[StorageClass].get(claims.storage_class_name(self.claim))

    def actions(self) -> Iterator[ControllerAction]:
        """Return the actions for the current state."""
        if self.claim.spec.volume_name:
            return self._complete(self.cache[PersistentVolume].get(self.claim.spec.volume_name))
        # Volumes that refer to the claim were bound to it in advance, by the scheduler or by their creator.
        volumes = self.cache[PersistentVolume]
        volume = next((item for item in volumes if claims.is_bound_to(item, self.claim)), None)
        if volume is None and not self._waits and SELECTED_NODE not in self.claim.annotations:
            # With a selected node, the scheduler would have bound a suitable volume.
            fitting = (item for item in volumes if fits(item, self.claim))
            volume = min(fitting, key=lambda item: (claims.exact_capacity(item), item.name), default=None)
        return self._provision() if volume is None else self._complete(volume)

    @property
    def _waits(self) -> bool:
        """Whether a pod that uses the claim must have a node first."""
        storage_class = self.storage_class
        waits = storage_class is not None and storage_class.volume_binding_mode == claims.WAIT_FOR_FIRST_CONSUMER
        return waits and SELECTED_NODE not in self.claim.annotations

    def _complete(self, volume: PersistentVolume | None) -> Iterator[ControllerAction]:
        """Write the missing sides of a binding."""
        claim = self.claim
        if volume is None:
            if claim.status.phase != "Lost" and BIND_COMPLETED in claim.annotations:
                yield Patch(claim, {"status": {"phase": "Lost"}}, "status")
            return
        reference = volume.spec.claim_ref
        if reference is not None and not claims.is_bound_to(volume, claim):
            return
        if reference is None or not reference.uid:
            # Another claim may bind the volume concurrently: the claim refers to it after this write has succeeded.
            yield Patch(volume, {"spec": {"claimRef": make_reference(claim)}}, if_unchanged=True)
            return
        if volume.status.phase != "Bound":
            yield Patch(volume, {"status": {"phase": "Bound"}}, "status")
        if BIND_COMPLETED not in claim.annotations or not claim.spec.volume_name:
            marks = {BIND_COMPLETED: "yes"} | ({} if claim.spec.volume_name else {BOUND_BY_CONTROLLER: "yes"})
            yield Patch(claim, {"metadata": {"annotations": marks}, "spec": {"volumeName": volume.name}})
        if claim.status.phase != "Bound":
            capacity, modes = dict(volume.spec.capacity), list(volume.spec.access_modes)
            status = {"phase": "Bound", "accessModes": modes, "capacity": capacity}
            yield Patch(claim, {"status": status}, "status")

    def _provision(self) -> Iterator[ControllerAction]:
        default = find_default_class(self.cache[StorageClass])
        if self.claim.spec.storage_class_name is None and default:
            yield Patch(self.claim, {"spec": {"storageClassName": default}})
            return
        storage_class = self.storage_class
        if storage_class is None or self._waits or storage_class.provisioner in ("", NO_PROVISIONER):
            return
        if any(self.claim.annotations.get(key) != storage_class.provisioner for key in PROVISIONERS):
            # External provisioners recognize their claims by these annotations.
            yield Patch(
                self.claim, {"metadata": {"annotations": dict.fromkeys(PROVISIONERS, storage_class.provisioner)}}
            )
        node = self.cache[Node].get(self.claim.annotations.get(SELECTED_NODE, ""))
        yield Create(PersistentVolume, provisioned(self.claim, storage_class, node))


def fits(volume: PersistentVolume, claim: PersistentVolumeClaim) -> bool:
    """Return whether an available volume satisfies a claim."""
    spec = claim.spec
    return (
        volume.spec.claim_ref is None
        and not volume.is_terminating
        and volume.status.phase in ("", "Pending", "Available")
        and claims.storage_class_name(volume) == claims.storage_class_name(claim)
        and claims.exact_capacity(volume) >= claims.exact_request(claim)
        and set(spec.access_modes) <= set(volume.spec.access_modes)
        and (spec.volume_mode or "Filesystem") == (volume.spec.volume_mode or "Filesystem")
        and (spec.selector is None or label_matcher(spec.selector).matches(volume.labels))
    )


def make_reference(claim: PersistentVolumeClaim) -> Data:
    """Return the reference of a volume to its claim."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "namespace": claim.namespace,
        "name": claim.name,
        "uid": claim.uid,
    }


def provisioned(claim: PersistentVolumeClaim, storage_class: StorageClass, node: Node | None) -> Data:
    """Return a volume of the requested size that is accessible from the selected node."""
    spec: Data = {
        "capacity": {"storage": claim.spec.resources.requests.get("storage", "1Gi")},
        "accessModes": list(claim.spec.access_modes) or ["ReadWriteOnce"],
        "persistentVolumeReclaimPolicy": storage_class.reclaim_policy,
        "storageClassName": storage_class.name,
        "volumeMode": claim.spec.volume_mode or "Filesystem",
        "claimRef": make_reference(claim),
        **_source(storage_class.provisioner, f"pvc-{claim.uid}"),
    }
    terms = _reach(storage_class, node)
    if terms:
        spec["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    annotations = {PROVISIONED_BY: storage_class.provisioner}
    return {"metadata": {"name": f"pvc-{claim.uid}", "annotations": annotations}, "spec": spec}


def _source(provisioner: str, volume: str) -> Data:
    """Return the source of a provisioned volume: names of CSI drivers have no slash."""
    if "/" in provisioner:
        return {"hostPath": {"path": f"/var/lib/provisioned/{volume}", "type": "DirectoryOrCreate"}}
    return {"csi": {"driver": provisioner, "volumeHandle": volume}}


def _reach(storage_class: StorageClass, node: Node | None) -> list[Data]:
    """Return the node selector terms of a volume."""
    if node is None:
        return [
            {"matchExpressions": [_among(item.key, item.values) for item in term.match_label_expressions]}
            for term in storage_class.allowed_topologies
        ]
    topology = storage_class.parameters.get(TOPOLOGY, "zone")
    keys = {"host": (HOSTNAME_LABEL,), "zone": (ZONE_LABEL, REGION_LABEL)}.get(topology, ())
    expressions = [_among(key, (node.labels[key],)) for key in keys if key in node.labels]
    return [{"matchExpressions": expressions}] if expressions else []


def _among(key: str, values: Iterable[str]) -> Data:
    return {"key": key, "operator": "In", "values": list(values)}


class VolumeController(BaseController):
    """Updates the phase of volumes, and reclaims the volumes of deleted claims."""

    name = "volumes"
    kinds = (PersistentVolume, PersistentVolumeClaim)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, PersistentVolumeClaim):
            return (obj.spec.volume_name,) if obj.spec.volume_name else ()
        return (obj.name,)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Set the phase of a volume. Delete it if its claim is deleted and its reclaim policy is Delete."""
        volume = cache[PersistentVolume].get(key)
        if volume is None:
            return ()
        reference = volume.spec.claim_ref
        name = f"{reference.namespace}/{reference.name}" if reference is not None else ""
        claim = cache[PersistentVolumeClaim].get(name)
        if reference is not None and claim is not None and reference.uid in ("", claim.uid):
            return ()
        if volume.is_terminating:
            is_protected = VOLUME_IN_USE in volume.metadata.finalizers
            return [without_finalizer(volume, VOLUME_IN_USE)] if is_protected else ()
        phase = "Available"
        if reference is not None and reference.uid:
            if volume.spec.persistent_volume_reclaim_policy == "Delete" and PROVISIONED_BY in volume.annotations:
                return [Delete(volume)]
            phase = "Released"
        return status_actions(volume, msgspec.to_builtins(volume.status), {"phase": phase})


class AttributesClassController(BaseController):
    """Removes the finalizer of a deleted VolumeAttributesClass that no claim and no volume names."""

    name = "volume attributes classes"
    kinds = (VolumeAttributesClass, PersistentVolumeClaim, PersistentVolume)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, PersistentVolumeClaim | PersistentVolume):
            # A claim or volume without a class may have had one before.
            return tuple(item.name for item in cache[VolumeAttributesClass] if item.is_terminating)
        return (obj.key,)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Remove the finalizer of a class that is not in use."""
        unused = cache[VolumeAttributesClass].get(key)
        if unused is None or not unused.is_terminating or CLASS_IN_USE not in unused.metadata.finalizers:
            return ()
        references = (*cache[PersistentVolumeClaim], *cache[PersistentVolume])
        is_used = any(item.spec.volume_attributes_class_name == key for item in references)
        return () if is_used else [without_finalizer(unused, CLASS_IN_USE)]


class EphemeralVolumeController(BaseController):
    """Creates the claims of pods' ephemeral volumes. Garbage collection deletes them."""

    name = "ephemeral volumes"
    kinds = (Pod, PersistentVolumeClaim)

    def affected(self, obj: KubeObject, cache: InformerCache) -> Iterable[str]:
        if isinstance(obj, Pod):
            return (obj.key,) if any(volume.ephemeral for volume in obj.spec.volumes) else ()
        return owner_keys(obj, Pod)

    def reconcile(self, key: str, cache: InformerCache) -> Iterable[ControllerAction]:
        """Create the missing claims of a pod. If another object owns a claim of that name, the pod remains pending."""
        pod = cache[Pod].get(key)
        if pod is None or not is_active(pod):
            return
        claim_names = {claim.name for claim in cache[PersistentVolumeClaim].in_namespace(pod.namespace)}
        for volume in pod.spec.volumes:
            use, template = claim_use(pod, volume), volume.ephemeral and volume.ephemeral.volume_claim_template
            if not template or use is None or use.name in claim_names:
                continue
            metadata = {
                "name": use.name,
                "namespace": pod.namespace,
                "labels": dict(template.metadata.labels),
                "annotations": dict(template.metadata.annotations),
                "ownerReferences": [owner_reference(pod)],
            }
            yield Create(PersistentVolumeClaim, {"metadata": metadata, "spec": msgspec.to_builtins(template.spec)})
