from typing import Any

import pytest

from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.devices import DeviceClass, DeviceClassSpec
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import NodeResourcesFitArgs
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_resources_fit.plugin import NodeResourcesFit
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
    "a pod that asks for nothing needs a place": (node(pods=1), there(), asking(), US("Too many pods")),
    "a full house is never hopeless": (node(pods=0), there(), asking(), US("Too many pods")),
    "but is so with a hopeless shortage": (
        node(pods=1),
        there(),
        asking(cpu=1),
        UAU("Too many pods", "Insufficient cpu"),
    ),
    "a pod that asks for nothing may go where too much is taken": (node(), there(cpu="12m"), asking(), None),
    "an explicit zero may, too": (node(), there(cpu="12m"), asking(cpu=0), None),
    "also beside something else": (node(), there(cpu="12m"), asking(cpu=0, memory=1), None),
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
    "zero of it is not asked for": (node(), there(), asking(**{GPU: 0}), None),
    "huge pages count": (node(**{HUGE: 4}), there(**{HUGE: 4}), asking(**{HUGE: 1}), US(f"Insufficient {HUGE}")),
    "Kubernetes' own prefixed resources count": (node(), there(), asking(**{NATIVE: 1}), UAU(f"Insufficient {NATIVE}")),
    "a resource nobody counts does not": (node(), there(), asking(something=5), None),
    "CPU, memory and storage come before others": (
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
    "a request for pods is no resource": (node(), there(), asking(pods=50), None),
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


IGNORED = {
    "a listed resource need not fit": (NodeResourcesFitArgs(ignored_resources=(GPU,)), UAU(f"Insufficient {FPGA}")),
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
    "a class answers to its own name": (device_class("gpu"), node(), "deviceclass.resource.kubernetes.io/gpu", None),
    "but to no other": (
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
