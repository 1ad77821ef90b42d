from typing import Any

import msgspec
import pytest

from moorage.kube.api.affinity import Taint
from moorage.kube.api.container import ContainerStatus
from moorage.kube.api.meta import Condition
from moorage.kube.api.node import Node, NodeSpec, NodeStatus, PodPreemptionPolicy
from moorage.kube.api.pod import (
    ExtendedResourceClaimStatus,
    Pod,
    PodResourceClaimStatus,
    PodStatus,
    SchedulingGate,
)
from moorage.scheduler.framework.events import Action, Resource
from moorage.scheduler.queue.changes import node_changes, pod_changes
from moorage.testing import make_node, make_pod

BASE = make_pod("p", uid="u", requests={"cpu": "500m", "memory": "1Gi"}, labels={"app": "web"})


def pod(**fields: Any) -> Pod:
    defaults: dict[str, Any] = {"requests": {"cpu": "500m", "memory": "1Gi"}, "labels": {"app": "web"}}
    return make_pod("p", uid="u", **(defaults | fields))


def resized(cpu: str) -> PodStatus:
    return PodStatus(container_statuses=(ContainerStatus(name="main", allocated_resources={"cpu": cpu}),))


LABEL, DOWN, UP = Action.UPDATE_POD_LABEL, Action.UPDATE_POD_SCALE_DOWN, Action.UPDATE_POD_SCALE_UP
UNGATED = Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED
TOLERATION, CLAIM = Action.UPDATE_POD_TOLERATION, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM
GATES = (SchedulingGate("a"), SchedulingGate("b"))

POD_CHANGES: dict[str, tuple[Pod, Pod, list[Action]]] = {
    "nothing in particular is a plain update": (BASE, pod(image="app:2"), [Action.UPDATE]),
    "not even anything is one, too": (BASE, BASE, [Action.UPDATE]),
    "labels": (BASE, pod(labels={"app": "db"}), [LABEL]),
    "a request that shrinks": (BASE, pod(requests={"cpu": "499m", "memory": "1Gi"}), [DOWN]),
    "a request that is dropped": (BASE, pod(requests={"cpu": "500m"}), [DOWN]),
    "a request that grows": (BASE, pod(requests={"cpu": "500m", "memory": "2Gi"}), [UP]),
    "a new request": (BASE, pod(requests={"cpu": "500m", "memory": "1Gi", "gpu.io/x": 1}), [UP]),
    "a new request of nothing is still new": (BASE, pod(requests={"cpu": "500m", "memory": "1Gi", "x.io/x": 0}), [UP]),
    "one up and one down": (BASE, pod(requests={"cpu": "1", "memory": "1Mi"}), [DOWN, UP]),
    "the same request written differently": (BASE, pod(requests={"cpu": 0.5, "memory": "1024Mi"}), [Action.UPDATE]),
    "less than a thousandth is not noticed": (
        pod(requests={"cpu": "1m"}),
        pod(requests={"cpu": "100u"}),
        [Action.UPDATE],
    ),
    "thousandths of a byte are noticed": (pod(requests={"memory": "1500m"}), pod(requests={"memory": "1400m"}), [DOWN]),
    "what the kubelet still holds is treated as requested": (
        BASE,
        pod(requests={"cpu": "100m", "memory": "1Gi"}, status=resized("500m")),
        [Action.UPDATE],
    ),
    "until it is given up": (
        pod(requests={"cpu": "100m", "memory": "1Gi"}, status=resized("500m")),
        pod(requests={"cpu": "100m", "memory": "1Gi"}, status=resized("100m")),
        [DOWN],
    ),
    "the last gates are lifted": (pod(scheduling_gates=GATES), pod(), [UNGATED]),
    "removing one of two gates has no effect": (
        pod(scheduling_gates=GATES),
        pod(scheduling_gates=GATES[:1]),
        [Action.UPDATE],
    ),
    "a toleration": (BASE, pod(tolerates=["x"]), [TOLERATION]),
    "a replaced toleration is not detected": (pod(tolerates=["x"]), pod(tolerates=["y"]), [Action.UPDATE]),
    "a claim was made": (
        BASE,
        pod(status=PodStatus(resource_claim_statuses=(PodResourceClaimStatus("a", "claim-a"),))),
        [CLAIM],
    ),
    "a claim for extended resources was made": (
        BASE,
        pod(status=PodStatus(extended_resource_claim_status=ExtendedResourceClaimStatus(resource_claim_name="x"))),
        [CLAIM],
    ),
    "all together, in upstream's order": (
        pod(scheduling_gates=GATES),
        pod(
            labels={},
            requests={"cpu": 1},
            tolerates=["x"],
            status=PodStatus(resource_claim_statuses=(PodResourceClaimStatus("a", "claim-a"),)),
        ),
        [LABEL, DOWN, UP, UNGATED, TOLERATION, CLAIM],
    ),
}


@pytest.mark.parametrize(("old", "new", "want"), POD_CHANGES.values(), ids=POD_CHANGES)
def test_pod_changes(old: Pod, new: Pod, want: list[Action]) -> None:
    assert [event.action for event in pod_changes(old, new)] == want


RESOURCES = {
    "a pod on a node": ("n", False, Resource.ASSIGNED_POD),
    "a pod on a node is never the target": ("n", True, Resource.ASSIGNED_POD),
    "the waiting pod itself": ("", True, Resource.TARGET_POD),
    "another waiting pod": ("", False, Resource.UNSCHEDULED_POD),
}


@pytest.mark.parametrize(("node", "is_target", "want"), RESOURCES.values(), ids=RESOURCES)
def test_change_resource_depends_on_the_pod(node: str, is_target: bool, want: Resource) -> None:
    new = pod(node=node, labels={})
    assert [event.resource for event in pod_changes(BASE, new, is_target=is_target)] == [want]


NODE = make_node("n", labels={"a": "b"}, allocatable={"cpu": 4})
ALLOCATABLE, CONDITION = Action.UPDATE_NODE_ALLOCATABLE, Action.UPDATE_NODE_CONDITION
TAINT, NODE_LABEL = Action.UPDATE_NODE_TAINT, Action.UPDATE_NODE_LABEL
ANNOTATION, FEATURE = Action.UPDATE_NODE_ANNOTATION, Action.UPDATE_NODE_DECLARED_FEATURE
POLICY = Action.UPDATE_NODE_PREEMPTION_POLICY
READY = (Condition(type="Ready", status="True", last_probe_time="2026-01-01T00:00:00Z"),)


def status(**fields: Any) -> Node:
    return msgspec.structs.replace(NODE, status=msgspec.structs.replace(NODE.status, **fields))


def spec(**fields: Any) -> Node:
    return msgspec.structs.replace(NODE, spec=NodeSpec(**fields))


def meta(**fields: Any) -> Node:
    return msgspec.structs.replace(NODE, metadata=msgspec.structs.replace(NODE.metadata, **fields))


NODE_CHANGES: dict[str, tuple[Node, Node, list[Action]]] = {
    "nothing": (NODE, NODE, []),
    "a cordon": (NODE, spec(unschedulable=True), []),
    "a lifted cordon is treated as a taint": (spec(unschedulable=True), NODE, [TAINT]),
    "a lifted cordon and its taint are two": (
        spec(unschedulable=True, taints=(Taint(key="k", effect="NoSchedule"),)),
        NODE,
        [TAINT, TAINT],
    ),
    "a taint": (NODE, spec(taints=(Taint(key="k", effect="NoSchedule"),)), [TAINT]),
    "allocatable": (NODE, status(allocatable={"cpu": 5, "memory": "32Gi", "pods": 110}), [ALLOCATABLE]),
    "a resource more": (NODE, status(allocatable=NODE.status.allocatable | {"x.io/x": 0}), [ALLOCATABLE]),
    "allocatable written differently": (NODE, status(allocatable=NODE.status.allocatable | {"cpu": "4000m"}), []),
    "labels": (NODE, meta(labels={}), [NODE_LABEL]),
    "annotations": (NODE, meta(annotations={"a": "b"}), [ANNOTATION]),
    "a resource version": (NODE, meta(resource_version="2"), []),
    "a condition": (NODE, status(conditions=READY), [CONDITION]),
    "a heartbeat": (status(conditions=READY), status(conditions=(Condition(type="Ready", status="True"),)), []),
    "images": (NODE, status(images=()), []),
    "declared features": (NODE, status(declared_features=("x",)), [FEATURE]),
    "preemption policy": (
        NODE,
        spec(pod_preemption_policy=PodPreemptionPolicy(disable_resize_preemption="x")),
        [POLICY],
    ),
    "all together, in upstream's order": (
        spec(unschedulable=True),
        Node(
            metadata=msgspec.structs.replace(NODE.metadata, labels={}, annotations={"a": "b"}),
            spec=NodeSpec(taints=(Taint(key="k"),), pod_preemption_policy=PodPreemptionPolicy()),
            status=NodeStatus(conditions=READY, declared_features=("x",)),
        ),
        [TAINT, ALLOCATABLE, NODE_LABEL, TAINT, CONDITION, ANNOTATION, POLICY, FEATURE],
    ),
}


@pytest.mark.parametrize(("old", "new", "want"), NODE_CHANGES.values(), ids=NODE_CHANGES)
def test_node_changes(old: Node, new: Node, want: list[Action]) -> None:
    events = node_changes(old, new)
    assert [event.action for event in events] == want
    assert {event.resource for event in events} <= {Resource.NODE}
