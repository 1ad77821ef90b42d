from typing import Any

import pytest
from tests.support.reconciling import NOW, describe, make, pod, status_in, waits_in

from moorage.cluster.controllers.actions import ControllerAction, Patch
from moorage.cluster.controllers.informer_cache import InformerCache
from moorage.cluster.controllers.node_lifecycle import EvictionController, NodeController, evict
from moorage.common.clock import VirtualClock
from moorage.kube.api.meta import format_micro_time, format_time
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.records import Lease

CORDON, NOT_READY, UNREACHABLE = (
    f"node.kubernetes.io/{name}" for name in ("unschedulable", "not-ready", "unreachable")
)


def node(ready: str = "True", *taints: tuple[str, str], cordoned: bool = False) -> Node:
    conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": format_time(NOW - 300)}]
    spec: dict[str, Any] = {"taints": [{"key": key, "effect": effect} for key, effect in taints]}
    return make(Node, "n1", age=500.0, spec=spec | {"unschedulable": cordoned}, status={"conditions": conditions})


def lease(seconds_ago: float) -> Lease:
    spec = {"renewTime": format_micro_time(NOW - seconds_ago), "leaseDurationSeconds": 40}
    return make(Lease, "n1", metadata={"namespace": "kube-node-lease"}, spec=spec)


def reconcile(obj: Node, renewed: Lease | None) -> list[ControllerAction]:
    cache = InformerCache([obj, *([renewed] if renewed is not None else [])])
    return list(NodeController(VirtualClock()).reconcile("n1", cache))


def both(key: str) -> list[tuple[str, str]]:
    return [(key, "NoSchedule"), (key, "NoExecute")]


CASES = {
    "a node that reports has no taints": (node(), lease(5), None),
    "a node that is not ready has two taints": (node("False"), lease(5), both(NOT_READY)),
    "a node with an expired lease is unreachable": (node(), lease(51), both(UNREACHABLE)),
    "a late renewal is tolerated": (node(), lease(49), None),
    "an unreachable node keeps its taints": (node("Unknown", *both(UNREACHABLE)), lease(200), None),
    "a recovered node loses these taints and keeps others": (
        node("True", ("gpu", "NoSchedule"), *both(UNREACHABLE)),
        lease(5),
        [("gpu", "NoSchedule")],
    ),
    "a cordoned node has a taint": (node(cordoned=True), lease(5), [(CORDON, "NoSchedule")]),
    "without a lease the age of the condition decides": (node(), None, both(UNREACHABLE)),
}


@pytest.mark.parametrize(("obj", "renewed", "want"), CASES.values(), ids=CASES)
def test_taints(obj: Node, renewed: Lease | None, want: list[tuple[str, str]] | None) -> None:
    patches = [a for a in reconcile(obj, renewed) if isinstance(a, Patch) and not a.subresource]
    actual = [[(t["key"], t["effect"]) for t in patch.patch["spec"]["taints"] or ()] for patch in patches]
    assert actual == ([] if want is None else [want])


def test_silent_node_gets_unknown_conditions() -> None:
    status = status_in(reconcile(node(), lease(60)))
    assert [(item["type"], item["status"]) for item in status["conditions"]] == [("Ready", "Unknown")]


def test_node_is_requeued_when_its_lease_expires() -> None:
    assert waits_in(reconcile(node(), lease(10))) == [pytest.approx(40.1)]


def tolerating(seconds: int | None) -> Pod:
    toleration: dict[str, Any] = {"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute"}
    if seconds is not None:
        toleration["tolerationSeconds"] = seconds
    return pod("p", tolerations=[toleration])


EVICTIONS = {
    "a pod without a toleration is deleted": (pod("p"), 0.0, ["delete p"], []),
    "a pod with tolerationSeconds remains": (tolerating(300), 10.0, [], [290.0]),
    "a pod is deleted when tolerationSeconds have passed": (tolerating(300), 300.0, ["delete p"], []),
    "a pod with an unlimited toleration remains": (tolerating(None), 9999.0, [], []),
    "a terminating pod is unchanged": (pod("p", stopping=True), 10.0, [], []),
}


@pytest.mark.parametrize(("obj", "tainted_for", "want", "waits"), EVICTIONS.values(), ids=EVICTIONS)
def test_taints_evict_pods(obj: Pod, tainted_for: float, want: list[str], waits: list[float]) -> None:
    actions = list(evict(obj, node("Unknown", *both(UNREACHABLE)), NOW - tainted_for, NOW))
    assert describe(actions) == want
    assert waits_in(actions) == waits


def test_pods_of_a_silent_node_are_not_ready() -> None:
    status = status_in(evict(tolerating(300), node("Unknown", *both(UNREACHABLE)), NOW, NOW))
    assert [(item["type"], item["status"]) for item in status["conditions"]] == [("Ready", "False")]


def test_pod_of_a_deleted_node_is_deleted_after_a_delay() -> None:
    clock, cache = VirtualClock(), InformerCache([pod("p")])
    controller = EvictionController(clock)
    assert waits_in(controller.reconcile("shop/p", cache)) == [20.0]
    clock.advance(19)
    assert describe(controller.reconcile("shop/p", cache)) == []
    clock.advance(1)
    assert describe(controller.reconcile("shop/p", cache)) == ["delete p at once"]
