import pytest

from moorage.kube.api.affinity import NO_SCHEDULE, Taint, Toleration
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, ClusterEvent, QueueingHint, Resource
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_unschedulable import (
    CORDON,
    CORDONED,
    NodeUnschedulable,
    after_node_change,
)
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter

OPEN, CLOSED = make_node(), make_node(cordoned=True)
KEY = CORDON.key

CASES = {
    "an ordinary node is accepted": (OPEN, make_pod(), None),
    "a cordoned node is rejected permanently": (CLOSED, make_pod(), CORDONED),
    "unless the pod tolerates the cordon": (CLOSED, make_pod(tolerates=[KEY]), None),
    "or tolerates everything": (CLOSED, make_pod(tolerates=[Toleration(operator="Exists")]), None),
    "or any taint without a value": (CLOSED, make_pod(tolerates=[Toleration()]), None),
    "a toleration for another effect does not help": (
        CLOSED,
        make_pod(tolerates=[Toleration(operator="Exists", effect="NoExecute")]),
        CORDONED,
    ),
    "a toleration for a value does not help": (
        CLOSED,
        make_pod(tolerates=[Toleration(key=KEY, value="true")]),
        CORDONED,
    ),
    "the taint alone does not cordon": (
        make_node(taints=[Taint(key=KEY, effect=NO_SCHEDULE)]),
        make_pod(),
        None,
    ),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("node", "pod", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, node: Node, pod: Pod, want: Status | None) -> None:
    assert run_filter(NodeUnschedulable(), Rig(node), pod, form) == [want]


def test_the_reason_is_upstreams() -> None:
    assert Status.unresolvable("node(s) were unschedulable") == CORDONED


def test_a_verdict_does_not_change_with_the_cluster() -> None:
    rig = Rig(make_node("a"))
    verdict = NodeUnschedulable().filter_nodes(None, make_pod(), rig.nodes)  # type: ignore[arg-type]
    rig.add(make_node("a", cordoned=True))
    assert verdict.status_at(0) is None


NODE_HINTS = {
    "a new open node helps": (None, OPEN, QueueingHint.QUEUE),
    "a new cordoned node does not": (None, CLOSED, QueueingHint.SKIP),
    "uncordoning helps": (CLOSED, OPEN, QueueingHint.QUEUE),
    "cordoning does not": (OPEN, CLOSED, QueueingHint.SKIP),
    "an open node that remains open does not": (OPEN, OPEN, QueueingHint.SKIP),
    "a cordoned node that remains cordoned does not": (CLOSED, CLOSED, QueueingHint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_HINTS.values(), ids=NODE_HINTS)
def test_hint_after_a_node_change(old: Node | None, new: Node, want: QueueingHint) -> None:
    assert after_node_change(make_pod(), old, new) is want


def test_hint_after_a_change_of_tolerations() -> None:
    pod = make_pod()
    hint = NodeUnschedulable().events_to_register()[1].hint
    assert hint is not None
    assert hint(pod, pod, make_pod(tolerates=[KEY])) is QueueingHint.QUEUE
    assert hint(pod, pod, make_pod(tolerates=["other"])) is QueueingHint.SKIP


def test_events() -> None:
    assert [item.event for item in NodeUnschedulable().events_to_register()] == [
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT),
        ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION),
    ]


def test_pods_with_irrelevant_differences_share_results() -> None:
    plugin = NodeUnschedulable()
    assert plugin.sign(make_pod(tolerates=["a"])) == plugin.sign(make_pod(tolerates=["b"]))
    assert plugin.sign(make_pod(tolerates=[KEY])) != plugin.sign(make_pod())
