"""VolumeZone: restrict pods to the zones and regions of their volumes."""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.kube.api.claims import WAIT_FOR_FIRST_CONSUMER, storage_class_name, uses_claim
from moorage.kube.api.csi_migration import ZONE_DELIMITER
from moorage.kube.api.node import BETA_REGION_LABEL, BETA_ZONE_LABEL, REGION_LABEL, ZONE_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, FilterPlugin, PreFilterPlugin
from moorage.scheduler.framework.pods_by_claim import BY_VOLUME_CLAIM
from moorage.scheduler.framework.status import BoolArray, Status, Verdict

WRONG_ZONE: Final = Status.unresolvable("node(s) had no available volume zone")
NAMELESS_CLAIM: Final = Status.unresolvable("PersistentVolumeClaim had no name")
NEITHER_VOLUME_NOR_CLASS: Final = Status.unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
NAMELESS_VOLUME: Final = Status.unresolvable("PersistentVolume had no name")
TOPOLOGY_LABELS: Final = (BETA_ZONE_LABEL, BETA_REGION_LABEL, ZONE_LABEL, REGION_LABEL)
SUCCESSOR: Final = {BETA_ZONE_LABEL: ZONE_LABEL, BETA_REGION_LABEL: REGION_LABEL}


class Topology(Struct, frozen=True):
    """A topology label of a volume, and the accepted values."""

    key: str
    values: frozenset[str]

    def admits(self, labels: Mapping[str, str]) -> bool:
        """Return whether a node has an accepted value, under the same key or its GA successor."""
        value = labels.get(self.key)
        if value is None and self.key in SUCCESSOR:
            value = labels.get(SUCCESSOR[self.key])
        return value in self.values

    def admitted(self, nodes: NodeTable) -> BoolArray:
        """Find the nodes that have one of the values."""
        column = nodes.label(self.key)
        admitted = column.is_in(self.values)
        if self.key in SUCCESSOR:
            admitted |= column.is_in((None,)) & nodes.label(SUCCESSOR[self.key]).is_in(self.values)
        return admitted


KEY = StateKey[tuple[Topology, ...]]("VolumeZone")


class VolumeZone(PreFilterPlugin, FilterPlugin):
    """Reject nodes in another zone or region than the pod's bound volumes. Nodes without these labels are accepted."""

    depends_on = DependsOn.NODE
    _signs_template = True

    def __init__(self, *, handle: Handle) -> None:
        self._claims = handle.lister(PersistentVolumeClaim)
        self._volumes = handle.lister(PersistentVolume)
        self._classes = handle.lister(StorageClass)

    def sign(self, pod: Pod) -> Hashable | None:
        """Share results among pods without claims."""
        volumes = pod.spec.volumes
        return None if volumes and any(volume.persistent_volume_claim is not None for volume in volumes) else ()

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        required = self._find_required(cycle, pod)
        if isinstance(required, Status):
            return required
        if not required:
            return Status.skip()
        cycle[KEY] = required
        return None

    def _find_required(self, cycle: CycleState, pod: Pod) -> tuple[Topology, ...] | Status:
        """Return the topology of the pod's volumes from PreFilter; collect it if the profile has no PreFilter."""
        if (collected := cycle.get(KEY)) is not None:
            return collected
        required: list[Topology] = []
        for volume in pod.spec.volumes:
            if volume.persistent_volume_claim is not None:
                volume_topologies = self._topologies(pod, volume.persistent_volume_claim.claim_name)
                if isinstance(volume_topologies, Status):
                    return volume_topologies
                required += volume_topologies
        return tuple(dict.fromkeys(required))

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        required = self._find_required(cycle, pod)
        if isinstance(required, Status):
            return required
        labels = node.labels
        if not any(key in labels for key in TOPOLOGY_LABELS):
            return None
        return None if all(topology.admits(labels) for topology in required) else WRONG_ZONE

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        required = self._find_required(cycle, pod)
        admitted = np.ones(len(nodes), dtype=np.bool_)
        if isinstance(required, Status):
            return Verdict.reject(where=admitted, because=required)
        for topology in required:
            admitted &= topology.admitted(nodes)
        unlabeled = np.ones(len(nodes), dtype=np.bool_)
        for key in TOPOLOGY_LABELS:
            unlabeled &= nodes.label(key).is_in((None,))
        return Verdict.reject(where=~(admitted | unlabeled), because=WRONG_ZONE)

    def _topologies(self, pod: Pod, name: str) -> list[Topology] | Status:
        if not name:
            return NAMELESS_CLAIM
        claim = self._claims.get(name, pod.namespace)
        if claim is None:
            return Status.unresolvable(f'persistentvolumeclaim "{name}" not found')
        if not claim.spec.volume_name:
            return self._refuse_unbound(claim) or []
        volume = self._volumes.get(claim.spec.volume_name)
        if volume is None:
            return Status.unresolvable(f'persistentvolume "{claim.spec.volume_name}" not found')
        return topologies(volume)

    def _refuse_unbound(self, claim: PersistentVolumeClaim) -> Status | None:
        """Return None if the class of an unbound claim binds it later, otherwise the reason against the pod."""
        name = storage_class_name(claim)
        if not name:
            return NEITHER_VOLUME_NOR_CLASS
        storage_class = self._classes.get(name)
        if storage_class is None:
            return Status.unresolvable(f'storageclass.storage.k8s.io "{name}" not found')
        if storage_class.volume_binding_mode is None:
            return Status.unresolvable(f'VolumeBindingMode not set for StorageClass "{name}"')
        return None if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else NAMELESS_VOLUME

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (
            EventRegistration(ClusterEvent(Resource.STORAGE_CLASS, Action.ADD), after_class_added),
            EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
            EventRegistration(
                ClusterEvent(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE),
                after_claim_changed,
                index=BY_VOLUME_CLAIM,
            ),
            EventRegistration(
                ClusterEvent(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE), after_volume_changed
            ),
        )


def topologies(volume: PersistentVolume) -> list[Topology]:
    """Parse the zone and region labels of a volume. Labels with an empty element are ignored."""
    result = []
    for key in TOPOLOGY_LABELS:
        if key in volume.labels:
            values = frozenset(value.strip() for value in volume.labels[key].split(ZONE_DELIMITER))
            if "" not in values:
                result.append(Topology(key, values))
    return result


def after_class_added(_pod: Pod, _old: None, new: StorageClass) -> QueueingHint:
    """Queue if the class delays binding until a pod is scheduled."""
    return queue_if(new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER)


def after_claim_changed(pod: Pod, _old: PersistentVolumeClaim | None, new: PersistentVolumeClaim) -> QueueingHint:
    """Queue if the pod uses the claim."""
    return queue_if(uses_claim(pod, new, ephemeral=False))


def after_volume_changed(_pod: Pod, old: PersistentVolume | None, new: PersistentVolume) -> QueueingHint:
    """Queue if the volume is new or its topology changed."""
    return queue_if(old is None or topologies(old) != topologies(new))
