"""The node: capacity, labels and taints."""

from typing import Final

from moorage.kube.api.affinity import Taint
from moorage.kube.api.meta import Condition, KubeObject
from moorage.kube.api.quantity import ResourceList
from moorage.kube.api.requests import Amounts, countable
from moorage.kube.api.struct import Int64, KubeStruct, once

HOSTNAME_LABEL: Final = "kubernetes.io/hostname"
ZONE_LABEL: Final = "topology.kubernetes.io/zone"
REGION_LABEL: Final = "topology.kubernetes.io/region"
BETA_ZONE_LABEL: Final = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION_LABEL: Final = "failure-domain.beta.kubernetes.io/region"


class PodPreemptionPolicy(KubeStruct, frozen=True):
    """Label keys of pods that must not be preempted for the resize of another pod on this node."""

    disable_resize_preemption: tuple[str, ...] = ()


class NodeSpec(KubeStruct, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    pod_preemption_policy: PodPreemptionPolicy | None = None


class ContainerImage(KubeStruct, frozen=True):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeStatus(KubeStruct, frozen=True):
    allocatable: ResourceList = {}
    capacity: ResourceList = {}
    conditions: tuple[Condition, ...] = ()
    images: tuple[ContainerImage, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(KubeObject, frozen=True, dict=True, gc=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def taints(self) -> tuple[Taint, ...]:
        """Return the node's taints."""
        return self.spec.taints

    @once
    def allocatable(self) -> Amounts:
        """The allocatable amounts: milli-CPU, bytes, and plain counts, including ``pods``; 0 if absent."""
        return countable(self.status.allocatable)

    @once
    def image_names(self) -> frozenset[str]:
        """Every name of every image the node holds."""
        return frozenset(name for image in self.status.images for name in image.names)

    @once
    def zone_key(self) -> str:
        """Region and zone as one text, or empty for a node that has neither. Nodes are visited zone by zone."""
        labels = self.labels
        zone = labels.get(BETA_ZONE_LABEL, labels.get(ZONE_LABEL, ""))
        region = labels.get(BETA_REGION_LABEL, labels.get(REGION_LABEL, ""))
        return f"{region}:\0:{zone}" if zone or region else ""
