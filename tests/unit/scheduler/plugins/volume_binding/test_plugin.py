"""VolumeBinding: claims of a pod, feasible nodes, and queueing hints."""

from typing import Any

import pytest

from moorage.kube.api.meta import KubeObject
from moorage.kube.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.kube.api.storage import ObjectReference, PersistentVolumeClaim
from moorage.kube.api.volume import AWSElasticBlockStore, CSIVolume, Volume
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.volume_binding import plugin
from moorage.scheduler.plugins.volume_binding.plugin import (
    BIND_CONFLICT,
    NO_SPACE,
    NODE_CONFLICT,
    VOLUME_MISSING,
    VolumeBinding,
)
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter
from moorage.testing.storage import (
    claim_volume,
    ephemeral_volume,
    make_claim,
    make_class,
    make_csi_driver,
    make_csi_node,
    make_pool,
    make_volume,
    reachable,
)

NODES = (make_node("a1", zone="a"), make_node("a2", zone="a"), make_node("b1", zone="b"))


POD = make_pod("p", volumes=(claim_volume("c"),))


LATE, LOCAL = make_class("late"), make_class("local", provisioner="kubernetes.io/no-provisioner")


BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


def unresolvable(*reasons: str) -> Status:
    return Status.unresolvable(*reasons)


def claim(**fields: Any) -> PersistentVolumeClaim:
    return make_claim("c", **fields)


def selector(*terms: NodeSelectorTerm) -> NodeSelector:
    return NodeSelector(node_selector_terms=terms)


def by_name(name: str) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_fields=(NodeSelectorRequirement(key="metadata.name", operator="In", values=(name,)),))


PRE_FILTERS: dict[str, tuple[tuple[KubeObject, ...], Status | None]] = {
    "a claim that is missing": ((), unresolvable('persistentvolumeclaim "c" not found')),
    "a claim that lost its volume": (
        (claim(bound_to="v", phase="Lost"),),
        unresolvable('persistentvolumeclaim "c" bound to non-existent persistentvolume "v"'),
    ),
    "a claim that is going": (
        (claim(bound_to="v", terminating=True),),
        unresolvable('persistentvolumeclaim "c" is being deleted'),
    ),
    "a bound claim": ((claim(bound_to="v"),), None),
    "an unbound claim without a class": (
        (claim(),),
        unresolvable("pod has unbound immediate PersistentVolumeClaims"),
    ),
    "a class that binds immediately": (
        (claim(storage_class="early"), make_class("early", mode="Immediate")),
        unresolvable("pod has unbound immediate PersistentVolumeClaims"),
    ),
    "a missing class is treated as one that binds immediately": (
        (claim(storage_class="late"),),
        unresolvable("pod has unbound immediate PersistentVolumeClaims"),
    ),
    "a class without a mode is an error": (
        (claim(storage_class="x"), make_class("x", mode=None)),
        Status.error('VolumeBindingMode not set for StorageClass "x"'),
    ),
    "a claim that waits for its pod": ((claim(storage_class="late"), LATE), None),
    "the old annotation names the class": (
        (claim(storage_class="gone", annotations={BETA_CLASS: "late"}), LATE),
        None,
    ),
    "a claim that names its volume and is not bound yet": (
        (claim(storage_class="late", volume_name="v"), LATE),
        unresolvable("pod has unbound immediate PersistentVolumeClaims"),
    ),
}


@pytest.mark.parametrize(("objects", "want"), PRE_FILTERS.values(), ids=PRE_FILTERS)
def test_pre_filter(objects: tuple[KubeObject, ...], want: Status | None) -> None:
    rig = Rig(*objects)
    assert VolumeBinding(handle=rig).pre_filter(CycleState(), POD, rig.nodes) == want


def test_the_first_problem_in_the_order_of_volumes_counts() -> None:
    rig = Rig(make_claim("going", terminating=True))
    pod = make_pod(volumes=(claim_volume("going"), claim_volume("gone")))
    answer = VolumeBinding(handle=rig).pre_filter(CycleState(), pod, rig.nodes)
    assert answer == unresolvable('persistentvolumeclaim "going" is being deleted')


def test_pods_without_claims_are_skipped_and_share_results() -> None:
    rig = Rig(*NODES)
    plugin, cycle, pod = VolumeBinding(handle=rig), CycleState(), make_pod()
    assert plugin.pre_filter(cycle, pod, rig.nodes) == Status.skip()
    assert plugin.pre_score(cycle, pod, rig.nodes) is None, "upstream scores every pod while the gate is on"
    assert plugin.score_nodes(cycle, pod, rig.nodes).tolist() == [0, 0, 0]
    assert plugin.score(cycle, pod, rig.nodes[0]) == 0
    assert plugin.reserve(cycle, pod, "a1") is None
    assert plugin.pre_bind_pre_flight(cycle, pod, "a1") == Status.skip()
    plugin.unreserve(cycle, pod, "a1")
    assert plugin.sign(pod) == ()
    assert plugin.sign(POD) is None


EPHEMERAL = make_pod("p", volumes=(ephemeral_volume("v"),))


EPHEMERALS: dict[str, tuple[tuple[KubeObject, ...], Status | None]] = {
    "its claim is not there yet": (
        (),
        unresolvable('waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"'),
    ),
    "its claim belongs to the pod": ((make_claim("p-v", bound_to="v", owner=EPHEMERAL),), None),
    "its claim has no owner": (
        (make_claim("p-v", bound_to="v"),),
        unresolvable("PVC default/p-v was not created for pod default/p (pod is not owner)"),
    ),
    "its claim belongs to a pod of the same name": (
        (make_claim("p-v", bound_to="v", owner=make_pod("p")),),
        unresolvable("PVC default/p-v was not created for pod default/p (pod is not owner)"),
    ),
}


@pytest.mark.parametrize(("objects", "want"), EPHEMERALS.values(), ids=EPHEMERALS)
def test_ephemeral_volumes(objects: tuple[KubeObject, ...], want: Status | None) -> None:
    rig = Rig(*objects)
    assert VolumeBinding(handle=rig).pre_filter(CycleState(), EPHEMERAL, rig.nodes) == want


CONFLICT, UNBINDABLE = unresolvable(NODE_CONFLICT), unresolvable(BIND_CONFLICT)


FULL, MISSING = unresolvable(NO_SPACE), unresolvable(VOLUME_MISSING)


EBS = AWSElasticBlockStore(volume_id="vol-1")


EBS_ZONE = "topology.ebs.csi.aws.com/zone"


PROVISIONER = "example.com/disks"


WATCHED = make_csi_driver(PROVISIONER, watches_capacity=True)


Verdicts = list[Status | None]


CASES: dict[str, tuple[tuple[KubeObject, ...], Verdicts]] = {
    "a bound volume can be reached from everywhere": (
        (claim(bound_to="v"), make_volume("v")),
        [None, None, None],
    ),
    "a bound volume can be reached from its zone": (
        (claim(bound_to="v"), make_volume("v", reach=reachable(zone="a"))),
        [None, None, CONFLICT],
    ),
    "a bound volume can be reached from one node": (
        (claim(bound_to="v"), make_volume("v", reach=reachable(host="b1"))),
        [CONFLICT, CONFLICT, None],
    ),
    "matchFields of a volume are ignored": (
        (claim(bound_to="v"), make_volume("v", reach=selector(by_name("a1")))),
        [None, None, None],
    ),
    "an empty term matches no node": (
        (claim(bound_to="v"), make_volume("v", reach=selector(NodeSelectorTerm()))),
        [CONFLICT] * 3,
    ),
    "an affinity that cannot be read matches no node": (
        (
            claim(bound_to="v"),
            make_volume(
                "v",
                reach=selector(
                    NodeSelectorTerm(match_expressions=(NodeSelectorRequirement(key="x", operator="Like"),))
                ),
            ),
        ),
        [CONFLICT] * 3,
    ),
    "a bound volume that is deleted": ((claim(bound_to="v"),), [MISSING] * 3),
    "a volume reserved for the claim is the only choice": (
        (
            claim(storage_class="local"),
            LOCAL,
            make_volume("free", storage_class="local"),
            make_volume("mine", storage_class="local", claim=claim(), reach=reachable(zone="b")),
        ),
        [UNBINDABLE, UNBINDABLE, None],
    ),
    "a volume reserved for a claim of that name, in any phase": (
        (
            claim(storage_class="local"),
            LOCAL,
            make_volume(storage_class="local", phase="Bound", claim_ref=ObjectReference(namespace="default", name="c")),
        ),
        [None] * 3,
    ),
    "a volume reserved for a claim of another uid": (
        (
            claim(storage_class="local"),
            LOCAL,
            make_volume(storage_class="local", claim_ref=ObjectReference(namespace="default", name="c", uid="x")),
        ),
        [UNBINDABLE] * 3,
    ),
    "a volume that is too small": (
        (claim(storage_class="local", request="2Gi"), LOCAL, make_volume(storage_class="local")),
        [UNBINDABLE] * 3,
    ),
    "a volume of another mode": (
        (claim(storage_class="local"), LOCAL, make_volume(storage_class="local", volume_mode="Block")),
        [UNBINDABLE] * 3,
    ),
    "no mode means Filesystem": (
        (claim(storage_class="local", volume_mode="Filesystem"), LOCAL, make_volume(storage_class="local")),
        [None] * 3,
    ),
    "a volume of another attributes class": (
        (
            claim(storage_class="local"),
            LOCAL,
            make_volume(storage_class="local", volume_attributes_class_name="gold"),
        ),
        [UNBINDABLE] * 3,
    ),
    "a volume of the same attributes class": (
        (
            claim(storage_class="local", volume_attributes_class_name="gold"),
            LOCAL,
            make_volume(storage_class="local", volume_attributes_class_name="gold"),
        ),
        [None] * 3,
    ),
    "a volume that is going": (
        (claim(storage_class="local"), LOCAL, make_volume(storage_class="local", terminating=True)),
        [UNBINDABLE] * 3,
    ),
    "a volume that is not available": (
        (claim(storage_class="local"), LOCAL, make_volume(storage_class="local", phase="Released")),
        [UNBINDABLE] * 3,
    ),
    "a volume of another class": (
        (claim(storage_class="local"), LOCAL, make_volume(storage_class="other")),
        [UNBINDABLE] * 3,
    ),
    "a volume with its class in an annotation": (
        (
            claim(storage_class="local"),
            LOCAL,
            make_volume(storage_class="other", annotations={BETA_CLASS: "local"}),
        ),
        [None] * 3,
    ),
    "a volume with the wrong access modes": (
        (claim(storage_class="local", access_modes=["ReadWriteMany"]), LOCAL, make_volume(storage_class="local")),
        [UNBINDABLE] * 3,
    ),
    "a volume the claim does not select": (
        (
            claim(storage_class="local", selector=LabelSelector(match_labels={"tier": "gold"})),
            LOCAL,
            make_volume(storage_class="local", labels={"tier": "tin"}),
        ),
        [UNBINDABLE] * 3,
    ),
    "a volume the claim selects": (
        (
            claim(storage_class="local", selector=LabelSelector(match_labels={"tier": "gold"})),
            LOCAL,
            make_volume(storage_class="local", labels={"tier": "gold"}),
        ),
        [None] * 3,
    ),
    "local volumes of two nodes": (
        (
            claim(storage_class="local"),
            LOCAL,
            make_volume("v1", storage_class="local", reach=reachable(host="a1")),
            make_volume("v2", storage_class="local", reach=reachable(host="b1")),
        ),
        [None, UNBINDABLE, None],
    ),
    "a volume can be made anywhere": ((claim(storage_class="late"), LATE), [None] * 3),
    "a class without a provisioner makes none": (
        (claim(storage_class="x"), make_class("x", provisioner="")),
        [UNBINDABLE] * 3,
    ),
    "a class makes volumes in a zone": (
        (claim(storage_class="x"), make_class("x", topologies=[{"zone": "b"}])),
        [UNBINDABLE, UNBINDABLE, None],
    ),
    "either of two topologies will do": (
        (claim(storage_class="x"), make_class("x", topologies=[{"zone": "b"}, {"host": "a1"}])),
        [None, UNBINDABLE, None],
    ),
    "all labels of a topology must be right": (
        (claim(storage_class="x"), make_class("x", topologies=[{"zone": "a", "host": "a1,b1"}])),
        [None, UNBINDABLE, UNBINDABLE],
    ),
    "an empty topology matches no node": (
        (claim(storage_class="x"), make_class("x", topologies=[{}])),
        [UNBINDABLE] * 3,
    ),
    "a static volume where there is one, a new one elsewhere": (
        (
            claim(storage_class="x"),
            make_class("x", topologies=[{"zone": "b"}]),
            make_volume(storage_class="x", reach=reachable(host="a1")),
        ),
        [None, UNBINDABLE, None],
    ),
    "a node that was selected before is the only choice": (
        (claim(storage_class="late", selected_node="a2"), LATE),
        [UNBINDABLE, None, UNBINDABLE],
    ),
    "the volume is made there, even if one is there already": (
        (claim(storage_class="local", selected_node="a2"), LOCAL, make_volume(storage_class="local")),
        [UNBINDABLE] * 3,
    ),
    "a node that was selected before and is deleted": (
        (claim(storage_class="late", selected_node="gone"), LATE),
        [UNBINDABLE] * 3,
    ),
    "a storage pool has capacity in its zone": (
        (
            claim(storage_class="late"),
            LATE,
            WATCHED,
            make_pool("big", storage_class="late", capacity="1Gi", labels={"zone": "a"}),
            make_pool("small", storage_class="late", capacity="1Mi", labels={"zone": "b"}),
        ),
        [None, None, FULL],
    ),
    "the largest volume counts before the capacity": (
        (
            claim(storage_class="late"),
            LATE,
            WATCHED,
            make_pool("x", storage_class="late", capacity="9Gi", largest="1Mi", labels={"zone": "a"}),
            make_pool("y", storage_class="late", capacity="1Mi", largest="1Gi", labels={"zone": "b"}),
        ),
        [FULL, FULL, None],
    ),
    "a pool without a capacity is empty": (
        (claim(storage_class="late"), LATE, WATCHED, make_pool(storage_class="late")),
        [FULL] * 3,
    ),
    "a pool of another class": (
        (claim(storage_class="late"), LATE, WATCHED, make_pool(storage_class="x", capacity="9Gi")),
        [FULL] * 3,
    ),
    "a pool that no node can reach": (
        (
            claim(storage_class="late"),
            LATE,
            WATCHED,
            make_pool(storage_class="late", capacity="9Gi", out_of_reach=True),
        ),
        [FULL] * 3,
    ),
    "pools are not watched unless the driver requires it": (
        (claim(storage_class="late"), LATE, make_csi_driver(PROVISIONER, watches_capacity=False)),
        [None] * 3,
    ),
    "a claim without a request needs no capacity": (
        (claim(storage_class="late", request=None), LATE, WATCHED),
        [None] * 3,
    ),
    "an in-tree volume by its own labels": (
        (claim(bound_to="v"), make_volume("v", aws_elastic_block_store=EBS, reach=reachable(zone="a"))),
        [None, None, CONFLICT],
    ),
    "an in-tree volume by the driver's labels, where the driver serves it": (
        (
            claim(bound_to="v"),
            make_volume("v", aws_elastic_block_store=EBS, reach=reachable(zone="a")),
            make_csi_node("a1", migrated="kubernetes.io/gce-pd,kubernetes.io/aws-ebs"),
            make_csi_node("a2", migrated="kubernetes.io/gce-pd"),
        ),
        [CONFLICT, None, CONFLICT],
    ),
    "an in-tree volume without an affinity, where the driver serves it": (
        (
            claim(bound_to="v"),
            make_volume("v", aws_elastic_block_store=EBS, labels={"topology.kubernetes.io/zone": "a"}),
            make_csi_node("a1", migrated="kubernetes.io/aws-ebs"),
        ),
        [CONFLICT, None, None],
    ),
    "an in-tree volume that cannot be translated, where the driver serves it": (
        (
            claim(bound_to="v"),
            make_volume("v", aws_elastic_block_store=AWSElasticBlockStore(volume_id="aws://z/x")),
            make_csi_node("a1", migrated="kubernetes.io/aws-ebs"),
        ),
        [
            Status.error(
                "could not translate pv: failed to translate Kubernetes ID to EBS Volume ID "
                "Invalid format for AWS volume (aws://z/x)"
            ),
            None,
            None,
        ],
    ),
    "a selector that cannot be read is an error": (
        (
            claim(
                storage_class="late",
                selector=LabelSelector(match_expressions=(LabelSelectorRequirement(key="x", operator="Like"),)),
            ),
            LATE,
        ),
        [
            Status.error(
                "error creating internal label selector for claim: default/c: "
                "x: operator 'Like' is unknown; write one of In, NotIn, Exists, DoesNotExist"
            )
        ]
        * 3,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("objects", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, objects: tuple[KubeObject, ...], want: Verdicts) -> None:
    rig = Rig(*NODES, *objects)
    assert run_filter(VolumeBinding(handle=rig), rig, POD, form) == want


def judged(form: FilterForm, *objects: KubeObject) -> Verdicts:
    """Return the result for a pod that uses the claims among the objects, in their order."""
    rig = Rig(*NODES, *objects)
    names = [obj.name for obj in objects if isinstance(obj, PersistentVolumeClaim)]
    return run_filter(VolumeBinding(handle=rig), rig, make_pod(volumes=tuple(map(claim_volume, names))), form)


@pytest.mark.parametrize("form", FORMS)
def test_all_reasons_are_returned_in_order(form: FilterForm) -> None:
    elsewhere = (make_claim("far", bound_to="far"), make_volume("far", reach=reachable(host="b1")))
    assert judged(form, *elsewhere, make_claim("late", storage_class="local"), LOCAL) == [
        unresolvable(NODE_CONFLICT, BIND_CONFLICT),
        unresolvable(NODE_CONFLICT, BIND_CONFLICT),
        UNBINDABLE,
    ]
    assert judged(form, *elsewhere, make_claim("big", storage_class="late"), LATE, WATCHED) == [
        unresolvable(NODE_CONFLICT, NO_SPACE),
        unresolvable(NODE_CONFLICT, NO_SPACE),
        FULL,
    ]
    removed = make_claim("gone", bound_to="gone")
    assert judged(form, *elsewhere, removed, make_claim("late", storage_class="local"), LOCAL) == [
        unresolvable(NODE_CONFLICT, BIND_CONFLICT),
        unresolvable(NODE_CONFLICT, BIND_CONFLICT),
        unresolvable(BIND_CONFLICT, VOLUME_MISSING),
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_volume_that_is_deleted_ends_the_look_at_bound_claims(form: FilterForm) -> None:
    elsewhere = (make_claim("far", bound_to="far"), make_volume("far", reach=reachable(host="b1")))
    assert judged(form, make_claim("gone", bound_to="gone"), *elsewhere) == [MISSING] * 3


@pytest.mark.parametrize("form", FORMS)
def test_two_claims_need_two_volumes(form: FilterForm) -> None:
    claims = (make_claim("one", storage_class="local"), make_claim("two", storage_class="local"))
    first = make_volume("v1", storage_class="local")
    assert judged(form, *claims, LOCAL, first) == [UNBINDABLE] * 3
    two = make_volume("v2", storage_class="local", reach=reachable(zone="b"))
    assert judged(form, *claims, LOCAL, first, two) == [UNBINDABLE, UNBINDABLE, None]


@pytest.mark.parametrize("form", FORMS)
def test_small_claims_choose_first_and_leave_the_large_volumes(form: FilterForm) -> None:
    claims = (make_claim("big", storage_class="local", request="5Gi"), make_claim("small", storage_class="local"))
    volumes = (
        make_volume("large", storage_class="local", capacity="9Gi"),
        make_volume("little", storage_class="local"),
    )
    assert judged(form, *claims, LOCAL, *volumes) == [None] * 3


@pytest.mark.parametrize("form", FORMS)
def test_two_claims_may_both_count_on_a_pool_that_fits_one(form: FilterForm) -> None:
    claims = (make_claim("one", storage_class="late"), make_claim("two", storage_class="late"))
    assert judged(form, *claims, LATE, WATCHED, make_pool(storage_class="late", capacity="1Gi")) == [None] * 3


@pytest.mark.parametrize("form", FORMS)
def test_claims_that_were_promised_to_two_nodes_fit_nowhere(form: FilterForm) -> None:
    claims = (
        make_claim("one", storage_class="late", selected_node="a1"),
        make_claim("two", storage_class="late", selected_node="a2"),
    )
    assert judged(form, *claims, LATE) == [UNBINDABLE] * 3


QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


WAITING = make_pod("p", volumes=(claim_volume("c"), ephemeral_volume("v")))


def test_hint_after_change_of_classes() -> None:
    here = make_class(topologies=[{"zone": "a"}])
    assert plugin.after_class_changed(WAITING, None, here) == QUEUE
    assert plugin.after_class_changed(WAITING, here, make_class(topologies=[{"zone": "a,b"}])) == QUEUE
    assert plugin.after_class_changed(WAITING, here, make_class(provisioner="x", topologies=[{"zone": "a"}])) == SKIP


def test_hint_after_change_of_claims() -> None:
    assert plugin.after_claim_changed(WAITING, None, make_claim("c")) == QUEUE
    assert plugin.after_claim_changed(WAITING, make_claim("p-v"), make_claim("p-v")) == QUEUE
    assert plugin.after_claim_changed(WAITING, None, make_claim("x")) == SKIP
    assert plugin.after_claim_changed(WAITING, None, make_claim("c", namespace="x")) == SKIP


def test_hint_after_change_of_csi_nodes() -> None:
    plain, migrated = make_csi_node("n"), make_csi_node("n", migrated="kubernetes.io/aws-ebs")
    assert plugin.after_csi_node_changed(WAITING, None, plain) == QUEUE
    assert plugin.after_csi_node_changed(WAITING, plain, migrated) == QUEUE
    assert plugin.after_csi_node_changed(WAITING, plain, make_csi_node("n", limits={"d": 1})) == SKIP


def test_hint_after_change_of_drivers() -> None:
    user = make_pod(volumes=(Volume(csi=CSIVolume(driver="d")),))
    on, off, unset = (make_csi_driver("d", watches_capacity=value) for value in (True, False, None))
    assert plugin.after_driver_changed(user, on, off) == QUEUE
    assert plugin.after_driver_changed(user, on, unset) == QUEUE
    assert plugin.after_driver_changed(user, off, on) == SKIP
    assert plugin.after_driver_changed(user, on, on) == SKIP
    assert plugin.after_driver_changed(WAITING, on, off) == SKIP


def test_hint_after_change_of_pools() -> None:
    small, large, silent = make_pool(capacity="1Gi"), make_pool(capacity="2Gi"), make_pool()
    assert plugin.after_capacity_changed(WAITING, None, silent) == QUEUE
    assert plugin.after_capacity_changed(WAITING, small, large) == QUEUE
    assert plugin.after_capacity_changed(WAITING, silent, small) == QUEUE
    assert plugin.after_capacity_changed(WAITING, large, small) == SKIP
    assert plugin.after_capacity_changed(WAITING, small, small) == SKIP
    assert plugin.after_capacity_changed(WAITING, small, silent) == SKIP
    assert plugin.after_capacity_changed(WAITING, large, make_pool(capacity="9Gi", largest="1Gi")) == SKIP


def test_events() -> None:
    changed = Action.ADD | Action.UPDATE
    registrations = VolumeBinding(handle=Rig()).events_to_register()
    assert [(item.event.resource, item.event.action, item.hint is None) for item in registrations] == [
        (Resource.STORAGE_CLASS, changed, False),
        (Resource.PERSISTENT_VOLUME_CLAIM, changed, False),
        (Resource.PERSISTENT_VOLUME, changed, True),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, True),
        (Resource.CSI_NODE, changed, False),
        (Resource.CSI_DRIVER, Action.UPDATE, False),
        (Resource.CSI_STORAGE_CAPACITY, changed, False),
    ]
