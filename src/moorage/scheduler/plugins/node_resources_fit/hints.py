"""Queueing hints of NodeResourcesFit."""

from collections.abc import Sequence

from moorage.kube.api.devices import DeviceClass
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import PODS
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.plugins.extended_resources import IMPLICIT_PREFIX, ExtendedResourceClasses
from moorage.scheduler.plugins.node_resources_fit.demands import DemandReader, shortages


class FitHints:
    """The queueing hints of NodeResourcesFit."""

    def __init__(self, classes: ExtendedResourceClasses, *, grows: bool = False) -> None:
        # As upstream, hints do not consider the ignored resources of the configuration.
        self._demands = DemandReader(classes)
        self._grows = grows

    def registrations(self) -> Sequence[EventRegistration]:
        """List the events with their hints."""
        node_change = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE
        own_change = Action.UPDATE_POD_SCALE_DOWN
        if self._grows:
            own_change |= Action.UPDATE_POD_SCALE_UP
        return (
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE), self.after_pod_deletion),
            EventRegistration(ClusterEvent(Resource.NODE, node_change), self.after_node_change),
            EventRegistration(ClusterEvent(Resource.DEVICE_CLASS, Action.ADD | Action.UPDATE), after_class_change),
            EventRegistration(ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE_POD_SCALE_DOWN), self.after_scale_down),
            EventRegistration(ClusterEvent(Resource.TARGET_POD, own_change)),
        )

    def _is_elsewhere(self, pod: Pod, node: str) -> bool:
        """Return whether the event is on another node than that of a pod with a deferred resize."""
        return self._grows and pod.has_deferred_resize and pod.node_name != node

    def after_pod_deletion(self, pod: Pod, old: Pod, new: Pod | None) -> QueueingHint:
        """Queue when an assigned or nominated pod was deleted."""
        if self._is_elsewhere(pod, old.node_name):
            return QueueingHint.SKIP
        return QueueingHint.QUEUE if old.node_name or old.nominated_node_name else QueueingHint.SKIP

    def after_scale_down(self, pod: Pod, old: Pod, new: Pod) -> QueueingHint:
        """Queue when an assigned pod reduced a resource that this pod requests."""
        if not new.node_name or self._is_elsewhere(pod, new.node_name):
            return QueueingHint.SKIP
        before, after = old.requests_on_node, new.requests_on_node
        requested = (name for name, amount in pod.requests_on_node.items() if amount and name != PODS)
        gave_up = any(before.get(name, 0) > after.get(name, 0) for name in requested)
        return QueueingHint.QUEUE if gave_up else QueueingHint.SKIP

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        """Queue when a node was added or a requested resource grew, and the pod fits the empty node."""
        if self._is_elsewhere(pod, new.name) or shortages(self._demands.read(pod), NodeInfo(new)):
            return QueueingHint.SKIP
        if old is None or self._has_grown(pod, old, new):
            return QueueingHint.QUEUE
        return QueueingHint.SKIP

    def _has_grown(self, pod: Pod, old: Node, new: Node) -> bool:
        requested = [PODS, *(name for name, amount in pod.requests.items() if amount > 0 and name != PODS)]
        if any(new.allocatable.get(name, 0) > old.allocatable.get(name, 0) for name in requested):
            return True
        return any(new.allocatable.get(name, 0) <= 0 and self._demands.is_delegable(name) for name in requested[1:])


def after_class_change(pod: Pod, old: DeviceClass | None, new: DeviceClass) -> QueueingHint:
    """Queue when a class begins to back a resource that the pod requests."""
    offered = new.spec.extended_resource_name or ""
    if old is None:
        # The implicit name of a class is fixed, so it matters only when the class is added.
        is_wanted = IMPLICIT_PREFIX + new.name in pod.requests or offered in pod.requests
    else:
        is_wanted = offered != (old.spec.extended_resource_name or "") and offered in pod.requests
    return QueueingHint.QUEUE if is_wanted else QueueingHint.SKIP
