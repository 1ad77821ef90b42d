"""Uses of claims and disks follow added and removed pods and nodes."""

from moorage.kube.api.volume import AWSElasticBlockStore, ClaimVolume, EphemeralVolume, GCEPersistentDisk, Volume
from moorage.scheduler.state.claim_index import Disk
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

CLAIM = Volume(name="data", persistent_volume_claim=ClaimVolume(claim_name="data"))
EPHEMERAL = Volume(name="data", ephemeral=EphemeralVolume())
EBS = Volume(name="ebs", aws_elastic_block_store=AWSElasticBlockStore(volume_id="vol-1"))
GCE = Volume(name="gce", gce_persistent_disk=GCEPersistentDisk(pd_name="disk-1"))


def test_only_claims_of_pods_on_known_nodes_are_uses() -> None:
    rig = Rig(
        make_node("a"),
        make_pod("one", node="a", volumes=(CLAIM,)),
        make_pod("two", node="a", volumes=(CLAIM, EPHEMERAL)),
        make_pod("lost", node="nowhere", volumes=(CLAIM,)),
        make_pod("elsewhere", node="a", namespace="other", volumes=(CLAIM,)),
    )
    assert rig.claims.uses("default/data") == 2
    assert rig.claims.uses("other/data") == 1
    assert rig.claims.uses("default/two-data") == 0


def test_uses_follow_pods_and_nodes() -> None:
    pod = make_pod("one", node="a", volumes=(CLAIM, EBS))
    rig = Rig(pod)
    assert rig.claims.uses("default/data") == 0
    rig.add(make_node("a"))
    assert rig.claims.uses("default/data") == 1
    assert list(rig.claims.disk_users(Disk("aws", ("vol-1",)))) == [pod]
    rig.cache.remove_node("a")
    assert rig.claims.uses("default/data") == 0
    assert not rig.claims.disk_users(Disk("aws", ("vol-1",)))
    rig.add(make_node("a"))
    rig.cache.remove_pod(pod)
    assert rig.claims.uses("default/data") == 0


def test_a_pod_that_names_one_disk_twice_is_one_user() -> None:
    pod = make_pod("one", node="a", volumes=(GCE, GCE, EBS))
    rig = Rig(make_node("a"), pod)
    assert list(rig.claims.disk_users(Disk("gce", ("disk-1",)))) == [pod]
    rig.cache.remove_pod(pod)
    assert not rig.claims.disk_users(Disk("gce", ("disk-1",)))
