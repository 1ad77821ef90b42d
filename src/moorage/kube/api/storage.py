"""Storage: claims, volumes, classes, and CSI data of nodes and capacity."""

from collections.abc import Iterable
from typing import Final

import msgspec

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.quantity import Quantity, ResourceList
from moorage.kube.api.selectors import LabelSelector, NodeSelector
from moorage.kube.api.struct import Int32, KubeStruct
from moorage.kube.api.volume import (
    AWSElasticBlockStore,
    AzureDisk,
    GCEPersistentDisk,
    PersistentVolumeClaimSpec,
    VolumeById,
)


class PersistentVolumeClaimStatus(KubeStruct, frozen=True):
    phase: str = ""
    capacity: ResourceList = {}


class PersistentVolumeClaim(KubeObject, frozen=True, dict=True, gc=True):
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class ObjectReference(KubeStruct, frozen=True):
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    api_version: str = ""
    resource_version: str = ""
    field_path: str = ""


class CSIPersistentVolume(KubeStruct, frozen=True):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False
    fs_type: str = ""


class VolumeNodeAffinity(KubeStruct, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(KubeStruct, frozen=True):
    """The spec of a volume: its capacity and the claim it is bound to."""

    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    persistent_volume_reclaim_policy: str = ""
    csi: CSIPersistentVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    azure_disk: AzureDisk | None = None
    cinder: VolumeById | None = None
    portworx_volume: VolumeById | None = None


class PersistentVolumeStatus(KubeStruct, frozen=True):
    phase: str = ""


class PersistentVolume(KubeObject, frozen=True, dict=True, gc=True):
    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(KubeStruct, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(KubeStruct, frozen=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(KubeObject, frozen=True, dict=True, gc=True):
    provisioner: str = ""
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()
    parameters: dict[str, str] = {}
    reclaim_policy: str = "Delete"


DEFAULT_CLASS: Final = "storageclass.kubernetes.io/is-default-class"


def find_default_class(classes: Iterable[StorageClass]) -> str:
    """Return the name of the newest default storage class, the first one by name. Without one, the text is empty."""
    defaults = [item for item in classes if item.annotations.get(DEFAULT_CLASS) == "true"]
    defaults.sort(key=lambda item: item.name)
    newest = max(defaults, key=lambda item: item.metadata.creation_timestamp or "", default=None)
    return "" if newest is None else newest.name


class VolumeAttributesClass(KubeObject, frozen=True, dict=True, gc=True):
    """Parameters of a driver that claims can change."""

    driver_name: str = ""


class CSINodeAllocatable(KubeStruct, frozen=True):
    count: Int32 | None = None


class CSINodeDriver(KubeStruct, frozen=True):
    name: str = ""
    node_id: str = msgspec.field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: CSINodeAllocatable | None = None


class CSINodeSpec(KubeStruct, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(KubeObject, frozen=True, dict=True, gc=True):
    """The CSI drivers of a node. It has the name of the node."""

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(KubeStruct, frozen=True):
    """The fields of a CSI driver that matter for scheduling."""

    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(KubeObject, frozen=True, dict=True, gc=True):
    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(KubeObject, frozen=True, dict=True, gc=True):
    storage_class_name: str = ""
    node_topology: LabelSelector | None = None
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(KubeStruct, frozen=True):
    persistent_volume_name: str | None = None


class VolumeAttachmentSpec(KubeStruct, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachment(KubeObject, frozen=True, dict=True, gc=True):
    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
