import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import Action, ClusterEvent, Resource
from moorage.scheduler.framework.plugin import NodeNames
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_name import OTHER_NODE, NodeName
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

NODES = [make_node("a"), make_node("b"), make_node("c")]

CASES = {
    "a pod that names no node may go anywhere": (make_pod(), [None, None, None]),
    "a pod with a node name fits only there": (make_pod(node="b"), [OTHER_NODE, None, OTHER_NODE]),
    "a pod that names an unknown node fits no node": (make_pod(node="x"), [OTHER_NODE] * 3),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("pod", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, pod: Pod, want: list[Status | None]) -> None:
    assert run_filter(NodeName(), Rig(*NODES), pod, form) == want


def test_the_reason_is_upstreams() -> None:
    assert Status.unresolvable("node(s) didn't match the requested node name") == OTHER_NODE


def test_the_search_is_narrowed_to_the_named_node() -> None:
    nodes = Rig(*NODES).nodes
    assert NodeName().pre_filter(CycleState(), make_pod(node="b"), nodes) == NodeNames(frozenset({"b"}))
    assert NodeName().pre_filter(CycleState(), make_pod(), nodes) is None


def test_only_a_new_node_triggers_a_retry() -> None:
    (registration,) = NodeName().events_to_register()
    assert registration.event == ClusterEvent(Resource.NODE, Action.ADD)
    assert registration.hint is None
