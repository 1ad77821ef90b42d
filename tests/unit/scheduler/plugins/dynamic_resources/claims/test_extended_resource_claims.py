"""Extended resources backed by device classes."""

from collections.abc import Mapping, Sequence

import pytest
from msgspec.structs import replace
from tests.unit.scheduler.plugins.dynamic_resources.device_builders import (
    claiming,
    device,
    make_claim,
    make_class,
    make_slice,
)

from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.devices import DeviceClass, DeviceClassSpec
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.dynamic_resources.claims.extended_resource_claims import (
    ExtendedResourceClasses,
    make_extended_requests,
)
from moorage.scheduler.plugins.dynamic_resources.plugin import DynamicResources
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

GPU = "example.com/gpu"


CLASS = make_class("gpu", resource=GPU)


CANNOT = Status.unresolvable("cannot allocate all claims")


STALE = {"resource.kubernetes.io/extended-resource-claim": "true"}


def container(name: str, amount: int, *, sidecar: bool = False, **peers: str) -> Container:
    """Make a container that requests devices and other resources."""
    requests = {GPU: str(amount), **peers} if amount else dict(peers)
    return Container(
        name=name, resources=ResourceRequirements(requests=requests), restart_policy="Always" if sidecar else None
    )


MADE: dict[str, tuple[Sequence[Container], Sequence[Container], Mapping[str, int], Sequence[str]]] = {
    "one container": ((), [container("a", 2)], {"container-0-request-0": 2}, ["a container-0-request-0"]),
    "its index among all requests": (
        (),
        [container("a", 1, cpu="1", memory="1Gi")],
        {"container-0-request-1": 1},
        ["a container-0-request-1"],
    ),
    "each container its own": (
        (),
        [container("a", 1), container("b", 0), container("c", 2)],
        {"container-0-request-0": 1, "container-2-request-0": 2},
        ["a container-0-request-0", "c container-2-request-0"],
    ),
    "an init container uses the devices of the others": (
        [container("i", 2)],
        [container("a", 1), container("b", 2)],
        {"container-1-request-0": 1, "container-2-request-0": 2},
        ["a container-1-request-0", "b container-2-request-0", "i container-1-request-0", "i container-2-request-0"],
    ),
    "and requests the difference": (
        [container("i", 3)],
        [container("a", 1)],
        {"container-0-request-0": 2, "container-1-request-0": 1},
        ["a container-1-request-0", "i container-1-request-0", "i container-0-request-0"],
    ),
    "the largest request counts for all init containers": (
        [container("i", 2), container("j", 4), container("k", 3)],
        [container("a", 1)],
        {"container-1-request-0": 3, "container-3-request-0": 1},
        [
            "a container-3-request-0",
            "i container-3-request-0",
            "i container-1-request-0",
            "j container-3-request-0",
            "j container-1-request-0",
            "k container-3-request-0",
            "k container-1-request-0",
        ],
    ),
    "a sidecar keeps its devices, and only those before it use them": (
        [container("i", 1), container("s", 1, sidecar=True), container("j", 1)],
        [container("a", 0)],
        {"container-1-request-0": 1, "container-2-request-0": 1},
        ["s container-1-request-0", "i container-1-request-0", "j container-2-request-0"],
    ),
}


@pytest.mark.parametrize(("init", "containers", "requests", "mappings"), MADE.values(), ids=MADE)
def test_requests(
    init: Sequence[Container], containers: Sequence[Container], requests: Mapping[str, int], mappings: Sequence[str]
) -> None:
    pod = make_pod(containers=tuple(containers), init_containers=tuple(init))
    created = make_extended_requests(pod, [GPU], ExtendedResourceClasses(Rig(CLASS)))
    assert {item.name: item.exactly.count for item in created.requests if item.exactly} == requests
    assert [f"{item.container_name} {item.request_name}" for item in created.mappings] == mappings


PLAIN, SERVED = make_node("n1"), make_node("n1", allocatable={GPU: 4})


NONE_LEFT = make_node("n1", allocatable={GPU: 0})


ASKING = make_pod(requests={GPU: 1})


SLICE = make_slice(device("d"))


JUDGED: dict[str, tuple[Sequence[KubeObject], Pod, Status | None]] = {
    "devices serve the resource": ([PLAIN, CLASS, SLICE], ASKING, None),
    "under the name of the class": (
        [PLAIN, CLASS, SLICE],
        make_pod(requests={"deviceclass.resource.kubernetes.io/gpu": 1}),
        None,
    ),
    "too few": ([PLAIN, CLASS, SLICE], make_pod(requests={GPU: 2}), CANNOT),
    "a device plugin serves it": ([SERVED, CLASS], ASKING, None),
    "one that has nothing": ([NONE_LEFT, CLASS, SLICE], ASKING, None),
    "no devices": ([PLAIN, CLASS], ASKING, CANNOT),
    "no class offers the resource": ([PLAIN, make_class("gpu"), SLICE], ASKING, None),
    "no request": ([PLAIN, CLASS], make_pod(requests={GPU: 0}), None),
    "next to a resource without an offer": (
        [PLAIN, CLASS, SLICE],
        make_pod(requests={GPU: 1, "example.com/other": 1}),
        Status.unresolvable("cannot fit resource"),
    ),
    "next to a claim": (
        [PLAIN, CLASS, make_slice(device("d"), device("e")), make_claim()],
        replace(claiming("claim"), spec=replace(claiming("claim").spec, containers=ASKING.spec.containers)),
        None,
    ),
    "with too few devices for both": (
        [PLAIN, CLASS, SLICE, make_claim()],
        replace(claiming("claim"), spec=replace(claiming("claim").spec, containers=ASKING.spec.containers)),
        CANNOT,
    ),
    "a claim is left from an earlier attempt": (
        [PLAIN, CLASS, SLICE, make_claim(name="left", owner=ASKING, annotations=STALE)],
        ASKING,
        Status.unresolvable("cannot schedule extended resource claim"),
    ),
    "of another pod": (
        [PLAIN, CLASS, SLICE, make_claim(name="left", owner=make_pod("other"), annotations=STALE)],
        ASKING,
        None,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("objects", "pod", "want"), JUDGED.values(), ids=JUDGED)
def test_filter(form: FilterForm, objects: Sequence[KubeObject], pod: Pod, want: Status | None) -> None:
    rig = Rig(*objects)
    assert run_filter(DynamicResources(handle=rig), rig, pod, form) == [want]


@pytest.mark.parametrize("form", FORMS)
def test_nodes_with_and_without_device_plugins_are_filtered_differently(form: FilterForm) -> None:
    nodes = [make_node("n1"), make_node("n2", allocatable={GPU: 1}), make_node("n3")]
    rig = Rig(*nodes, CLASS, make_slice(device("d"), node="n3"))
    assert run_filter(DynamicResources(handle=rig), rig, ASKING, form) == [CANNOT, None, None]


EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


def device_class(name: str, resource: str | None = GPU, created: str | None = EARLY) -> DeviceClass:
    return DeviceClass(
        metadata=ObjectMeta(name=name, creation_timestamp=created),
        spec=DeviceClassSpec(extended_resource_name=resource),
    )


BACKED = {
    "no class has the resource name": ([device_class("a", None)], GPU, None),
    "one class has the resource name": ([device_class("a")], GPU, "a"),
    "the newest of several classes": ([device_class("a"), device_class("b", created=LATE)], GPU, "b"),
    "the newest class, listed first": ([device_class("b", created=LATE), device_class("a")], GPU, "b"),
    "the first by name of equally old classes": ([device_class("b"), device_class("a"), device_class("c")], GPU, "a"),
    "a class without a timestamp is the oldest": ([device_class("a", created=None), device_class("b")], GPU, "b"),
    "the implicit name of a class": ([device_class("a", None)], "deviceclass.resource.kubernetes.io/a", "a"),
    "the implicit name of a missing class": ([device_class("a")], "deviceclass.resource.kubernetes.io/b", None),
}


@pytest.mark.parametrize(("classes", "resource", "want"), BACKED.values(), ids=BACKED)
def test_class_of_a_resource(classes: list[DeviceClass], resource: str, want: str | None) -> None:
    result = ExtendedResourceClasses(Rig(*classes)).find(resource)
    assert (result.name if result else None) == want


def test_classes_follow_changes() -> None:
    rig = Rig(device_class("a"))
    classes = ExtendedResourceClasses(rig)
    before = classes.version
    assert classes.find(GPU) is not None
    rig.add(device_class("a", None))
    assert classes.version > before
    assert classes.find(GPU) is None
