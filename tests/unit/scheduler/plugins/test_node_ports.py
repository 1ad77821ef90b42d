import pytest

from moorage.kube.api.container import Container, ContainerPort
from moorage.kube.api.pod import Pod, PodStatus
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_ports import TAKEN, NodePorts, after_pod_deletion
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter


def port(number: int, ip: str = "", protocol: str = "") -> ContainerPort:
    return ContainerPort(container_port=80, host_port=number, host_ip=ip, protocol=protocol)


CASES = {
    "a free port is free": (port(81), port(80), None),
    "the same port is taken": (port(80), port(80), TAKEN),
    "an empty address is the wildcard": (port(80), port(80, "0.0.0.0"), TAKEN),
    "an empty protocol is TCP": (port(80, protocol="TCP"), port(80), TAKEN),
    "another protocol does not clash": (port(80, protocol="UDP"), port(80), None),
    "two addresses do not clash": (port(80, "10.0.0.1"), port(80, "10.0.0.2"), None),
    "the same address does": (port(80, "10.0.0.1"), port(80, "10.0.0.1"), TAKEN),
    "the wildcard clashes with an address": (port(80), port(80, "10.0.0.1"), TAKEN),
    "and an address with the wildcard": (port(80, "10.0.0.1"), port(80), TAKEN),
    "but not over another protocol": (port(80, "10.0.0.1", "UDP"), port(80), None),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("requested", "used", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, requested: ContainerPort, used: ContainerPort, want: Status | None) -> None:
    rig = Rig(make_node("free"), make_node("node"), make_pod("there", node="node", host_ports=[used]))
    assert run_filter(NodePorts(), rig, make_pod(host_ports=[requested]), form) == [None, want]


def test_the_reason_is_upstreams_and_preemption_may_help() -> None:
    assert Status.unschedulable("node(s) didn't have free ports for the requested pod ports") == TAKEN


@pytest.mark.parametrize("form", FORMS)
def test_sidecars_take_ports_and_init_containers_do_not(form: FilterForm) -> None:
    sidecar = make_pod(init_containers=(Container("s", restart_policy="Always", ports=(port(80),)),))
    init = make_pod(init_containers=(Container("i", ports=(port(80),)),))
    rig = Rig(make_node("node"), make_pod("there", node="node", host_ports=[80]))
    assert run_filter(NodePorts(), rig, sidecar, form) == [TAKEN]
    assert run_filter(NodePorts(), rig, init, form) == [None]


def test_a_pod_without_host_ports_is_passed_over() -> None:
    assert NodePorts().pre_filter(CycleState(), make_pod(), Rig().nodes) == Status.skip()
    assert NodePorts().pre_filter(CycleState(), make_pod(host_ports=[0]), Rig().nodes) == Status.skip()


HINTS = {
    "a pod that held the port on its node helps": (make_pod(node="n", host_ports=[80]), QueueingHint.QUEUE),
    "one that was promised a node does, too": (
        make_pod(host_ports=[80], status=PodStatus(nominated_node_name="n")),
        QueueingHint.QUEUE,
    ),
    "one that was nowhere does not": (make_pod(host_ports=[80]), QueueingHint.SKIP),
    "one without ports does not": (make_pod(node="n"), QueueingHint.SKIP),
    "one with another port does not": (make_pod(node="n", host_ports=[81]), QueueingHint.SKIP),
}


@pytest.mark.parametrize(("deleted", "want"), HINTS.values(), ids=HINTS)
def test_hint_after_a_deletion(deleted: Pod, want: QueueingHint) -> None:
    assert after_pod_deletion(make_pod(host_ports=[80]), deleted, None) is want


def test_events() -> None:
    deletion, node = NodePorts().events_to_register()
    assert deletion.event == ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
    assert node.event == ClusterEvent(Resource.NODE, Action.ADD)
    assert node.hint is None
