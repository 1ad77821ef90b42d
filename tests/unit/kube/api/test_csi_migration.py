"""In-tree disks under the names and topology of the CSI drivers that took them over."""

import pytest

from moorage.common.errors import MigrationError
from moorage.kube.api.csi_migration import (
    CSIName,
    find_migration,
    in_line_driver,
    translated,
)
from moorage.kube.api.selectors import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.kube.api.storage import PersistentVolume
from moorage.kube.api.volume import AWSElasticBlockStore, AzureDisk, GCEPersistentDisk, Present, Volume, VolumeById
from moorage.testing.storage import make_volume, reachable

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"


def ebs(name: str = "vol-1", **fields: object) -> PersistentVolume:
    return make_volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id=name), **fields)  # type: ignore[arg-type]


def gce(**labels: str) -> PersistentVolume:
    return make_volume(gce_persistent_disk=GCEPersistentDisk(pd_name="d"), labels=labels)


NAMES = {
    "an Amazon disk": (ebs("vol-1"), CSIName("ebs.csi.aws.com", "vol-1")),
    "an Amazon disk named by its zone": (ebs("aws://us-east-1a/vol-1"), CSIName("ebs.csi.aws.com", "vol-1")),
    "an Amazon disk named without a zone": (ebs("aws:///vol-1"), CSIName("ebs.csi.aws.com", "vol-1")),
    "a Google disk of unknown zone": (
        gce(),
        CSIName("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
    ),
    "a Google disk of a zone": (
        gce(**{ZONE: "us-a1-b"}),
        CSIName("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-a1-b/disks/d"),
    ),
    "the old zone label counts first": (
        gce(**{ZONE: "us-a1-b", BETA_ZONE: "us-a1-c"}),
        CSIName("pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/us-a1-c/disks/d"),
    ),
    "a Google disk of several zones": (
        gce(**{ZONE: "us-a1-b__us-a1-c"}),
        CSIName("pd.csi.storage.gke.io", "projects/UNSPECIFIED/regions/us-a1/disks/d"),
    ),
    "an Azure disk": (
        make_volume(azure_disk=AzureDisk(disk_uri="/uri", kind="managed")),
        CSIName("disk.csi.azure.com", "/uri"),
    ),
    "a Cinder volume": (make_volume(cinder=VolumeById(volume_id="c")), CSIName("cinder.csi.openstack.org", "c")),
    "a Portworx volume": (make_volume(portworx_volume=VolumeById(volume_id="p")), CSIName("pxd.portworx.com", "p")),
}


@pytest.mark.parametrize(("volume", "want"), NAMES.values(), ids=NAMES)
def test_names(volume: PersistentVolume, want: CSIName) -> None:
    migration = find_migration(volume.spec)
    assert migration is not None
    assert migration.csi_name(volume.spec, volume.labels) == want
    moved = translated(volume, migration)
    assert moved.spec.csi is not None
    assert (moved.spec.csi.driver, moved.spec.csi.volume_handle) == want
    assert find_migration(moved.spec) is None


UNNAMEABLE = {
    "an Amazon name without a disk": (ebs("aws://zone/disk"), "Invalid format for AWS volume"),
    "zones that are not Google's": (gce(**{ZONE: "a__b"}), "zone in unexpected format"),
    "zones of two regions": (gce(**{ZONE: "us-a1-b__us-a2-c"}), "multiple or no regions gotten from zones"),
    "an Azure disk that is not managed": (
        make_volume(azure_disk=AzureDisk(kind="Shared")),
        r"kind\(Shared\) is not supported in csi migration",
    ),
}


@pytest.mark.parametrize(("volume", "problem"), UNNAMEABLE.values(), ids=UNNAMEABLE)
def test_untranslatable_volume_is_an_error(volume: PersistentVolume, problem: str) -> None:
    migration = find_migration(volume.spec)
    assert migration is not None
    with pytest.raises(MigrationError, match=problem):
        translated(volume, migration)


def terms(**expressions: str) -> NodeSelector:
    return reachable(**expressions)


def two_terms(key: str) -> NodeSelector:
    return NodeSelector(
        node_selector_terms=tuple(
            NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key=key, operator="In", values=(zone,)),))
            for zone in "ab"
        )
    )


TOPOLOGIES = {
    "none": (ebs(), None),
    "a zone in the affinity is the driver's zone": (ebs(reach=terms(zone="a")), terms(**{EBS_ZONE: "a"})),
    "in every term": (ebs(reach=two_terms(ZONE)), two_terms(EBS_ZONE)),
    "a zone with the old label": (ebs(reach=terms(**{BETA_ZONE: "a"})), terms(**{EBS_ZONE: "a"})),
    "an old region becomes the new one": (
        ebs(reach=terms(**{BETA_ZONE: "a", BETA_REGION: "r"})),
        terms(**{EBS_ZONE: "a", REGION: "r"}),
    ),
    "a zone label is as good": (ebs(labels={ZONE: "b__a"}), terms(**{EBS_ZONE: "a,b"})),
    "and is added to existing terms": (
        ebs(labels={ZONE: "a"}, reach=terms(host="n")),
        terms(**{"kubernetes.io/hostname": "n", EBS_ZONE: "a"}),
    ),
    "a zone in the affinity counts before the label": (
        ebs(labels={ZONE: "b"}, reach=terms(zone="a")),
        terms(**{EBS_ZONE: "a"}),
    ),
    "an empty zone label adds nothing": (ebs(labels={ZONE: ""}), None),
    "Azure disks keep theirs": (
        make_volume(azure_disk=AzureDisk(disk_uri="/u"), reach=terms(zone="a")),
        terms(zone="a"),
    ),
}


@pytest.mark.parametrize(("volume", "want"), TOPOLOGIES.values(), ids=TOPOLOGIES)
def test_topology(volume: PersistentVolume, want: NodeSelector | None) -> None:
    migration = find_migration(volume.spec)
    assert migration is not None
    affinity = translated(volume, migration).spec.node_affinity
    assert (affinity.required if affinity else None) == want


def test_disks_named_in_line() -> None:
    volume = Volume(gce_persistent_disk=GCEPersistentDisk(pd_name="d"))
    migration = find_migration(volume)
    assert migration is not None
    assert migration.csi_name(volume).handle == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"
    assert in_line_driver(volume) == "pd.csi.storage.gke.io"
    assert in_line_driver(Volume(azure_file=Present())) == "file.csi.azure.com"
    assert in_line_driver(Volume(vsphere_volume=Present())) == "csi.vsphere.vmware.com"
    assert in_line_driver(Volume(empty_dir=Present())) is None
