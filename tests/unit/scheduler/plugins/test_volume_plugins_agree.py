"""Both forms of the volume plugins agree on random clusters, in any window, while objects change."""

from collections.abc import Iterable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import CSINode, PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.kube.api.volume import AWSElasticBlockStore, AzureDisk, GCEPersistentDisk, Volume
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import FilterPlugin, PreFilterPlugin
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_volume_limits.plugin import NodeVolumeLimits
from moorage.scheduler.plugins.volume_binding.plugin import VolumeBinding
from moorage.scheduler.plugins.volume_restrictions import VolumeRestrictions
from moorage.scheduler.plugins.volume_zone import VolumeZone
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig, all_at_once, one_at_a_time, score_all_at_once, score_one_at_a_time
from moorage.testing.storage import (
    claim_volume,
    make_attachment,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_pool,
    make_volume,
    reachable,
)

PLUGINS = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
ZONE, BETA_ZONE = "topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
NAMES, ZONES, NUMBERS = st.sampled_from(["n0", "n1", "n2", "n3"]), st.sampled_from("abc"), st.integers(0, 3)
DRIVERS = st.sampled_from(["csi.x", "ebs.csi.aws.com"])
SIZES = st.sampled_from(["1Gi", "2Gi", "3Gi"])
CLASSES = st.sampled_from(["late", "local", "narrow", "aws"])
LABELS = st.dictionaries(st.sampled_from([ZONE, BETA_ZONE, EBS_ZONE]), ZONES, max_size=3)

nodes = st.builds(make_node, NAMES, labels=LABELS)
csi_nodes = st.builds(
    make_csi_node,
    NAMES,
    limits=st.dictionaries(DRIVERS, st.none() | NUMBERS, max_size=2),
    migrated=st.none() | st.just("kubernetes.io/aws-ebs"),
)
disks = st.one_of(
    st.builds(lambda driver, number: {"driver": driver, "handle": f"vol-{number}"}, DRIVERS, NUMBERS),
    st.builds(
        lambda name: {"aws_elastic_block_store": AWSElasticBlockStore(volume_id=name)},
        st.sampled_from(["vol-1", "vol-2", "aws://z/bad"]),
    ),
    st.just({}),
)
volumes = st.builds(
    lambda number, disk, reach, **rest: make_volume(f"v{number}", reach=reach, **disk, **rest),
    NUMBERS,
    disks,
    st.none()
    | st.builds(lambda zone: reachable(zone=zone), ZONES)
    | st.builds(lambda name: reachable(host=name), NAMES),
    labels=LABELS,
    storage_class=CLASSES,
    capacity=SIZES,
)
claims = st.builds(
    lambda number, volume, **rest: make_claim(
        f"c{number}", bound_to=f"v{volume}" if volume is not None else "", **rest
    ),
    NUMBERS,
    st.none() | st.integers(0, 4),
    storage_class=CLASSES,
    request=SIZES,
    selected_node=st.sampled_from(["", "", "", "n0"]),
    access_modes=st.sampled_from([("ReadWriteOnce",), ("ReadWriteOncePod",)]),
)
pod_volumes = st.one_of(
    st.builds(lambda number: claim_volume(f"c{number}"), NUMBERS),
    st.builds(lambda number: claim_volume(f"c{number}"), NUMBERS),
    st.builds(
        lambda name: Volume(aws_elastic_block_store=AWSElasticBlockStore(volume_id=name)),
        st.sampled_from(["vol-1", "vol-2"]),
    ),
    st.builds(
        lambda read_only: Volume(gce_persistent_disk=GCEPersistentDisk(pd_name="d", read_only=read_only)), st.booleans()
    ),
    st.builds(lambda kind: Volume(name="az", azure_disk=AzureDisk(kind=kind)), st.sampled_from(["Managed", "Shared"])),
)
placed = st.builds(
    lambda node, volumes: make_pod("there", node=node, volumes=tuple(volumes)),
    NAMES,
    st.lists(pod_volumes, min_size=1, max_size=2),
)
attachments = st.builds(
    lambda number, node, volume, driver: make_attachment(f"a{number}", node=node, volume=f"v{volume}", attacher=driver),
    NUMBERS,
    NAMES,
    NUMBERS,
    DRIVERS,
)
pools = st.builds(
    lambda number, zone, size: make_pool(f"p{number}", storage_class="late", capacity=size, labels={"zone": zone}),
    NUMBERS,
    ZONES,
    SIZES,
)
drivers = st.builds(make_csi_driver, DRIVERS, watches_capacity=st.booleans(), must_run=st.booleans())
cluster_objects = st.one_of(nodes, csi_nodes, volumes, volumes, claims, claims, placed, attachments, pools, drivers)
pending = st.builds(
    lambda volumes: make_pod("new", volumes=tuple(volumes)), st.lists(pod_volumes, min_size=1, max_size=3)
)
FIXED = (
    *(make_node(f"n{number}", zone="abca"[number]) for number in range(4)),
    *(make_claim(f"c{number}", storage_class="late") for number in range(4)),
    make_class("late", provisioner="csi.x"),
    make_class("local", provisioner="kubernetes.io/no-provisioner"),
    make_class("narrow", provisioner="csi.x", topologies=[{"zone": "a,b"}]),
    make_class("aws", provisioner="kubernetes.io/aws-ebs"),
)


def remove(rig: Rig, obj: KubeObject) -> None:
    """Remove an object, if objects of its kind can be removed."""
    match obj:
        case Node() if rig.nodes.find(obj.name) is not None:
            rig.cache.remove_node(obj.name)
        case Pod() if rig.cache.pod(obj.uid) is not None:
            rig.cache.remove_pod(obj)
        case CSINode() | PersistentVolume() | PersistentVolumeClaim() | StorageClass():
            rig.objects[type(obj)].drop(obj)
        case _:
            pass


def agree(plugin: FilterPlugin, rig: Rig, pod: Pod, window: NodeTable) -> None:
    cycle = CycleState()
    assert isinstance(plugin, PreFilterPlugin)
    answer = plugin.pre_filter(cycle, pod, rig.nodes)
    if isinstance(answer, Status):
        return
    assert all_at_once(plugin, cycle, pod, window) == one_at_a_time(plugin, cycle, pod, window)
    if isinstance(plugin, VolumeBinding):
        assert score_all_at_once(plugin, cycle, pod, window) == score_one_at_a_time(plugin, cycle, pod, window)


@pytest.mark.parametrize("build", PLUGINS)
@settings(max_examples=60, deadline=None)
@given(
    first=st.lists(cluster_objects, max_size=12),
    then=st.lists(st.tuples(st.booleans(), cluster_objects), max_size=6),
    pods=st.lists(pending, min_size=1, max_size=2),
    rows=st.permutations(range(4)),
    size=st.integers(1, 4),
)
def test_both_forms_agree(
    build: type[VolumeBinding],
    first: list[KubeObject],
    then: list[tuple[bool, KubeObject]],
    pods: list[Pod],
    rows: list[int],
    size: int,
) -> None:
    rig = Rig(*FIXED, *distinct_pods(first))
    handle: Handle = rig
    plugin = build(handle=handle)
    for pod in pods:
        agree(plugin, rig, pod, rig.nodes)
    present = [*FIXED, *first]
    for number, (stays, obj) in enumerate(then):
        if stays:
            rig.add(*distinct_pods([obj], prefix=f"later-{number}"))
        else:
            remove(rig, present[number % len(present)])
    visible = [row for row in rows[:size] if row < len(rig.nodes)]
    for pod in pods:
        agree(plugin, rig, pod, rig.nodes)
        agree(plugin, rig, pod, rig.nodes.take(np.array(visible, dtype=np.int64)))
        agree(plugin, rig, pod, NodeTable.of(*rig.nodes))


def distinct_pods(objects: Iterable[KubeObject], prefix: str = "first") -> list[KubeObject]:
    """Give pods unique names, since a pod cannot be added twice."""
    return [
        make_pod(f"{prefix}-{index}", node=obj.node_name, volumes=obj.spec.volumes) if isinstance(obj, Pod) else obj
        for index, obj in enumerate(objects)
    ]
