from typing import Any

import pytest

from moorage.kube.api.devices import DeviceClass, DeviceClassSpec
from moorage.kube.api.meta import Condition, ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.config.args import NodeResourcesFitArgs
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.plugins.extended_resources import ExtendedResourceClasses
from moorage.scheduler.plugins.node_resources_fit.hints import FitHints, after_class_change
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

QUEUE, SKIP = QueueingHint.QUEUE, QueueingHint.SKIP
GPU = "example.com/gpu"


def node(**allocatable: Any) -> Node:
    return make_node(allocatable=allocatable)


def asking(**requests: Any) -> Pod:
    return make_pod(requests=requests)


def device_class(name: str, resource: str | None = None) -> DeviceClass:
    return DeviceClass(metadata=ObjectMeta(name=name), spec=DeviceClassSpec(extended_resource_name=resource))


NODES = {
    "a new node that is large enough helps": (asking(cpu=4), None, node(cpu=4), QUEUE),
    "one that is too small does not": (asking(cpu=5), None, node(cpu=4), SKIP),
    "nor one without a place for pods": (asking(), None, node(pods=0), SKIP),
    "more of what is asked for helps": (asking(cpu=4), node(cpu=4), node(cpu=5), QUEUE),
    "more, but not enough, does not": (asking(cpu=6), node(cpu=4), node(cpu=5), SKIP),
    "less does not": (asking(cpu=1), node(cpu=4), node(cpu=3), SKIP),
    "more of something else does not": (asking(cpu=1), node(memory="1Gi"), node(memory="2Gi"), SKIP),
    "a place for more pods always helps": (asking(), node(pods=1), node(pods=2), QUEUE),
    "more of an extended resource helps": (asking(**{GPU: 1}), node(), node(**{GPU: 1}), QUEUE),
    "zero of it is not asked for": (asking(**{GPU: 0}), node(), node(**{GPU: 1}), SKIP),
    "an unchanged node does not": (asking(cpu=1), node(), node(), SKIP),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), NODES.values(), ids=NODES)
def test_after_a_node_change(pod: Pod, old: Node | None, new: Node, want: QueueingHint) -> None:
    hints = FitHints(ExtendedResourceClasses(Rig().lister(DeviceClass)))
    assert hints.after_node_change(pod, old, new) is want


def test_a_node_without_a_resource_that_devices_serve_helps_at_any_change() -> None:
    hints = FitHints(ExtendedResourceClasses(Rig(device_class("gpu", GPU)).lister(DeviceClass)))
    assert hints.after_node_change(asking(**{GPU: 1}), node(cpu=4), node(cpu=3)) is QUEUE
    assert hints.after_node_change(asking(**{GPU: 1}), node(**{GPU: 2}), node(**{GPU: 1})) is SKIP


def test_ignored_resources_are_not_ignored_by_hints() -> None:
    plugin = NodeResourcesFit(args=NodeResourcesFitArgs(ignored_resources=(GPU,)), handle=Rig())
    hint = plugin.events_to_register()[1].hint
    assert hint is not None
    assert hint(asking(**{GPU: 1}), None, node()) is SKIP


def hints(*, grows: bool = False) -> FitHints:
    return FitHints(ExtendedResourceClasses(Rig().lister(DeviceClass)), grows=grows)


PENDING = PodStatus(conditions=(Condition(type="PodResizePending", reason="Deferred"),))


def test_o8_o9_hints_of_a_pod_with_deferred_resize_concern_its_node_only() -> None:
    growing, result = make_pod(node="n", requests={"cpu": 2}, status=PENDING), hints(grows=True)
    for name, want in (("n", QUEUE), ("m", SKIP)):
        assert result.after_pod_deletion(growing, on(name), None) is want
        assert result.after_scale_down(growing, on(name, cpu=2), on(name, cpu=1)) is want
        grown = make_node(name, allocatable={"cpu": 4, "pods": 9})
        assert result.after_node_change(growing, make_node(name, allocatable={"cpu": 3, "pods": 9}), grown) is want
    labelled = make_node("n", allocatable={"cpu": 3, "pods": 9}, labels={"zone": "a"})
    assert result.after_node_change(growing, make_node("n", allocatable={"cpu": 3, "pods": 9}), labelled) is SKIP
    own = result.registrations()[-1].event
    assert own == ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_SCALE_DOWN | Action.UPDATE_POD_SCALE_UP)


DELETIONS = {
    "a pod that was on a node": (make_pod(node="n"), QUEUE),
    "a pod that was promised one": (make_pod(status=PodStatus(nominated_node_name="n")), QUEUE),
    "a pod that was nowhere": (make_pod(), SKIP),
}


@pytest.mark.parametrize(("deleted", "want"), DELETIONS.values(), ids=DELETIONS)
def test_after_a_deletion(deleted: Pod, want: QueueingHint) -> None:
    assert hints().after_pod_deletion(asking(), deleted, None) is want


def on(name: str, **requests: Any) -> Pod:
    return make_pod(node=name, requests=requests)


SCALE_DOWNS = {
    "less of what is asked for helps": (asking(cpu=1), on("n", cpu=2), on("n", cpu=1), QUEUE),
    "less of something else does not": (asking(cpu=1), on("n", memory=2), on("n", memory=1), SKIP),
    "zero is not asked for": (asking(cpu=0), on("n", cpu=2), on("n", cpu=1), SKIP),
    "more does not": (asking(cpu=1), on("n", cpu=1), on("n", cpu=2), SKIP),
    "extended resources count": (asking(**{GPU: 1}), on("n", **{GPU: 2}), on("n"), QUEUE),
    "a pod on no node frees nothing": (asking(cpu=1), on("", cpu=2), on("", cpu=1), SKIP),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), SCALE_DOWNS.values(), ids=SCALE_DOWNS)
def test_after_a_scale_down(pod: Pod, old: Pod, new: Pod, want: QueueingHint) -> None:
    assert hints().after_scale_down(pod, old, new) is want


IMPLICIT = "deviceclass.resource.kubernetes.io/gpu"
CLASSES = {
    "a new class with the resource helps": (asking(**{GPU: 1}), None, device_class("gpu", GPU), QUEUE),
    "a new class with the implicit name helps": (asking(**{IMPLICIT: 1}), None, device_class("gpu"), QUEUE),
    "a new class with neither does not": (asking(cpu=1), None, device_class("gpu", GPU), SKIP),
    "a class that takes the name on helps": (asking(**{GPU: 1}), device_class("gpu"), device_class("gpu", GPU), QUEUE),
    "a class that keeps it does not": (asking(**{GPU: 1}), device_class("gpu", GPU), device_class("gpu", GPU), SKIP),
    "a class that gives it up does not": (asking(**{GPU: 1}), device_class("gpu", GPU), device_class("gpu"), SKIP),
    "an update does not bring the implicit name": (
        asking(**{IMPLICIT: 1}),
        device_class("gpu"),
        device_class("gpu", GPU),
        SKIP,
    ),
}


@pytest.mark.parametrize(("pod", "old", "new", "want"), CLASSES.values(), ids=CLASSES)
def test_after_a_class_change(pod: Pod, old: DeviceClass | None, new: DeviceClass, want: QueueingHint) -> None:
    assert after_class_change(pod, old, new) is want


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
