"""Compares two versions of a pod or node, and returns the events that plugins can register for."""

from collections.abc import Callable
from typing import Final

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import nano_value
from moorage.kube.api.requests import has_kubelet_report, placed_milli_requests
from moorage.scheduler.framework.events import Action, ClusterEvent, Resource


def pod_changes(old: Pod, new: Pod, *, is_target: bool = False) -> list[ClusterEvent]:
    """Return the events for a changed pod, by default one Update; ``is_target``: the pending pod itself changed."""
    if new.node_name:
        resource = Resource.ASSIGNED_POD
    else:
        resource = Resource.TARGET_POD if is_target else Resource.UNSCHEDULED_POD
    actions = [action for action, has_changed in _POD_CHANGES if has_changed(old, new)]
    return [ClusterEvent(resource, action) for action in actions or (Action.UPDATE,)]


def node_changes(old: Node, new: Node) -> list[ClusterEvent]:
    """Return the events for a changed node. Irrelevant changes, such as heartbeats, cause no event."""
    return [ClusterEvent(Resource.NODE, action) for action, has_changed in _NODE_CHANGES if has_changed(old, new)]


def _scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec is new.spec and not (has_kubelet_report(old) or has_kubelet_report(new)):
        return False
    before, after = placed_milli_requests(old), placed_milli_requests(new)
    return any(name not in after or amount > after[name] for name, amount in before.items())


def _claims(pod: Pod) -> tuple[object, object]:
    return pod.status.resource_claim_statuses, pod.status.extended_resource_claim_status


def _amounts(node: Node) -> dict[str, int]:
    # Different strings can be the same amount: "1" and "1000m".
    return {name: nano_value(quantity) for name, quantity in node.status.allocatable.items()}


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


_POD_CHANGES: Final[tuple[tuple[Action, Callable[[Pod, Pod], bool]], ...]] = (
    (Action.UPDATE_POD_LABEL, lambda old, new: old.labels != new.labels),
    (Action.UPDATE_POD_SCALE_DOWN, _scaled_down),
    (Action.UPDATE_POD_SCALE_UP, lambda old, new: _scaled_down(new, old)),
    (
        Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        lambda old, new: bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates,
    ),
    # Tolerations can only be added, so comparing their number is sufficient.
    (Action.UPDATE_POD_TOLERATION, lambda old, new: len(old.spec.tolerations) != len(new.spec.tolerations)),
    (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, lambda old, new: _claims(old) != _claims(new)),
)

_NODE_CHANGES: Final[tuple[tuple[Action, Callable[[Node, Node], bool]], ...]] = (
    # Upstream has no event for uncordon: it is treated as a removed taint.
    (Action.UPDATE_NODE_TAINT, lambda old, new: old.spec.unschedulable and not new.spec.unschedulable),
    (
        Action.UPDATE_NODE_ALLOCATABLE,
        lambda old, new: old.status.allocatable != new.status.allocatable and _amounts(old) != _amounts(new),
    ),
    (Action.UPDATE_NODE_LABEL, lambda old, new: old.labels != new.labels),
    (Action.UPDATE_NODE_TAINT, lambda old, new: old.spec.taints != new.spec.taints),
    (Action.UPDATE_NODE_CONDITION, lambda old, new: _condition_statuses(old) != _condition_statuses(new)),
    (Action.UPDATE_NODE_ANNOTATION, lambda old, new: old.annotations != new.annotations),
    (
        Action.UPDATE_NODE_PREEMPTION_POLICY,
        lambda old, new: old.spec.pod_preemption_policy != new.spec.pod_preemption_policy,
    ),
    (
        Action.UPDATE_NODE_DECLARED_FEATURE,
        lambda old, new: old.status.declared_features != new.status.declared_features,
    ),
)
