"""Builders of claims, volumes and related objects, for tests and examples."""

from collections.abc import Iterable, Mapping
from typing import Any

from moorage.kube.api.claims import BIND_COMPLETED, SELECTED_NODE
from moorage.kube.api.csi_migration import MIGRATED_PLUGINS
from moorage.kube.api.meta import ObjectMeta, OwnerReference
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import Quantity
from moorage.kube.api.selectors import LabelSelector, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.kube.api.storage import (
    CSIDriver,
    CSIDriverSpec,
    CSINode,
    CSINodeAllocatable,
    CSINodeDriver,
    CSINodeSpec,
    CSIPersistentVolume,
    CSIStorageCapacity,
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeClaimStatus,
    PersistentVolumeSpec,
    PersistentVolumeStatus,
    StorageClass,
    TopologySelectorLabelRequirement,
    TopologySelectorTerm,
    VolumeAttachment,
    VolumeAttachmentSource,
    VolumeAttachmentSpec,
    VolumeNodeAffinity,
)
from moorage.kube.api.volume import ClaimVolume, EphemeralVolume, PersistentVolumeClaimSpec, Volume, VolumeResources


def claim_volume(name: str) -> Volume:
    """Build a pod volume for a claim."""
    return Volume(name=name or "nameless", persistent_volume_claim=ClaimVolume(claim_name=name))


def ephemeral_volume(name: str) -> Volume:
    """Build a generic ephemeral volume."""
    return Volume(name=name, ephemeral=EphemeralVolume())


def make_claim(
    name: str = "claim",
    *,
    namespace: str = "default",
    bound_to: str = "",
    volume_name: str = "",
    storage_class: str | None = None,
    request: Quantity | None = "1Gi",
    selected_node: str = "",
    phase: str = "",
    owner: Pod | None = None,
    terminating: bool = False,
    access_modes: Iterable[str] = ("ReadWriteOnce",),
    annotations: Mapping[str, str] | None = None,
    version: str = "1",
    **spec: Any,
) -> PersistentVolumeClaim:
    """Build a claim. With ``bound_to`` it is bound to that volume.

    >>> make_claim("data", bound_to="disk-1").spec.volume_name
    'disk-1'
    """
    notes = dict(annotations or {})
    if bound_to:
        notes[BIND_COMPLETED] = "yes"
    if selected_node:
        notes[SELECTED_NODE] = selected_node
    owners = (OwnerReference(kind="Pod", name=owner.name, uid=owner.uid, controller=True),) if owner else ()
    return PersistentVolumeClaim(
        metadata=ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"claim/{namespace}/{name}",
            annotations=notes,
            owner_references=owners,
            resource_version=version,
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
        ),
        spec=PersistentVolumeClaimSpec(
            access_modes=tuple(access_modes),
            resources=VolumeResources(requests={} if request is None else {"storage": request}),
            volume_name=bound_to or volume_name,
            storage_class_name=storage_class,
            **spec,
        ),
        status=PersistentVolumeClaimStatus(phase=phase or ("Bound" if bound_to else "Pending")),
    )


def make_volume(
    name: str = "volume",
    *,
    capacity: Quantity = "1Gi",
    storage_class: str = "",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    reach: NodeSelector | None = None,
    claim: PersistentVolumeClaim | None = None,
    claim_ref: ObjectReference | None = None,
    phase: str = "Available",
    driver: str = "",
    handle: str = "",
    access_modes: Iterable[str] = ("ReadWriteOnce",),
    terminating: bool = False,
    version: str = "1",
    **spec: Any,
) -> PersistentVolume:
    """Build a persistent volume. ``reach`` is its node affinity, ``claim`` the claim it is bound to."""
    if claim is not None:
        claim_ref = ObjectReference(namespace=claim.namespace, name=claim.name, uid=claim.uid)
    return PersistentVolume(
        metadata=ObjectMeta(
            name=name,
            uid=f"volume/{name}",
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            resource_version=version,
            deletion_timestamp="2026-01-01T00:00:00Z" if terminating else None,
        ),
        spec=PersistentVolumeSpec(
            capacity={"storage": capacity},
            access_modes=tuple(access_modes),
            storage_class_name=storage_class,
            node_affinity=None if reach is None else VolumeNodeAffinity(required=reach),
            claim_ref=claim_ref,
            csi=CSIPersistentVolume(driver=driver, volume_handle=handle or name) if driver else None,
            **spec,
        ),
        status=PersistentVolumeStatus(phase=phase),
    )


def reachable(**labels: str) -> NodeSelector:
    """Select nodes by labels, each with comma-separated values. ``zone``, ``region``, ``host`` are the usual keys.

    >>> reachable(zone="a,b").node_selector_terms[0].match_expressions[0].values
    ('a', 'b')
    """
    return NodeSelector(
        node_selector_terms=(
            NodeSelectorTerm(
                match_expressions=tuple(
                    NodeSelectorRequirement(key=_SHORT.get(key, key), operator="In", values=tuple(text.split(",")))
                    for key, text in labels.items()
                )
            ),
        )
    )


def make_class(
    name: str = "class",
    *,
    provisioner: str = "example.com/disks",
    mode: str | None = "WaitForFirstConsumer",
    topologies: Iterable[Mapping[str, str]] = (),
) -> StorageClass:
    """Build a storage class. Each of ``topologies`` is a term of labels and comma-separated values."""
    return StorageClass(
        metadata=ObjectMeta(name=name, uid=f"class/{name}", resource_version="1"),
        provisioner=provisioner,
        volume_binding_mode=mode,
        allowed_topologies=tuple(
            TopologySelectorTerm(
                match_label_expressions=tuple(
                    TopologySelectorLabelRequirement(key=_SHORT.get(key, key), values=tuple(text.split(",")))
                    for key, text in term.items()
                )
            )
            for term in topologies
        ),
    )


def make_csi_node(name: str, *, limits: Mapping[str, int | None] | None = None, migrated: str | None = None) -> CSINode:
    """Build a CSINode with drivers of these limits. ``None`` is a driver without one."""
    return CSINode(
        metadata=ObjectMeta(name=name, annotations={} if migrated is None else {MIGRATED_PLUGINS: migrated}),
        spec=CSINodeSpec(
            drivers=tuple(
                CSINodeDriver(name=driver, allocatable=None if limit is None else CSINodeAllocatable(count=limit))
                for driver, limit in (limits or {}).items()
            )
        ),
    )


def make_csi_driver(name: str, *, watches_capacity: bool | None = None, must_run: bool | None = None) -> CSIDriver:
    """Build a CSIDriver that watches storage pools, or wants pods only where it runs."""
    return CSIDriver(
        metadata=ObjectMeta(name=name),
        spec=CSIDriverSpec(storage_capacity=watches_capacity, prevent_pod_scheduling_if_missing=must_run),
    )


def make_pool(
    name: str = "pool",
    *,
    storage_class: str = "class",
    capacity: Quantity | None = None,
    largest: Quantity | None = None,
    labels: Mapping[str, str] | None = None,
    out_of_reach: bool = False,
) -> CSIStorageCapacity:
    """Build a storage pool for nodes with these labels; without any, for all nodes."""
    match_labels = {_SHORT.get(key, key): text for key, text in (labels or {}).items()}
    return CSIStorageCapacity(
        metadata=ObjectMeta(name=name, namespace="storage"),
        storage_class_name=storage_class,
        node_topology=None if out_of_reach else LabelSelector(match_labels=match_labels),
        capacity=capacity,
        maximum_volume_size=largest,
    )


def make_attachment(name: str, *, node: str, volume: str | None, attacher: str) -> VolumeAttachment:
    """Build a VolumeAttachment."""
    return VolumeAttachment(
        metadata=ObjectMeta(name=name),
        spec=VolumeAttachmentSpec(
            attacher=attacher, node_name=node, source=VolumeAttachmentSource(persistent_volume_name=volume)
        ),
    )


_SHORT = {
    "zone": "topology.kubernetes.io/zone",
    "region": "topology.kubernetes.io/region",
    "host": "kubernetes.io/hostname",
}
