"""Queueing hints of PodTopologySpread."""

from collections.abc import Sequence

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.plugins.pod_topology_spread.spread_constraints import Constraints, ConstraintSource


class SpreadHints:
    """Hints for one profile, including its default constraints."""

    def __init__(self, source: ConstraintSource) -> None:
        self._source = source

    def events(self) -> Sequence[EventRegistration]:
        """Return the events with their hints."""
        return (
            EventRegistration(
                ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
                self.after_assigned_pod,
            ),
            EventRegistration(
                ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_TOLERATION | Action.UPDATE_POD_LABEL),
                self.after_own_change,
            ),
            EventRegistration(
                ClusterEvent(
                    Resource.NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
                ),
                self.after_node,
            ),
        )

    def after_assigned_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queue when a counted pod was added or deleted, or when a pod began or ceased to count."""
        if any(assigned is not None and not _is_involved(assigned, pod) for assigned in (old, new)):
            return QueueingHint.SKIP
        constraints = self._source.hard(pod)
        if old is not None and new is not None:
            return queue_if(_match_changed(constraints, old, new))
        assigned = new if new is not None else old
        assert assigned is not None
        return queue_if(any(constraint.matcher.matches(assigned.labels) for constraint in constraints))

    def after_own_change(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        """Queue when the pod's tolerations change the included nodes, or when the pod's own match changes."""
        constraints = self._source.hard(pod)
        if old.spec.tolerations != new.spec.tolerations and any(item.honors_taints for item in constraints):
            return QueueingHint.QUEUE
        return queue_if(_match_changed(constraints, old, new))

    def after_node(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue when a node joined, left or changed a domain."""
        constraints = self._source.hard(pod)
        was_in = old is not None and _has_all_keys(old, constraints)
        is_in = new is not None and _has_all_keys(new, constraints)
        if old is None or new is None:
            return queue_if(was_in or is_in)
        moved = any(old.labels.get(item.topology_key) != new.labels.get(item.topology_key) for item in constraints)
        return queue_if(was_in != is_in or (is_in and (moved or old.taints != new.taints)))


def _is_involved(assigned: Pod, pod: Pod) -> bool:
    return bool(assigned.node_name or assigned.nominated_node_name) and assigned.namespace == pod.namespace


def _has_all_keys(node: Node, constraints: Constraints) -> bool:
    return all(constraint.topology_key in node.labels for constraint in constraints)


def _match_changed(constraints: Constraints, old: Pod, new: Pod) -> bool:
    return old.labels != new.labels and any(
        item.matcher.matches(old.labels) != item.matcher.matches(new.labels) for item in constraints
    )
