"""The clusters and pods that the engine benchmark measures."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from moorage.api.affinity import Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity, TopologySpreadConstraint
from moorage.api.meta import KubeObject
from moorage.api.node import HOSTNAME_LABEL, ZONE_LABEL
from moorage.api.pod import Pod
from moorage.api.quantity import Quantity
from moorage.api.selectors import LabelSelector
from moorage.testing import make_node, make_pod

ZONES: Final = 10
SMALL: Final = {"cpu": "100m", "memory": "500Mi"}


@dataclass(frozen=True, slots=True)
class Workload:
    """A cluster of so many nodes, and an endless row of pods to place on it."""

    name: str
    cluster: Callable[[int], Iterator[KubeObject]]
    pods: Callable[[int], Pod]
    most_pods_per_node: float = 20.0


def plain_nodes(count: int) -> Iterator[KubeObject]:
    """Make nodes of 32 CPUs and 256Gi in ten zones."""
    shape: dict[str, Quantity] = {"cpu": 32, "memory": "256Gi", "pods": 250}
    for number in range(count):
        yield make_node(f"node-{number}", zone=f"zone-{number % ZONES}", allocatable=shape)


def full_nodes(count: int) -> Iterator[KubeObject]:
    """Make nodes of 4 CPUs that four less important pods fill."""
    for number in range(count):
        yield make_node(f"node-{number}", zone=f"zone-{number % ZONES}")
        for place in range(4):
            yield make_pod(
                f"low-{number}-{place}", node=f"node-{number}", requests={"cpu": 1, "memory": "1Gi"}, priority=1
            )


def identical(number: int) -> Pod:
    """Make a pod like all others."""
    return make_pod(f"pod-{number}", requests=SMALL, labels={"app": "web"})


def own_shape(number: int) -> Pod:
    """Make a pod that asks for amounts no other pod asks for."""
    requests = {"cpu": f"{100 + number % 997}m", "memory": f"{100 + number % 1009}Mi"}
    return make_pod(f"pod-{number}", requests=requests, labels={"app": "web"})


def anti_affinity(number: int) -> Pod:
    """Make a pod that shares its host with none of its five hundred sisters."""
    term = _term({"group": f"g{number // 500}"}, HOSTNAME_LABEL)
    affinity = Affinity(pod_anti_affinity=PodAntiAffinity(required=(term,)))
    return make_pod(f"pod-{number}", requests=SMALL, labels={"group": f"g{number // 500}"}, affinity=affinity)


def affinity(number: int) -> Pod:
    """Make a pod that wants to be in the zone of its sisters."""
    wanted = Affinity(pod_affinity=PodAffinity(required=(_term({"app": "near"}, ZONE_LABEL),)))
    return make_pod(f"pod-{number}", requests=SMALL, labels={"app": "near"}, affinity=wanted)


def spread_hard(number: int) -> Pod:
    """Make a pod that must be spread evenly over zones."""
    return _spread(number, ZONE_LABEL, "DoNotSchedule")


def spread_soft(number: int) -> Pod:
    """Make a pod that should be spread evenly over hosts."""
    return _spread(number, HOSTNAME_LABEL, "ScheduleAnyway")


def preemptor(number: int) -> Pod:
    """Make an important pod that fits only where others are evicted."""
    return make_pod(f"high-{number}", requests={"cpu": 2, "memory": "1Gi"}, priority=1000)


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
        Workload("preemption", full_nodes, preemptor, most_pods_per_node=1.0),
    )
}
