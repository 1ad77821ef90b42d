"""The pod: spec, status and the values derived from them."""

from typing import Final, NamedTuple

import msgspec

from moorage.kube.api import requests
from moorage.kube.api.affinity import Affinity, Taint, Toleration, TopologySpreadConstraint
from moorage.kube.api.container import Container, ContainerStatus, ResourceRequirements
from moorage.kube.api.meta import Condition, KubeObject
from moorage.kube.api.qos import qos_class
from moorage.kube.api.quantity import Quantity, ResourceList
from moorage.kube.api.requests import Amounts
from moorage.kube.api.shape import Shape, take_shape
from moorage.kube.api.struct import Int32, Int64, KubeStruct, once
from moorage.kube.api.volume import Volume

DEFAULT_SCHEDULER_NAME: Final = "default-scheduler"
ANY_ADDRESS: Final = "0.0.0.0"

FINISHED: Final = frozenset(("Succeeded", "Failed"))
"""The phases of pods that have ended."""


class HostPort(NamedTuple):
    """A port of the node that a pod takes, with the empty address and protocol spelled out."""

    ip: str
    protocol: str
    port: int


class SchedulingGate(KubeStruct, frozen=True):
    name: str = ""


class PodResourceClaim(KubeStruct, frozen=True):
    """A claim of the pod: one that exists, or one to be made from a template."""

    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class SchedulingGroup(KubeStruct, frozen=True):
    pod_group_name: str | None = None


class PodSpec(KubeStruct, frozen=True):
    """The spec of a pod."""

    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    node_name: str = ""
    scheduler_name: str = ""
    node_selector: dict[str, str] | None = None
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    resources: ResourceRequirements | None = None
    overhead: ResourceList = {}
    runtime_class_name: str | None = None
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    host_network: bool = False
    host_users: bool | None = None
    scheduling_group: SchedulingGroup | None = None
    termination_grace_period_seconds: Int64 | None = None
    restart_policy: str = ""


class PodResourceClaimStatus(KubeStruct, frozen=True):
    """The claim created for an entry of ``spec.resourceClaims``; null if the pod needs none."""

    name: str = ""
    resource_claim_name: str | None = None


class ContainerExtendedResourceRequest(KubeStruct, frozen=True):
    """Which request of the pod's extended-resource claim serves which container."""

    container_name: str = ""
    resource_name: str = ""
    request_name: str = ""


class ExtendedResourceClaimStatus(KubeStruct, frozen=True):
    request_mappings: tuple[ContainerExtendedResourceRequest, ...] = ()
    resource_claim_name: str = ""


class ClaimMapping(KubeStruct, frozen=True):
    """The amount of a node's resource that the devices of a claim provide."""

    name: str = ""
    quantity: Quantity = 0


class ClaimOverhead(KubeStruct, frozen=True):
    """The amount of a node's resource that the use of a claim's devices costs."""

    name: str = ""
    per_pod: Quantity | None = None
    per_container: Quantity | None = None


class NodeAllocatableClaimStatus(KubeStruct, frozen=True):
    """The effect of a claim's devices on resources of the node. ``containers`` lists the containers that use it."""

    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    mapping: tuple[ClaimMapping, ...] = ()
    overhead: tuple[ClaimOverhead, ...] = ()


class PodStatus(KubeStruct, frozen=True):
    """The status of a pod."""

    phase: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: ResourceList | None = None
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedResourceClaimStatus | None = None
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableClaimStatus, ...] = ()


class Pod(KubeObject, frozen=True, dict=True, gc=True):
    """A pod. Facts derived from it are computed once and kept with the object, which never changes."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def priority(self) -> int:
        """Return the pod's priority. None means 0."""
        return self.spec.priority or 0

    @property
    def scheduler_name(self) -> str:
        """Return the name of the profile for the pod."""
        return self.spec.scheduler_name or DEFAULT_SCHEDULER_NAME

    @property
    def node_name(self) -> str:
        """Return the node the pod runs on; empty while it is pending."""
        return self.spec.node_name

    @property
    def nominated_node_name(self) -> str:
        """Return the node the pod is nominated to."""
        return self.status.nominated_node_name

    @property
    def has_deferred_resize(self) -> bool:
        """Whether the kubelet deferred a resize of the pod because the node is full."""
        # Called several times for each pod. New pods have no conditions.
        condition = self.condition(requests.RESIZE_PENDING) if self.status.conditions else None
        return condition is not None and condition.reason == "Deferred"

    @property
    def group_key(self) -> str | None:
        """``namespace/name`` of the pod's PodGroup, which may not exist.

        Names of groups that a plugin describes contain a slash and are not returned here.
        """
        group = self.spec.scheduling_group
        if group is None or not group.pod_group_name or "/" in group.pod_group_name:
            return None
        return f"{self.namespace}/{group.pod_group_name}"

    @property
    def is_finished(self) -> bool:
        """Whether the pod has ended and uses no resources."""
        return self.status.phase in FINISHED

    @once
    def qos_class(self) -> str:
        """The QoS class: ``Guaranteed``, ``Burstable`` or ``BestEffort``."""
        return qos_class(msgspec.to_builtins(self.spec))

    @once
    def host_ports(self) -> tuple[HostPort, ...]:
        """The node's ports that containers and sidecars take."""
        return tuple(
            HostPort(port.host_ip or ANY_ADDRESS, port.protocol or "TCP", port.host_port)
            for container in (*self.spec.containers, *(c for c in self.spec.init_containers if c.is_sidecar))
            for port in container.ports
            if port.host_port > 0
        )

    @once
    def shape(self) -> Shape:
        """The shape that the pod shares with all pods of an equal spec; reading it sets the properties below."""
        return take_shape(self)

    @once
    def requests(self) -> Amounts:
        """The requests of the pod, from its spec alone: milli-CPU, bytes, and plain counts; 0 if absent."""
        return self.shape.requests

    @once
    def scoring_requests(self) -> Amounts:
        """The requests of the pod for scores: containers without a CPU or memory request get a default."""
        return self.shape.scoring_requests

    @once
    def requests_on_node(self) -> Amounts:
        """The resources that the pod uses on its node, including resizes in progress."""
        return self.shape.requests_on_node

    @once
    def nonzero_requests(self) -> tuple[int, int]:
        """Milli-CPU and memory of a pod on its node for scores, with defaults for missing requests."""
        return self.shape.nonzero_requests

    def tolerates(self, taint: Taint, *, by_number: bool = False) -> bool:
        """Return whether a toleration of the pod covers the taint; ``by_number`` enables numeric comparisons."""
        tolerations = self.spec.tolerations
        return any(item.tolerates(taint, by_number=by_number) for item in tolerations) if tolerations else False

    def condition(self, kind: str) -> Condition | None:
        """Return the status condition of this type, if there is one."""
        return next((item for item in self.status.conditions if item.type == kind), None)

    def on_node(self, node_name: str) -> "Pod":
        """Return a copy of this pod that is bound to the node."""
        placed = msgspec.structs.replace(self, spec=msgspec.structs.replace(self.spec, node_name=node_name))
        # The derived values do not depend on the node, so they are not recomputed.
        placed.__dict__.update(self.__dict__)
        return placed
