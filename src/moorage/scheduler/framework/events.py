"""Cluster events, and the registrations and hints that requeue unschedulable pods."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from enum import Enum, IntFlag, StrEnum
from typing import Any, Final, Protocol, TypeAlias

from msgspec import Struct

from moorage.kube.api.pod import Pod


class Action(IntFlag):
    """The change of an object. The order of the bits matters: see :meth:`ClusterEvent.covers`."""

    ADD = 1 << 0
    DELETE = 1 << 1
    UPDATE_NODE_ALLOCATABLE = 1 << 2
    UPDATE_NODE_LABEL = 1 << 3
    UPDATE_NODE_TAINT = 1 << 4
    UPDATE_NODE_CONDITION = 1 << 5
    UPDATE_NODE_ANNOTATION = 1 << 6
    UPDATE_NODE_DECLARED_FEATURE = 1 << 7
    UPDATE_NODE_PREEMPTION_POLICY = 1 << 8
    UPDATE_POD_LABEL = 1 << 9
    UPDATE_POD_SCALE_DOWN = 1 << 10
    UPDATE_POD_SCALE_UP = 1 << 11
    UPDATE_POD_TOLERATION = 1 << 12
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 1 << 13
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 1 << 14
    UPDATE = (1 << 15) - (1 << 2)
    ALL = (1 << 15) - 1


_ACTION_NAMES: Final = {
    action: name.title().replace("_", "") for name, action in Action.__members__.items()
}  # for example UpdateNodeTaint


class Resource(StrEnum):
    """The resource of an event. Other resources are named ``<plural>.<version>.<group>``."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnscheduledPod"
    TARGET_POD = "TargetPod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    COMPOSITE_POD_GROUP = "scheduling.k8s.io/CompositePodGroup"
    WILDCARD = "*"


KINDS_OF_POD: Final = (Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD, Resource.TARGET_POD)


class ClusterEvent(Struct, frozen=True):
    """A change of an object of a resource. ``custom_label`` overrides its name in metrics and logs."""

    resource: str
    action: Action
    custom_label: str = ""

    @property
    def label(self) -> str:
        """Return the name of the event in metrics and logs."""
        if self.custom_label:
            return self.custom_label
        return str(self.resource) + _ACTION_NAMES.get(self.action, "")

    @property
    def is_wildcard(self) -> bool:
        """Whether the event represents any possible change."""
        return self.resource == Resource.WILDCARD and self.action == Action.ALL

    def covers(self, incoming: "ClusterEvent") -> bool:
        """Return whether a registration for this event includes the incoming event.

        A plain ``UPDATE`` matches only registrations of all update bits: its value is larger than any single bit.
        """
        if self.is_wildcard:
            return True
        is_same_resource = (
            self.resource in (incoming.resource, Resource.WILDCARD)
            or (self.resource == Resource.POD and incoming.resource in KINDS_OF_POD)
        )  # fmt: skip
        return is_same_resource and bool(self.action & incoming.action) and incoming.action <= self.action


class QueueingHint(Enum):
    """Whether an event may have made a pod schedulable."""

    QUEUE = "Queue"
    SKIP = "QueueSkip"


def queue_if(helps: bool) -> QueueingHint:
    """Return QUEUE if an event may help a pod, otherwise SKIP."""
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


HintFunction: TypeAlias = Callable[[Pod, Any, Any], QueueingHint]
"""Called with the pending pod and the object before and after the event (``None`` if it does not exist)."""


class HintIndex(Protocol):
    """Finds the pending pods that an event may concern, so that the hint is not called for thousands of other pods.

    The hint must return SKIP for each pod that has no key in common with the event.
    """

    def keys(self, pod: Pod) -> Collection[Hashable] | None:
        """Return the keys of a pending pod, or ``None`` if any event may concern it."""
        ...

    def affected(self, old: Any, new: Any) -> Collection[Hashable] | None:
        """Return the keys of the pods that an event may concern, or ``None`` for all pods."""
        ...


def changed_keys(before: Mapping[str, str], after: Mapping[str, str]) -> set[Hashable]:
    """Return the keys of labels that were added, removed or changed."""
    return {key for key in {**before, **after} if before.get(key) != after.get(key)}


class EventRegistration(Struct, frozen=True):
    """An event that may resolve a plugin's rejection, and the hint that decides it; without a hint it always does.

    ``beyond_upstream`` marks an event that kube-scheduler ignores although it helps. There, such a pod is retried only
    after the flush interval of five minutes.
    """

    event: ClusterEvent
    hint: HintFunction | None = None
    beyond_upstream: bool = False
    same_group: bool = False
    """Whether the hint applies only to members of the group of the event. It is not called for other pods."""
    index: HintIndex | None = None


_ANY: Final = (
    *KINDS_OF_POD,
    Resource.NODE,
    Resource.PERSISTENT_VOLUME,
    Resource.PERSISTENT_VOLUME_CLAIM,
    Resource.CSI_NODE,
    Resource.CSI_DRIVER,
    Resource.CSI_STORAGE_CAPACITY,
    Resource.STORAGE_CLASS,
    Resource.RESOURCE_CLAIM,
    Resource.DEVICE_CLASS,
)
EVERY_EVENT: Final = tuple(EventRegistration(ClusterEvent(resource, Action.ALL)) for resource in _ANY)
"""The registrations of a plugin that does not define its own."""

ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(Resource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE: Final = ClusterEvent(Resource.WILDCARD, Action.ALL, "ForceActivate")
CONFIGURATION_CHANGED: Final = ClusterEvent(Resource.WILDCARD, Action.ALL, "ConfigurationChanged")

_ANY_GROUP: Final = EventRegistration(ClusterEvent(Resource.POD_GROUP, Action.ALL))


def with_groups(
    registrations: Mapping[str, Sequence[EventRegistration]], has_groups: bool
) -> Mapping[str, Sequence[EventRegistration]]:
    """Return the registrations; with groups enabled, plugins without their own registrations also get group events."""
    if not has_groups:
        return registrations
    return {
        plugin: (*registered, _ANY_GROUP) if registered == EVERY_EVENT else registered
        for plugin, registered in registrations.items()
    }
