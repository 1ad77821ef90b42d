import pytest

from moorage.kube.api.meta import Condition
from moorage.kube.api.node import Node, NodeSpec, PodPreemptionPolicy
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.events import QueueingHint
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.deferred_pod_scheduling import (
    FITS,
    GATE,
    NO_PREEMPTION,
    OTHER_NODE,
    DeferredPodScheduling,
)
from moorage.testing import make_node, make_pod
from moorage.testing.rig import FORMS, FilterForm, Rig, run_filter


def resizing(reason: str, node: str = "a") -> Pod:
    pending = Condition(type="PodResizePending", status="True", reason=reason)
    return make_pod(node=node, status=PodStatus(conditions=(pending,)))


def strict(name: str) -> Node:
    policy = PodPreemptionPolicy(disable_resize_preemption=("example.org/careful",))
    return Node(metadata=make_node(name).metadata, spec=NodeSpec(pod_preemption_policy=policy))


DEFERRED = resizing("Deferred")


def plugin(rig: Rig) -> DeferredPodScheduling:
    return DeferredPodScheduling(handle=rig)


def rig(*nodes: Node, on: bool = True) -> Rig:
    return Rig(*nodes, features=FeatureGates({GATE: on}))


CASES = {
    "O5 the pod's own node is accepted": (DEFERRED, [make_node("a"), make_node("b")], [None, OTHER_NODE]),
    "O7 unless it forbids preemption": (DEFERRED, [strict("a")], [NO_PREEMPTION]),
    "other pods are passed over": (make_pod(), [strict("a")], [None]),
    "an infeasible resize is not deferred": (resizing("Infeasible", "b"), [strict("a")], [None]),
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(("pod", "nodes", "want"), CASES.values(), ids=CASES)
def test_filter(form: FilterForm, pod: Pod, nodes: list[Node], want: list[Status | None]) -> None:
    handle = rig(*nodes)
    assert run_filter(plugin(handle), handle, pod, form) == want


def test_a_pod_that_fits_is_held_back_for_the_kubelet() -> None:
    assert plugin(rig()).permit(CycleState(), DEFERRED, "a") == FITS
    assert plugin(rig()).permit(CycleState(), make_pod(), "a") is None


def test_without_its_gate_the_plugin_does_nothing() -> None:
    off = plugin(rig(on=False))
    assert off.pre_filter(CycleState(), DEFERRED, Rig().nodes) == Status.skip()
    assert off.permit(CycleState(), DEFERRED, "a") is None
    assert off.after_node_change(DEFERRED, None, make_node("a")) is QueueingHint.SKIP


HINTS = {
    "the pod's node was added": (None, make_node("a"), QueueingHint.QUEUE),
    "the pod's node was added, but forbids preemption": (None, strict("a"), QueueingHint.SKIP),
    "O7 the pod's node began to allow it": (strict("a"), make_node("a"), QueueingHint.QUEUE),
    "O7 the pod's node allowed it before": (make_node("a"), make_node("a"), QueueingHint.SKIP),
    "another node was added": (None, make_node("b"), QueueingHint.SKIP),
    "another node began to allow it": (strict("b"), make_node("b"), QueueingHint.SKIP),
}


@pytest.mark.parametrize(("old", "new", "want"), HINTS.values(), ids=HINTS)
def test_hints(old: Node | None, new: Node, want: QueueingHint) -> None:
    assert plugin(rig()).after_node_change(DEFERRED, old, new) is want
