"""The clusters and pods that the engine benchmark measures."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from moorage.kube.api.affinity import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Toleration,
    TopologySpreadConstraint,
)
from moorage.kube.api.devices import (
    CELDeviceSelector,
    Device,
    DeviceAttribute,
    DeviceClaim,
    DeviceClass,
    DeviceClassSpec,
    DeviceRequest,
    DeviceSelector,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
    ResourcePool,
    ResourceSlice,
    ResourceSliceSpec,
)
from moorage.kube.api.meta import KubeObject, ObjectMeta, OwnerReference
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.kube.api.pod import Pod, PodResourceClaim, PodResourceClaimStatus, PodStatus
from moorage.kube.api.quantity import Quantity
from moorage.kube.api.selectors import (
    NODE_NAME_FIELD,
    LabelSelector,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.testing import make_node, make_pod
from moorage.testing.storage import claim_volume, make_claim, make_class, make_csi_driver, make_csi_node, make_volume

ZONES: Final = 10
DAEMON_NODES: Final = 1_000
"""Number of nodes that daemon pods name: the first ones, which exist in clusters of every size."""
DAEMON_TOLERATIONS: Final = tuple(
    Toleration(f"node.kubernetes.io/{problem}", "Exists", effect=effect)
    for problem, effect in (
        ("not-ready", "NoExecute"),
        ("unreachable", "NoExecute"),
        ("disk-pressure", "NoSchedule"),
        ("memory-pressure", "NoSchedule"),
        ("pid-pressure", "NoSchedule"),
        ("unschedulable", "NoSchedule"),
    )
)
"""The node affinity that the DaemonSet controller adds to its pods."""
DRIVER: Final = "csi.example.com"
SMALL: Final = {"cpu": "100m", "memory": "500Mi"}


@dataclass(frozen=True, slots=True)
class Workload:
    """A cluster of a given size, and an endless sequence of pods to schedule on it."""

    name: str
    cluster: Callable[[int], Iterator[KubeObject]]
    pods: Callable[[int], Pod]
    most_pods_per_node: float = 20.0
    companions: Callable[[int], Iterable[KubeObject]] = lambda _number: ()
    """Objects that must exist before a pod: its claims and their volumes."""
    is_late: bool = False
    """Whether all pods of a batch are tried before the first victim leaves."""


def plain_nodes(count: int) -> Iterator[KubeObject]:
    """Make nodes of 32 CPUs and 256Gi in ten zones."""
    shape: dict[str, Quantity] = {"cpu": 32, "memory": "256Gi", "pods": 250}
    for number in range(count):
        yield make_node(f"node-{number}", zone=f"zone-{number % ZONES}", allocatable=shape)


def full_nodes(count: int) -> Iterator[KubeObject]:
    """Make nodes of 4 CPUs, full with four pods of lower priority."""
    for number in range(count):
        yield make_node(f"node-{number}", zone=f"zone-{number % ZONES}")
        for index in range(4):
            yield make_pod(
                f"low-{number}-{index}", node=f"node-{number}", requests={"cpu": 1, "memory": "1Gi"}, priority=1
            )


def occupied_nodes(count: int) -> Iterator[KubeObject]:
    """Make full nodes of 4 CPUs; one of their four pods has a higher priority than any preemptor."""
    for number in range(count):
        yield make_node(f"node-{number}", zone=f"zone-{number % ZONES}")
        for index in range(4):
            priority = 1 if index else 5000
            yield make_pod(f"old-{number}-{index}", node=f"node-{number}", requests={"cpu": 1}, priority=priority)


def nodes_with_devices(count: int) -> Iterator[KubeObject]:
    """Make nodes with eight devices each, and their device class."""
    yield DeviceClass(
        metadata=ObjectMeta(name="gpu", uid="class/gpu"),
        spec=DeviceClassSpec(selectors=(DeviceSelector(cel=CELDeviceSelector('device.driver == "gpu.example.com"')),)),
    )
    for node in plain_nodes(count):
        yield node
        pool = ResourcePool(name=node.name, generation=1, resource_slice_count=1)
        devices = tuple(
            Device(name=f"gpu-{index}", attributes={"model": DeviceAttribute(string_value="a100")})
            for index in range(8)
        )
        yield ResourceSlice(
            metadata=ObjectMeta(name=f"slice-{node.name}", uid=f"slice/{node.name}"),
            spec=ResourceSliceSpec(driver="gpu.example.com", pool=pool, node_name=node.name, devices=devices),
        )


def nodes_with_csi(count: int) -> Iterator[KubeObject]:
    """Make nodes that can hold 39 volumes of a CSI driver each."""
    yield make_csi_driver(DRIVER)
    yield make_class("fast", provisioner=DRIVER)
    for node in plain_nodes(count):
        yield node
        yield make_csi_node(node.name, limits={DRIVER: 39})


def device_claim(number: int) -> Iterator[KubeObject]:
    """Make the claim of a pod, as the resource claim controller makes it from a template."""
    owner = OwnerReference(api_version="v1", kind="Pod", name=f"pod-{number}", uid=f"pod-uid-{number}", controller=True)
    request = ExactDeviceRequest(device_class_name="gpu", allocation_mode="ExactCount", count=1)
    yield ResourceClaim(
        metadata=ObjectMeta(
            name=f"pod-{number}-gpu",
            namespace="default",
            uid=f"claim-uid-{number}",
            resource_version="1",
            owner_references=(owner,),
        ),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=(DeviceRequest(name="gpu", exactly=request),))),
    )


def with_device(number: int) -> Pod:
    """Make a pod that requests one device."""
    use = PodResourceClaim(name="gpu", resource_claim_template_name="one-gpu")
    status = PodStatus(
        resource_claim_statuses=(PodResourceClaimStatus(name="gpu", resource_claim_name=f"pod-{number}-gpu"),)
    )
    return make_pod(f"pod-{number}", requests=SMALL, uid=f"pod-uid-{number}", status=status, resource_claims=(use,))


def bound_volume(number: int) -> Iterator[KubeObject]:
    """Make a volume and its bound claim."""
    claim = make_claim(f"claim-{number}", bound_to=f"pv-{number}", storage_class="fast")
    yield make_volume(
        f"pv-{number}", driver=DRIVER, handle=f"handle-{number}", claim=claim, storage_class="fast", phase="Bound"
    )
    yield claim


def with_volume(number: int) -> Pod:
    """Make a pod with a separate volume."""
    return make_pod(f"pod-{number}", requests=SMALL, volumes=(claim_volume(f"claim-{number}"),))


def identical(number: int) -> Pod:
    """Make an identical pod."""
    return make_pod(f"pod-{number}", requests=SMALL, labels={"app": "web"})


def own_shape(number: int) -> Pod:
    """Make a pod with requests that no other pod has."""
    requests = {"cpu": f"{100 + number % 997}m", "memory": f"{100 + number % 1009}Mi"}
    return make_pod(f"pod-{number}", requests=requests, labels={"app": "web"})


def anti_affinity(number: int) -> Pod:
    """Make a pod with host anti-affinity to 500 pods of its set."""
    term = _term({"group": f"g{number // 500}"}, HOSTNAME_LABEL)
    affinity = Affinity(pod_anti_affinity=PodAntiAffinity(required=(term,)))
    return make_pod(f"pod-{number}", requests=SMALL, labels={"group": f"g{number // 500}"}, affinity=affinity)


def affinity(number: int) -> Pod:
    """Make a pod with zone affinity to the pods of its set."""
    zone_affinity = Affinity(pod_affinity=PodAffinity(required=(_term({"app": "near"}, ZONE_LABEL),)))
    return make_pod(f"pod-{number}", requests=SMALL, labels={"app": "near"}, affinity=zone_affinity)


def daemon(number: int) -> Pod:
    """Make a pod for one node, as the controller of a DaemonSet makes it."""
    here = NodeSelectorRequirement(NODE_NAME_FIELD, "In", (f"node-{number % DAEMON_NODES}",))
    required = NodeSelector((NodeSelectorTerm(match_fields=(here,)),))
    affinity = Affinity(NodeAffinity(required=required))
    return make_pod(
        f"pod-{number}", requests=SMALL, labels={"app": "agent"}, affinity=affinity, tolerates=DAEMON_TOLERATIONS
    )


def spread_hard(number: int) -> Pod:
    """Make a pod that must be spread evenly over zones."""
    return _spread(number, ZONE_LABEL, "DoNotSchedule")


def spread_soft(number: int) -> Pod:
    """Make a pod that should be spread evenly over hosts."""
    return _spread(number, HOSTNAME_LABEL, "ScheduleAnyway")


def preemptor(number: int) -> Pod:
    """Make a pod of high priority that fits only after preemption."""
    return make_pod(f"high-{number}", requests={"cpu": 2, "memory": "1Gi"}, priority=1000)


def hopeless(number: int) -> Pod:
    """Make a pod of high priority with unique requests that fits nowhere, even with preemption."""
    return make_pod(f"high-{number}", requests={"cpu": f"{3100 + number % 800}m"}, priority=1000)


def _spread(number: int, key: str, action: str) -> Pod:
    constraint = TopologySpreadConstraint(
        max_skew=1,
        topology_key=key,
        when_unsatisfiable=action,
        label_selector=LabelSelector(match_labels={"app": "even"}),
    )
    return make_pod(f"pod-{number}", requests=SMALL, labels={"app": "even"}, topology_spread_constraints=(constraint,))


def _term(labels: dict[str, str], key: str) -> PodAffinityTerm:
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=labels))


WORKLOADS: Final[dict[str, Workload]] = {
    item.name: item
    for item in (
        Workload("identical", plain_nodes, identical),
        Workload("own-shape", plain_nodes, own_shape),
        Workload("anti-affinity", plain_nodes, anti_affinity),
        Workload("affinity", plain_nodes, affinity, most_pods_per_node=4.0),
        Workload("spread-hard", plain_nodes, spread_hard),
        Workload("spread-soft", plain_nodes, spread_soft),
        Workload("daemonset", plain_nodes, daemon),
        Workload("preemption", full_nodes, preemptor, most_pods_per_node=1.0),
        Workload("storm", full_nodes, preemptor, most_pods_per_node=1.0, is_late=True),
        Workload("hopeless", occupied_nodes, hopeless, most_pods_per_node=1.0),
        Workload("devices", nodes_with_devices, with_device, most_pods_per_node=8.0, companions=device_claim),
        Workload("csi-volumes", nodes_with_csi, with_volume, companions=bound_volume),
    )
}
