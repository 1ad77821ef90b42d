"""Compares two versions of a pod or node, and returns the events that plugins can register for."""

from collections.abc import Callable
from typing import Final

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.quantity import ResourceList, nano_value
from moorage.kube.api.requests import has_kubelet_report, placed_milli_requests
from moorage.scheduler.framework.events import Action, ClusterEvent, Resource


def pod_changes(old: Pod, new: Pod, *, is_target: bool = False) -> list[ClusterEvent]:
    """Return the events for a changed pod; other changes are one event with the action Update.

    ``is_target`` means that the pending pod itself changed, not another pod.
    """
    if new.node_name:
        resource = Resource.ASSIGNED_POD
    else:
        resource = Resource.TARGET_POD if is_target else Resource.UNSCHEDULED_POD
    actions = [action for action, has_changed in _POD_CHANGES if has_changed(old, new)]
    return [ClusterEvent(resource, action) for action in actions or (Action.UPDATE,)]


def node_changes(old: Node, new: Node) -> list[ClusterEvent]:
    """Return the events for a changed node; irrelevant changes, such as heartbeats, cause no event."""
    return [ClusterEvent(Resource.NODE, action) for action, has_changed in _NODE_CHANGES if has_changed(old, new)]


def _scaled_down(old: Pod, new: Pod) -> bool:
    if old.spec is new.spec and not (has_kubelet_report(old) or has_kubelet_report(new)):
        return False
    before, after = placed_milli_requests(old), placed_milli_requests(new)
    return any(name not in after or amount > after[name] for name, amount in before.items())


def _scaled_up(old: Pod, new: Pod) -> bool:
    return _scaled_down(new, old)


def _claims_changed(old: Pod, new: Pod) -> bool:
    before, after = old.status, new.status
    return (
        before.resource_claim_statuses != after.resource_claim_statuses
        or before.extended_resource_claim_status != after.extended_resource_claim_status
    )


def _amounts(resources: ResourceList) -> dict[str, int]:
    return {name: nano_value(quantity) for name, quantity in resources.items()}


def _allocatable_changed(old: Node, new: Node) -> bool:
    before, after = old.status.allocatable, new.status.allocatable
    # Different strings can be the same amount: "1" and "1000m".
    return before != after and _amounts(before) != _amounts(after)


def _condition_statuses(node: Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


_POD_CHANGES: Final[tuple[tuple[Action, Callable[[Pod, Pod], bool]], ...]] = (
    (Action.UPDATE_POD_LABEL, lambda old, new: old.labels != new.labels),
    (Action.UPDATE_POD_SCALE_DOWN, _scaled_down),
    (Action.UPDATE_POD_SCALE_UP, _scaled_up),
    (
        Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED,
        lambda old, new: bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates,
    ),
    # Tolerations can only be added, so comparing their number is enough.
    (Action.UPDATE_POD_TOLERATION, lambda old, new: len(old.spec.tolerations) != len(new.spec.tolerations)),
    (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _claims_changed),
)

_NODE_CHANGES: Final[tuple[tuple[Action, Callable[[Node, Node], bool]], ...]] = (
    # Upstream has no event for uncordon: it counts as a removed taint.
    (Action.UPDATE_NODE_TAINT, lambda old, new: old.spec.unschedulable and not new.spec.unschedulable),
    (Action.UPDATE_NODE_ALLOCATABLE, _allocatable_changed),
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
