"""Volumes of a pod: sources that matter for placement, and the names of other sources."""

from typing import Final

import msgspec

from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.quantity import ResourceList
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.api.struct import Int32, KubeStruct


class ClaimVolume(KubeStruct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class VolumeResources(KubeStruct, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class PersistentVolumeClaimSpec(KubeStruct, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResources = VolumeResources()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class ClaimTemplate(KubeStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolume(KubeStruct, frozen=True):
    """A generic ephemeral volume. Its claim is named ``<pod>-<volume>``."""

    volume_claim_template: ClaimTemplate | None = None


class GCEPersistentDisk(KubeStruct, frozen=True):
    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStore(KubeStruct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class RBD(KubeStruct, frozen=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class ISCSI(KubeStruct, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    read_only: bool = False


class AzureDisk(KubeStruct, frozen=True):
    disk_name: str = ""
    disk_uri: str = msgspec.field(default="", name="diskURI")
    kind: str | None = None


class VolumeById(KubeStruct, frozen=True):
    volume_id: str = msgspec.field(default="", name="volumeID")


class CSIVolume(KubeStruct, frozen=True):
    driver: str = ""
    read_only: bool | None = None


class ImageVolume(KubeStruct, frozen=True):
    reference: str = ""


class PodCertificate(KubeStruct, frozen=True):
    key_type: str = ""


class ProjectedSource(KubeStruct, frozen=True):
    """One source of a projected volume; only certificates matter for placement."""

    pod_certificate: PodCertificate | None = None


class ProjectedVolume(KubeStruct, frozen=True):
    sources: tuple[ProjectedSource, ...] = ()


class Present(KubeStruct, frozen=True):
    """A source with content that is irrelevant for scheduling."""


class Volume(KubeStruct, frozen=True):
    """One volume of a pod; sources that never limit placement are only noted."""

    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    gce_persistent_disk: GCEPersistentDisk | None = None
    aws_elastic_block_store: AWSElasticBlockStore | None = None
    rbd: RBD | None = None
    iscsi: ISCSI | None = None
    azure_disk: AzureDisk | None = None
    cinder: VolumeById | None = None
    portworx_volume: VolumeById | None = None
    azure_file: Present | None = None
    vsphere_volume: Present | None = None
    csi: CSIVolume | None = None
    image: ImageVolume | None = None
    config_map: Present | None = None
    secret: Present | None = None
    projected: ProjectedVolume | None = None
    empty_dir: Present | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the volume is available on each node: it is empty, or made from objects of the API."""
        return msgspec.structs.replace(self, name="", projected=None) in _PLAIN


_PLAIN: Final = (
    Volume(),
    Volume(config_map=Present()),
    Volume(secret=Present()),
    Volume(empty_dir=Present()),
)
