"""Pods that are created, scheduled and deleted, each with unique names, labels, claims, selectors or amounts."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeVar

import msgspec
from benchmarks.drain import InstantCluster
from tests.unit.scheduler.plugins.dynamic_resources import device_builders as devices

from moorage.common.clock import VirtualClock
from moorage.kube.api import affinity as wishes
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.codec import decode
from moorage.kube.api.container import Container, ContainerPort
from moorage.kube.api.kinds import Kind
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.selectors import LabelSelector, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from moorage.kube.client.list_watch import Change
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.scheduling_loop import SchedulingLoop
from moorage.testing import make_node, make_pod
from moorage.testing.storage import claim_volume, make_claim, make_csi_node, make_volume, reachable

NODES: Final = 8
DRIVER: Final = "disks.example.com"
BATCH: Final = 8
SECONDS_BETWEEN: Final = 2.0
"""Long enough that rejected pods are retried before they are deleted."""

K = TypeVar("K", bound=KubeObject)
Guests = Sequence[KubeObject]
"""A pod and the objects it needs; the pod is last."""


def plain(number: int) -> Guests:
    return (make_pod(f"pod-{number}", labels={"own": f"label-{number}"}, requests={"cpu": "10m"}),)


def with_own_amounts(number: int) -> Guests:
    requests = {
        "cpu": f"{10 + number}u",
        "memory": f"{10 + number}",
        "ephemeral-storage": f"{number}m",
        "pods": f"{number}u",
    }
    return (make_pod(f"pod-{number}", requests=requests),)


def with_own_claim(number: int) -> Guests:
    name = f"disk-{number}"
    claim = make_claim(name, bound_to=name)
    here = reachable(**{HOSTNAME_LABEL: f"node-{number % NODES}"})
    volume = make_volume(name, claim=claim, phase="Bound", driver=DRIVER, reach=here)
    return (volume, claim, make_pod(f"pod-{number}", volumes=(claim_volume(name),)))


def with_own_device(number: int) -> Guests:
    pod = devices.claiming(f"device-{number}", name=f"pod-{number}")
    return (devices.make_claim(name=f"device-{number}", owner=pod), pod)


def with_own_container(number: int) -> Guests:
    port = ContainerPort(
        container_port=1, host_port=1000 + number % 50_000, host_ip=f"10.{number >> 8 & 255}.{number & 255}.1"
    )
    container = Container(name=f"c-{number}", image=f"registry.example.com/image-{number}:v{number}", ports=(port,))
    return (make_pod(f"pod-{number}", containers=(container,)),)


def near_its_own(number: int) -> Guests:
    selector = LabelSelector(match_labels={"app": f"app-{number}"})
    term = wishes.PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=selector)
    liked = wishes.WeightedPodAffinityTerm(weight=1 + number % 100, pod_affinity_term=term)
    affinity = wishes.Affinity(
        pod_affinity=wishes.PodAffinity(required=(term,), preferred=(liked,)),
        pod_anti_affinity=wishes.PodAntiAffinity(preferred=(liked,)),
    )
    return (make_pod(f"pod-{number}", labels={"app": f"app-{number}"}, affinity=affinity),)


def away_from_its_own(number: int) -> Guests:
    selector = LabelSelector(match_labels={"app": f"app-{number}"})
    term = wishes.PodAffinityTerm(topology_key=HOSTNAME_LABEL, label_selector=selector)
    affinity = wishes.Affinity(pod_anti_affinity=wishes.PodAntiAffinity(required=(term,)))
    return (make_pod(f"pod-{number}", labels={"app": f"app-{number}"}, affinity=affinity),)


def spread_like_its_own(number: int) -> Guests:
    constraints = tuple(
        wishes.TopologySpreadConstraint(
            max_skew=1,
            topology_key=HOSTNAME_LABEL,
            when_unsatisfiable=action,
            label_selector=LabelSelector(match_labels={"app": f"app-{number}"}),
        )
        for action in ("DoNotSchedule", "ScheduleAnyway")
    )
    return (make_pod(f"pod-{number}", labels={"app": f"app-{number}"}, topology_spread_constraints=constraints),)


def for_nodes_of_its_own(number: int) -> Guests:
    """Select a missing node."""
    requested = NodeSelectorRequirement(f"key-{number}", "In", (f"value-{number}", f"other-{number}"))
    selector = NodeSelector((NodeSelectorTerm((requested,)),))
    affinity = wishes.Affinity(node_affinity=wishes.NodeAffinity(required=selector))
    toleration = wishes.Toleration(key=f"key-{number}", value=f"value-{number}")
    return (make_pod(f"pod-{number}", affinity=affinity, tolerates=(toleration,), node_selector={f"a-{number}": "b"}),)


def in_its_own_namespace(number: int) -> Guests:
    name = f"namespace-{number}"
    return (
        Namespace(metadata=ObjectMeta(name=name, uid=f"ns/{name}", labels={"own": name})),
        make_pod(f"pod-{number}", namespace=name),
    )


def more_important(number: int) -> Guests:
    """Preempt other pods if necessary."""
    return (make_pod(f"pod-{number}", priority=number, requests={"cpu": "3900m"}),)


KINDS: Final[dict[str, Callable[[int], Guests]]] = {
    function.__name__.replace("_", " "): function
    for function in (
        *(plain, with_own_amounts, with_own_claim, with_own_device, with_own_container, near_its_own),
        *(away_from_its_own, spread_like_its_own, for_nodes_of_its_own, in_its_own_namespace, more_important),
    )
}


class Churn:
    """A scheduler with pods that are created and deleted. As with informers, each change decodes its object."""

    def __init__(self, clock: VirtualClock, kinds: Sequence[Callable[[int], Guests]]) -> None:
        self.kinds = kinds
        self.came = 0
        self.cluster = InstantCluster()
        self._clock = clock
        self._background = TaskBackground()
        self.scheduler = Scheduler(
            default_config(),
            Registry(IN_TREE),
            cluster=self.cluster,
            background=self._background,
            clock=clock,
            features=FeatureGates(),
        )
        self.cluster.follow(self.scheduler.objects, self._on_changes, {}, None)
        for obj in self._initial_objects():
            self._apply(None, obj)

    @staticmethod
    def _initial_objects() -> Iterator[KubeObject]:
        yield Namespace(metadata=ObjectMeta(name="default", uid="ns/default"))
        yield devices.make_class("gpu")
        for number in range(NODES):
            yield make_node(f"node-{number}", allocatable={"cpu": "4", "example.com/thing": "10"})
            yield make_csi_node(f"node-{number}", limits={DRIVER: 1000})
            cards = [devices.device(f"card-{card}") for card in range(BATCH)]
            yield devices.make_slice(*cards, name=f"slice-{number}", node=f"node-{number}", pool=f"pool-{number}")

    async def run(self, pods: int) -> None:
        """Add and delete ``pods`` pods in small batches."""
        end = self.came + pods
        while self.came < end:
            guests: list[KubeObject] = []
            for _ in range(min(BATCH, end - self.came)):
                guests += self.kinds[self.came % len(self.kinds)](self.came)
                self.came += 1
            for guest in guests:
                self._apply(None, guest)
            await self._drain()
            await asyncio.sleep(SECONDS_BETWEEN)
            await self._drain()
            for guest in reversed(guests):
                if (current := self._find(guest)) is not None:
                    self._apply(current, None)
            await self._drain()

    def _find(self, obj: K) -> K | None:
        return self.scheduler.objects[type(obj)].get(obj.name, obj.namespace)

    def _on_changes(self, _kind: Kind, changes: Sequence[Change[Any]]) -> None:
        for change in changes:
            self.scheduler.handlers.apply(change.before, change.after)

    def _apply(self, before: KubeObject | None, after: KubeObject | None) -> None:
        decoded = after and decode(type(after), msgspec.json.encode(after))
        self.scheduler.handlers.apply(before, decoded)

    async def _drain(self) -> None:
        loop = SchedulingLoop(self.scheduler)
        while await loop.step() or self.scheduler.binder.in_flight or len(self._background):
            await asyncio.sleep(0)
