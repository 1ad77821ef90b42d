"""NodeResourcesFit: insufficient resources in both forms of the filter, queueing hints, and placement scores."""

from typing import Any

import pytest
from tests.support.groups import gang

from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.devices import DeviceClass, DeviceClassSpec
from moorage.kube.api.meta import Condition, KubeObject, ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.features import FeatureGates
from moorage.scheduler.config.args import NodeResourcesFitArgs, ResourceSpec, ScoringStrategy
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.framework.groups import GroupTree, Placement, Proposal
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.deferred_pod_scheduling import GATE
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit, after_class_change
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

GPU = "example.com/gpu"


FPGA = "other.org/fpga"


HUGE = "hugepages-2Mi"


NATIVE = "kubernetes.io/thing"


US, UAU = Status.unschedulable, Status.unresolvable


def node(**allocatable: Any) -> Node:
    """Build a node, by default with 10m CPU and 20 bytes of memory."""
    return make_node(allocatable={"cpu": "10m", "memory": 20, "pods": 32, **allocatable})


def asking(**requests: Any) -> Pod:
    return make_pod(requests=requests)


def there(**requests: Any) -> Pod:
    return make_pod("there", node="node", requests=requests)


def device_class(name: str, resource: str | None = None) -> DeviceClass:
    return DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource))


CASES = {
    "what is left is enough": (node(), there(cpu="5m", memory=10), asking(cpu="5m", memory=10), None),
    "one unit too much is too much": (node(), there(cpu="5m"), asking(cpu="6m"), US("Insufficient cpu")),
    "every shortage is named": (
        node(),
        there(cpu="10m", memory=20),
        asking(memory=1, cpu="1m"),
        US("Insufficient cpu", "Insufficient memory"),
    ),
    "more than the node has is hopeless": (node(), there(), asking(cpu="11m"), UAU("Insufficient cpu")),
    "one hopeless shortage makes the node hopeless": (
        node(),
        there(cpu="5m", memory=10),
        asking(cpu="6m", memory=21),
        UAU("Insufficient cpu", "Insufficient memory"),
    ),
    "a pod without requests is treated as a pod": (node(pods=1), there(), asking(), US("Too many pods")),
    "too many pods is always resolvable": (node(pods=0), there(), asking(), US("Too many pods")),
    "but is rejected with a hopeless shortage": (
        node(pods=1),
        there(),
        asking(cpu=1),
        UAU("Too many pods", "Insufficient cpu"),
    ),
    "a pod without requests fits an overcommitted node": (node(), there(cpu="12m"), asking(), None),
    "an explicit zero may, too": (node(), there(cpu="12m"), asking(cpu=0), None),
    "also next to another request": (node(), there(cpu="12m"), asking(cpu=0, memory=1), None),
    "storage counts": (
        node(**{"ephemeral-storage": 5}),
        there(**{"ephemeral-storage": 3}),
        asking(**{"ephemeral-storage": 3}),
        US("Insufficient ephemeral-storage"),
    ),
    "storage a node does not have is hopeless": (
        node(),
        there(),
        asking(**{"ephemeral-storage": 1}),
        UAU("Insufficient ephemeral-storage"),
    ),
    "extended resources count": (node(**{GPU: 4}), there(**{GPU: 3}), asking(**{GPU: 2}), US(f"Insufficient {GPU}")),
    "one that the node does not know is hopeless": (node(), there(), asking(**{GPU: 1}), UAU(f"Insufficient {GPU}")),
    "a request of zero is ignored": (node(), there(), asking(**{GPU: 0}), None),
    "huge pages count": (node(**{HUGE: 4}), there(**{HUGE: 4}), asking(**{HUGE: 1}), US(f"Insufficient {HUGE}")),
    "Kubernetes' own prefixed resources count": (node(), there(), asking(**{NATIVE: 1}), UAU(f"Insufficient {NATIVE}")),
    "an unknown resource does not": (node(), there(), asking(something=5), None),
    "CPU, memory and storage precede others": (
        node(),
        there(),
        asking(**{GPU: 1, "memory": 30, "cpu": "30m"}),
        UAU("Insufficient cpu", "Insufficient memory", f"Insufficient {GPU}"),
    ),
    "init containers count at their peak": (
        node(),
        there(cpu="5m"),
        make_pod(
            requests={"cpu": "1m"},
            init_containers=(Container("i", resources=ResourceRequirements(requests={"cpu": "6m"})),),
        ),
        US("Insufficient cpu"),
    ),
    "overhead counts": (
        node(),
        there(cpu="5m"),
        make_pod(requests={"cpu": "5m"}, overhead={"cpu": "1m"}),
        US("Insufficient cpu"),
    ),
    "pod-level requests take the place of the containers'": (
        node(),
        there(cpu="5m"),
        make_pod(requests={"cpu": "9m"}, resources=ResourceRequirements(requests={"cpu": "5m"})),
        None,
    ),
    "real requests are compared, without defaults": (node(), there(), asking(memory=20), None),
    "a request for pods is not a resource": (node(), there(), asking(pods=50), None),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("place", "present", "pod", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, place: Node, present: Pod, pod: Pod, want: Status | None) -> None:
    rig = Rig(place, present)
    assert run_filter(NodeResourcesFit(handle=rig), rig, pod, form) == [want]


@pytest.mark.parametrize("form", FORMS)
def test_each_node_is_filtered_independently(form: FilterForm) -> None:
    rig = Rig(
        make_node("small", allocatable={"cpu": 1}),
        make_node("full", allocatable={"cpu": 4, "pods": 1}),
        make_node("free", allocatable={"cpu": 4}),
        make_pod("there", node="full", requests={"cpu": 3}),
    )
    assert run_filter(NodeResourcesFit(handle=rig), rig, asking(cpu=2), form) == [
        UAU("Insufficient cpu"),
        US("Too many pods", "Insufficient cpu"),
        None,
    ]


def test_resources_that_no_node_has_are_one_rejection() -> None:
    absent = [f"example.com/r{number:03}" for number in range(300)]
    rig = Rig(make_node("a", allocatable={"example.com/r2": 1}), make_node("b"))
    plugin, cycle, pod = NodeResourcesFit(handle=rig), CycleState(), asking(**dict.fromkeys([*absent, "z.org/z"], 1))
    rig.add(make_node("c", allocatable={"example.com/r150": 1}))
    plugin.pre_filter(cycle, pod, rig.nodes)
    verdict = plugin.filter_nodes(cycle, pod, rig.nodes)
    assert len(verdict.rejections) <= 4  # before and after r150, and two for r150
    for row, node_info in enumerate(rig.nodes):
        assert verdict.status_at(row) == plugin.filter(cycle, pod, node_info)


IGNORED = {
    "a listed resource may be short": (NodeResourcesFitArgs(ignored_resources=(GPU,)), UAU(f"Insufficient {FPGA}")),
    "nor does any of a listed group": (
        NodeResourcesFitArgs(ignored_resource_groups=("example.com",)),
        UAU(f"Insufficient {FPGA}"),
    ),
    "both lists count": (NodeResourcesFitArgs((GPU,), ("other.org",)), None),
    "a prefix is not a group": (
        NodeResourcesFitArgs(ignored_resource_groups=("example",)),
        UAU(f"Insufficient {GPU}", f"Insufficient {FPGA}"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("args", "want"), IGNORED.values(), ids=IGNORED)
def test_ignored_resources(form: FilterForm, args: NodeResourcesFitArgs, want: Status | None) -> None:
    rig = Rig(node())
    assert run_filter(NodeResourcesFit(args=args, handle=rig), rig, asking(**{GPU: 1, FPGA: 1}), form) == [want]


@pytest.mark.parametrize("form", FORMS)
def test_only_extended_resources_can_be_ignored(form: FilterForm) -> None:
    rig = Rig(node())
    plugin = NodeResourcesFit(args=NodeResourcesFitArgs((NATIVE, "cpu"), ("kubernetes.io",)), handle=rig)
    want = UAU("Insufficient cpu", f"Insufficient {NATIVE}")
    assert run_filter(plugin, rig, asking(**{NATIVE: 1, "cpu": 1}), form) == [want]


DELEGATED = {
    "a class serves the resource where the node has none": (device_class("gpu", GPU), node(), GPU, None),
    "a node that has some serves it itself": (
        device_class("gpu", GPU),
        node(**{GPU: 1}),
        GPU,
        UAU(f"Insufficient {GPU}"),
    ),
    "a class of another resource does not help": (device_class("fpga", FPGA), node(), GPU, UAU(f"Insufficient {GPU}")),
    "a class matches its default name": (device_class("gpu"), node(), "deviceclass.resource.kubernetes.io/gpu", None),
    "but no other name": (
        device_class("gpu"),
        node(),
        "deviceclass.resource.kubernetes.io/fpga",
        UAU("Insufficient deviceclass.resource.kubernetes.io/fpga"),
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("offer", "place", "resource", "want"), DELEGATED.values(), ids=DELEGATED)
def test_delegation_to_devices(
    form: FilterForm, offer: DeviceClass, place: Node, resource: str, want: Status | None
) -> None:
    rig = Rig(place, offer)
    assert run_filter(NodeResourcesFit(handle=rig), rig, asking(**{resource: 2}), form) == [want]


def test_results_are_recomputed_when_classes_change() -> None:
    rig = Rig(node())
    plugin = NodeResourcesFit(handle=rig)
    assert run_filter(plugin, rig, asking(**{GPU: 1}), FORMS[0]) == [UAU(f"Insufficient {GPU}")]
    before = plugin.epoch()
    rig.add(device_class("gpu", GPU))
    assert plugin.epoch() != before
    assert run_filter(plugin, rig, asking(**{GPU: 1}), FORMS[0]) == [None]


def test_pre_filter_never_skips() -> None:
    rig = Rig(node())
    assert NodeResourcesFit(handle=rig).pre_filter(CycleState(), asking(), rig.nodes) is None


def test_signatures_follow_requests() -> None:
    plugin = NodeResourcesFit(handle=Rig())
    assert plugin.sign(asking(cpu="1")) == plugin.sign(asking(cpu="1000m"))
    two = make_pod(containers=(Container("a"), Container("b")))
    # Both request nothing, but two containers count twice in scores.
    assert plugin.sign(asking()) != plugin.sign(two)


QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP


def sized_node(**allocatable: Any) -> Node:
    return make_node(allocatable=allocatable)


NODES = {
    "a large enough node was added": (asking(cpu=4), None, sized_node(cpu=4), QUEUE),
    "a node that is too small was added": (asking(cpu=5), None, sized_node(cpu=4), SKIP),
    "a node for zero pods was added": (asking(), None, sized_node(pods=0), SKIP),
    "a requested resource grew": (asking(cpu=4), sized_node(cpu=4), sized_node(cpu=5), QUEUE),
    "a requested resource grew but is still insufficient": (asking(cpu=6), sized_node(cpu=4), sized_node(cpu=5), SKIP),
    "a requested resource shrank": (asking(cpu=1), sized_node(cpu=4), sized_node(cpu=3), SKIP),
    "another resource grew": (asking(cpu=1), sized_node(memory="1Gi"), sized_node(memory="2Gi"), SKIP),
    "the pod limit was raised": (asking(), sized_node(pods=1), sized_node(pods=2), QUEUE),
    "an extended resource grew": (asking(**{GPU: 1}), sized_node(), sized_node(**{GPU: 1}), QUEUE),
    "the pod requests zero of the grown resource": (asking(**{GPU: 0}), sized_node(), sized_node(**{GPU: 1}), SKIP),
    "the node did not change": (asking(cpu=1), sized_node(), sized_node(), SKIP),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), NODES.values(), ids=NODES)
def test_after_a_node_change(pod: Pod, old: Node | None, new: Node, want: QueueingHint) -> None:
    assert hints().after_node_change(pod, old, new) is want


def test_any_change_of_a_node_whose_devices_back_the_resource_queues() -> None:
    plugin = hints(device_class("gpu", GPU))
    assert plugin.after_node_change(asking(**{GPU: 1}), sized_node(cpu=4), sized_node(cpu=3)) is QUEUE
    assert plugin.after_node_change(asking(**{GPU: 1}), sized_node(**{GPU: 2}), sized_node(**{GPU: 1})) is SKIP


def test_hints_consider_ignored_resources() -> None:
    plugin = NodeResourcesFit(args=NodeResourcesFitArgs(ignored_resources=(GPU,)), handle=Rig())
    hint = plugin.events_to_register()[1].hint
    assert hint is not None
    assert hint(asking(**{GPU: 1}), None, sized_node()) is SKIP


def hints(*objects: KubeObject, grows: bool = False) -> NodeResourcesFit:
    return NodeResourcesFit(handle=Rig(*objects, features=FeatureGates({GATE: grows})))


PENDING = PodStatus(conditions=(Condition(type="PodResizePending", reason="Deferred"),))


def test_hints_of_a_pod_with_deferred_resize_concern_its_node_only() -> None:
    growing, result = make_pod(node="n", requests={"cpu": 2}, status=PENDING), hints(grows=True)
    for name, want in (("n", QUEUE), ("m", SKIP)):
        assert result.after_pod_deletion(growing, on(name), None) is want
        assert result.after_scale_down(growing, on(name, cpu=2), on(name, cpu=1)) is want
        grown = make_node(name, allocatable={"cpu": 4, "pods": 9})
        assert result.after_node_change(growing, make_node(name, allocatable={"cpu": 3, "pods": 9}), grown) is want
    labeled = make_node("n", allocatable={"cpu": 3, "pods": 9}, labels={"zone": "a"})
    assert result.after_node_change(growing, make_node("n", allocatable={"cpu": 3, "pods": 9}), labeled) is SKIP
    own = result.events_to_register()[-1].event
    assert own == ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_POD_SCALE_UP)


DELETIONS = {
    "the pod was assigned": (make_pod(node="n"), QUEUE),
    "the pod was nominated": (make_pod(status=PodStatus(nominated_node_name="n")), QUEUE),
    "the pod had no node": (make_pod(), SKIP),
}


@pytest.mark.parametrize(("deleted", "want"), DELETIONS.values(), ids=DELETIONS)
def test_after_a_deletion(deleted: Pod, want: QueueingHint) -> None:
    assert hints().after_pod_deletion(asking(), deleted, None) is want


def on(name: str, **requests: Any) -> Pod:
    return make_pod(node=name, requests=requests)


SCALE_DOWNS = {
    "a requested resource was reduced": (asking(cpu=1), on("n", cpu=2), on("n", cpu=1), QUEUE),
    "another resource was reduced": (asking(cpu=1), on("n", memory=2), on("n", memory=1), SKIP),
    "the pod requests zero of the reduced resource": (asking(cpu=0), on("n", cpu=2), on("n", cpu=1), SKIP),
    "a requested resource was raised": (asking(cpu=1), on("n", cpu=1), on("n", cpu=2), SKIP),
    "an extended resource was reduced": (asking(**{GPU: 1}), on("n", **{GPU: 2}), on("n"), QUEUE),
    "the pod has no node": (asking(cpu=1), on("", cpu=2), on("", cpu=1), SKIP),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), SCALE_DOWNS.values(), ids=SCALE_DOWNS)
def test_after_a_scale_down(pod: Pod, old: Pod, new: Pod, want: QueueingHint) -> None:
    assert hints().after_scale_down(pod, old, new) is want


IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"


CLASSES = {
    "a class with the resource was added": (asking(**{GPU: 1}), None, device_class("gpu", GPU), QUEUE),
    "a class with the implicit name was added": (asking(**{IMPLICIT: 1}), None, device_class("gpu"), QUEUE),
    "an unrelated class was added": (asking(cpu=1), None, device_class("gpu", GPU), SKIP),
    "a class began to back the resource": (asking(**{GPU: 1}), device_class("gpu"), device_class("gpu", GPU), QUEUE),
    "a class still backs the resource": (asking(**{GPU: 1}), device_class("gpu", GPU), device_class("gpu", GPU), SKIP),
    "a class ceased to back the resource": (asking(**{GPU: 1}), device_class("gpu", GPU), device_class("gpu"), SKIP),
    "a class with the implicit name was updated": (
        asking(**{IMPLICIT: 1}),
        device_class("gpu"),
        device_class("gpu", GPU),
        SKIP,
    ),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), CLASSES.values(), ids=CLASSES)
def test_after_a_class_change(pod: Pod, old: DeviceClass | None, new: DeviceClass, want: QueueingHint) -> None:
    assert after_class_change(pod, old, new) is want


@pytest.mark.release("1.37")
def test_events() -> None:
    registered = NodeResourcesFit(handle=Rig()).events_to_register()
    assert [item.event for item in registered] == [
        ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE),
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
        ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE),
        ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN),
        ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN),
    ]
    assert registered[-1].hint is None


TREE = GroupTree(gang())


def placement_node(name: str, rack: str | None = None, **more: str) -> Node:
    allocatable = {"cpu": "4", "memory": "8Gi", "pods": "110", **more}
    return make_node(name, allocatable=allocatable, labels={} if rack is None else {"rack": rack})  # type: ignore[arg-type]


def proposal(name: str, **requests: str) -> Proposal:
    return Proposal(make_pod(name, requests=requests or {"cpu": "1", "memory": "2Gi"}), "n1", CycleState())


def test_a_placement_is_scored_by_how_full_it_would_be() -> None:
    rig = Rig(placement_node("n1"), placement_node("n2"))
    placement = Placement("r", rig.nodes, (proposal("a"), proposal("b")))
    assert NodeResourcesFit(handle=rig).score_placement(CycleState(), TREE, placement) == 25
    rig.add(make_pod("old", node="n1", requests={"cpu": "2", "memory": "4Gi"}))
    assert NodeResourcesFit(handle=rig).score_placement(CycleState(), TREE, placement) == 50


def test_a_device_counts_only_if_it_is_requested() -> None:
    gpu = "example.com/gpu"
    rig = Rig(placement_node("n1", **{gpu: "4"}), make_pod("old", node="n1", requests={gpu: "2"}))
    resources = tuple(ResourceSpec(name=name, weight=1) for name in ("cpu", "memory", gpu))
    args = NodeResourcesFitArgs(scoring_strategy=ScoringStrategy(type="LeastAllocated", resources=resources))
    plugin = NodeResourcesFit(args=args, handle=rig)
    plain = Placement("r", rig.nodes, (proposal("a"),))
    asking = Placement("r", rig.nodes, (proposal("a", cpu="1", memory="2Gi", **{gpu: "1"}),))
    # 27 % of cpu and 27 % of memory, the defaults of the old pod included; with the device also 75 % of that.
    assert plugin.score_placement(CycleState(), TREE, plain) == 27
    assert plugin.score_placement(CycleState(), TREE, asking) == (27 + 27 + 75) // 3
