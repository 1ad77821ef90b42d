"""In-tree disks as the CSI drivers that took them over see them: driver names, volume handles and topology keys."""

import re
from collections.abc import Callable
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

from msgspec import Struct
from msgspec.structs import replace

from moorage.common.errors import MigrationError
from moorage.kube.api.node import BETA_REGION_LABEL, BETA_ZONE_LABEL, REGION_LABEL, ZONE_LABEL
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.kube.api.storage import (
    CSINode,
    CSIPersistentVolume,
    PersistentVolume,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
)
from moorage.kube.api.volume import Volume

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
ZONE_DELIMITER: Final = "__"
_UNSPECIFIED: Final = "UNSPECIFIED"
_EBS_ID: Final = re.compile(r"vol-[^/]*\Z")


class Migration(Struct, frozen=True):
    """An in-tree volume plugin that was replaced by a CSI driver.

    ``source`` is the field of volumes and pods that names a disk. ``handle`` returns the driver's volume handle from it
    and the volume's labels (empty for inline disks). ``zone_key`` is the zone label in the driver's topology.
    """

    plugin: str
    driver: str
    source: str
    handle: Callable[[Any, dict[str, str]], str]
    zone_key: str | None = None

    def csi_name(self, volume: PersistentVolumeSpec | Volume, labels: dict[str, str] | None = None) -> "CSIName":
        """Name a volume as the CSI driver does. Raise :class:`MigrationError` where that cannot be done."""
        return CSIName(self.driver, self.handle(getattr(volume, self.source), labels or {}))


class CSIName(NamedTuple):
    """A volume as CSI knows it."""

    driver: str
    handle: str


def find_migration(volume: PersistentVolumeSpec | Volume) -> Migration | None:
    """Find the in-tree plugin that a volume belongs to, if its volumes are served by CSI now."""
    for item in MIGRATIONS:  # a plain loop: a pod may have 50,000 volumes
        if getattr(volume, item.source) is not None:
            return item
    return None


def in_line_driver(volume: Volume) -> str | None:
    """Return the CSI driver that upstream translates a disk named in line to, even if it counts no volumes."""
    if volume.azure_file is not None:
        return "file.csi.azure.com"
    if volume.vsphere_volume is not None:
        return "csi.vsphere.vmware.com"
    migration = find_migration(volume)
    return None if migration is None else migration.driver


def list_migrated_plugins(csi_node: CSINode | None) -> str:
    """Return the plugins with volumes that CSI serves on a node, from the node's annotation."""
    return "" if csi_node is None else csi_node.annotations.get(MIGRATED_PLUGINS, "")


def translated(volume: PersistentVolume, migration: Migration) -> PersistentVolume:
    """Return a volume as a CSI volume with the driver's topology. Raise MigrationError if it has no CSI name."""
    name = migration.csi_name(volume.spec, volume.labels)
    if migration.zone_key is not None:
        volume = _with_topology(volume, migration.zone_key)
    source = CSIPersistentVolume(driver=name.driver, volume_handle=name.handle)
    return replace(volume, spec=replace(volume.spec, csi=source, **{migration.source: None}))


def _with_topology(volume: PersistentVolume, zone_key: str) -> PersistentVolume:
    """Translate zone requirements to the driver's key; take the zone from the volume's labels if necessary."""
    affinity = volume.spec.node_affinity
    old = affinity.required.node_selector_terms if affinity is not None and affinity.required is not None else ()
    keys = {item.key for term in old for item in term.match_expressions if item.values}
    zone_label, region_label = _labels_in_use(old, volume.labels)
    terms = old
    if zone_label in keys:
        terms = _rename(terms, zone_label, zone_key)
    elif zones := sorted({zone.strip() for zone in volume.labels.get(zone_label, "").split(ZONE_DELIMITER)} - {""}):
        requirement = NodeSelectorRequirement(key=zone_key, operator="In", values=tuple(zones))
        terms = tuple(
            replace(term, match_expressions=(*term.match_expressions, requirement))
            for term in terms or (NodeSelectorTerm(),)
        )
    if region_label == BETA_REGION_LABEL and region_label in keys:
        terms = _rename(terms, region_label, REGION_LABEL)
    if terms == old:
        return volume
    affinity = VolumeNodeAffinity(required=NodeSelector(node_selector_terms=terms))
    return replace(volume, spec=replace(volume.spec, node_affinity=affinity))


Terms = tuple[NodeSelectorTerm, ...]


def _labels_in_use(terms: Terms, labels: dict[str, str]) -> tuple[str, str]:
    """Return which generation of zone and region labels a volume uses. Its affinity counts before its labels."""
    keys = {item.key for term in terms for item in term.match_expressions}
    for label_keys in (keys, labels):
        if ZONE_LABEL in label_keys:
            return ZONE_LABEL, REGION_LABEL
        if BETA_ZONE_LABEL in label_keys:
            return BETA_ZONE_LABEL, BETA_REGION_LABEL
    return ZONE_LABEL, REGION_LABEL


def _rename(terms: Terms, old: str, new: str) -> Terms:
    def rename(items: tuple[NodeSelectorRequirement, ...]) -> tuple[NodeSelectorRequirement, ...]:
        return tuple(replace(item, key=new) if item.key == old else item for item in items)

    return tuple(replace(term, match_expressions=rename(term.match_expressions)) for term in terms)


def _ebs_handle(source: Any, _labels: dict[str, str]) -> str:
    name: str = source.volume_id
    if not name.startswith("aws://"):
        return name
    handle = urlsplit(name).path.strip("/")
    if not _EBS_ID.match(handle):
        raise MigrationError(
            f"failed to translate Kubernetes ID to EBS Volume ID Invalid format for AWS volume ({name})"
        )
    return handle


def _gce_handle(source: Any, labels: dict[str, str]) -> str:
    zones = (labels.get(BETA_ZONE_LABEL) or labels.get(ZONE_LABEL, "")).split(ZONE_DELIMITER)
    if len(zones) > 1:
        return f"projects/{_UNSPECIFIED}/regions/{_gce_region(zones)}/disks/{source.pd_name}"
    return f"projects/{_UNSPECIFIED}/zones/{zones[0] or _UNSPECIFIED}/disks/{source.pd_name}"


def _gce_region(zones: list[str]) -> str:
    for zone in zones:
        if zone.count("-") != 2:
            raise MigrationError(
                "failed to get region from zones: zone in unexpected format, expected: {locale}-{region}-{zone}, "
                f"got: {zone}"
            )
    regions = {zone.rpartition("-")[0] for zone in zones}
    if len(regions) != 1:
        region_map = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise MigrationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{region_map}]"
        )
    return regions.pop()


def _azure_handle(source: Any, _labels: dict[str, str]) -> str:
    if source.kind is not None and source.kind.lower() != "managed":
        raise MigrationError(f"kind({source.kind}) is not supported in csi migration")
    return str(source.disk_uri)


def _volume_id(source: Any, _labels: dict[str, str]) -> str:
    return str(source.volume_id)


MIGRATIONS: Final = tuple(
    Migration(f"kubernetes.io/{plugin}", driver, source, handle, zone_key)
    for plugin, driver, source, handle, zone_key in (
        ("aws-ebs", "ebs.csi.aws.com", "aws_elastic_block_store", _ebs_handle, "topology.ebs.csi.aws.com/zone"),
        ("gce-pd", "pd.csi.storage.gke.io", "gce_persistent_disk", _gce_handle, "topology.gke.io/zone"),
        ("azure-disk", "disk.csi.azure.com", "azure_disk", _azure_handle, None),
        ("cinder", "cinder.csi.openstack.org", "cinder", _volume_id, "topology.cinder.csi.openstack.org/zone"),
        ("portworx-volume", "pxd.portworx.com", "portworx_volume", _volume_id, None),
    )
)
BY_PLUGIN: Final = {migration.plugin: migration for migration in MIGRATIONS}
UNCOUNTED_PLUGINS: Final = frozenset({"kubernetes.io/azure-file", "kubernetes.io/vsphere-volume"})
"""Plugins that have a translation upstream, although the scheduler treats their migration as disabled."""
