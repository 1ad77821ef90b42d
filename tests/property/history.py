"""Random histories of one cluster in virtual time: events of users, controllers, nodes and the network."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, cast

from msgspec.structs import replace
from tests.support.latencies import RandomPace
from tests.unit.scheduler.plugins.dynamic_resources import device_builders as devices

from moorage.cluster.simulation.simulated_cluster import Pace, SimulatedCluster
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError
from moorage.kube.api.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)
from moorage.kube.api.cluster import (
    Namespace,
    PodDisruptionBudget,
    PodDisruptionBudgetSpec,
    PodDisruptionBudgetStatus,
    Service,
    ServiceSpec,
)
from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.meta import KubeObject, ObjectMeta
from moorage.kube.api.node import HOSTNAME_LABEL, ZONE_LABEL, Node
from moorage.kube.api.pod import Pod, PodResourceClaim, SchedulingGate
from moorage.kube.api.selectors import LabelSelector
from moorage.kube.api.storage import CSINode, PersistentVolumeClaim
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.policy import Policy
from moorage.testing import make_node, make_pod
from moorage.testing.storage import claim_volume, make_claim, make_csi_node, make_volume, reachable

APPS = ("web", "db", "job")
ZONES = ("a", "b", "")
SPOT = Taint(key="spot", effect="NoSchedule")
DRIVER = "disks.example.com"
NAMESPACES = ("default", "team")


class History:
    """One random history of one cluster."""

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.random = random.Random(seed)
        self.clock = clock
        self.numbers = Counter[str]()
        self.faults_left = self.random.choice((0, 0, 3))
        pace = cast(Pace, RandomPace(self.random, self.random.choice((0.001, 0.02, 0.5))))
        self.world = SimulatedCluster(clock, pace=pace, fault=self.fault)
        self.simulation = Simulation(
            self.world, Policy(default_config(), Registry(IN_TREE), FeatureGates()), cross_check=True
        )
        self.store = self.world.store
        spaces = [Namespace(metadata=ObjectMeta(name=name, uid=f"ns/{name}")) for name in NAMESPACES]
        nodes = [self.node() for _ in range(self.random.randint(1, 4))]
        self.simulation.load([*spaces, devices.make_class("gpu"), *nodes])
        self.kinds_of_wishes = [
            *[self.no_wish] * 4,
            self.near,
            self.away,
            self.spread,
            self.in_zone,
            self.gated,
            self.with_volume,
            self.with_device,
            self.with_port,
        ]
        self.focus = self.random.choice(self.kinds_of_wishes)
        """The constraint of most pods of this history, so that they conflict."""
        self.happenings: list[tuple[Callable[[], None], int]] = [
            (self.add_pod, 60),
            (self.add_node, 8),
            (self.remove_pod, 12),
            (self.finish_pod, 4),
            (self.relabel_pod, 6),
            (self.open_gates, 5),
            (self.tolerate, 3),
            (self.remove_node, 3),
            (self.cordon, 5),
            (self.taint, 5),
            (self.relabel_node, 4),
            (self.grow_node, 4),
            (self.claim, 6),
            (self.bind_claim, 4),
            (self.driver, 3),
            (self.slice, 4),
            (self.collect_claims, 5),
            (self.relabel_namespace, 2),
            (self.budget, 2),
            (self.service, 1),
        ]

    def fault(self, verb: str, obj: KubeObject) -> ApiError | None:
        if self.faults_left and verb in ("bind", "patch", "delete") and self.random.random() < 0.3:
            self.faults_left -= 1
            return ApiError(f"{verb} of {obj.key}: the server is not well")
        return None

    async def run(self) -> None:
        for _ in range(self.random.randint(3, 8)):
            for _ in range(self.random.randint(1, 5)):
                self.happen()
            if self.random.random() < 0.6:
                await self.simulation.run_until_quiet(max_seconds=self.random.choice((0.01, 0.3, 3.0, 100.0)))
        await self.simulation.run_until_quiet(max_seconds=200.0)
        if self.simulation.scheduler.unexpected is not None:
            raise self.simulation.scheduler.unexpected

    def happen(self) -> None:
        """Perform one random event of a user or a controller."""
        happenings, weights = zip(*self.happenings, strict=True)
        self.random.choices(happenings, weights)[0]()

    def name(self, kind: str) -> str:
        self.numbers[kind] += 1
        return f"{kind}-{self.numbers[kind]}"

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def one(self, kind: type[Any], accepts: Callable[[Any], bool] = lambda _: True) -> Any:
        """Pick an object of a kind, or ``None`` if no object exists."""
        selected = [obj for obj in self.store.list(kind) if accepts(obj)]
        return self.random.choice(selected) if selected else None

    def node(self) -> Node:
        shape = {"cpu": self.random.choice((1, 2, 4)), "memory": "4Gi", "pods": self.random.choice((2, 3, 10))}
        taints = [SPOT] if self.chance(0.2) else []
        return make_node(self.name("node"), zone=self.random.choice(ZONES), allocatable=shape, taints=taints)

    def add_node(self) -> None:
        self.world.add(self.node())

    def remove_node(self) -> None:
        if (node := self.one(Node)) is not None:
            self.world.remove(node)

    def cordon(self) -> None:
        if (node := self.one(Node)) is not None:
            spec = replace(node.spec, unschedulable=not node.spec.unschedulable)
            self.store.update(replace(node, spec=spec))

    def taint(self) -> None:
        if (node := self.one(Node)) is not None:
            self.store.update(replace(node, spec=replace(node.spec, taints=() if node.spec.taints else (SPOT,))))

    def relabel_node(self) -> None:
        if (node := self.one(Node)) is not None:
            labels = {**node.labels, ZONE_LABEL: self.random.choice(("a", "b", "c"))}
            if self.chance(0.3):
                del labels[ZONE_LABEL]
            self.store.update(replace(node, metadata=replace(node.metadata, labels=labels)))

    def grow_node(self) -> None:
        if (node := self.one(Node)) is not None:
            before = node.status.allocatable
            more = {key: before[key] + self.random.choice((0, 1, 4)) for key in ("cpu", "pods")}
            status = replace(node.status, allocatable={**before, **more})
            self.store.update(replace(node, status=status))

    def add_pod(self) -> None:
        app = self.random.choice(APPS)
        pod = make_pod(
            self.name("pod"),
            namespace=self.random.choice(NAMESPACES),
            labels={"app": app},
            requests={"cpu": f"{self.random.choice((0, 250, 500, 1500))}m", "memory": "256Mi"},
            priority=self.random.choice((None, 0, 10, 100)),
            tolerates=["spot"] if self.chance(0.3) else (),
            termination_grace_period_seconds=self.random.choice((0, 0, 1, 30)),
            preemption_policy="Never" if self.chance(0.1) else None,
            **self.wishes(LabelSelector(match_labels={"app": app})),
        )
        self.world.add(pod)

    def wishes(self, own: LabelSelector) -> dict[str, Any]:
        """Give some pods a constraint on other pods, on the node, or on an object that other pods provide."""
        wish = self.random.choice([*self.kinds_of_wishes, *[self.focus] * 6])
        return wish(own)

    def no_wish(self, _own: LabelSelector) -> dict[str, Any]:
        return {}

    def near(self, own: LabelSelector) -> dict[str, Any]:
        return {"affinity": Affinity(pod_affinity=PodAffinity(required=(self.term(own),)))}

    def away(self, own: LabelSelector) -> dict[str, Any]:
        terms = [self.term(own) for _ in range(self.random.choice((1, 1, 2)))]
        return {"affinity": Affinity(pod_anti_affinity=PodAntiAffinity(required=tuple(terms)))}

    def term(self, own: LabelSelector) -> PodAffinityTerm:
        other = LabelSelector(match_labels={"app": self.random.choice(APPS)})
        return PodAffinityTerm(
            topology_key=self.random.choice((HOSTNAME_LABEL, ZONE_LABEL)),
            label_selector=self.random.choice((own, other)),
            namespace_selector=LabelSelector(match_labels={"open": "yes"}) if self.chance(0.2) else None,
        )

    def spread(self, own: LabelSelector) -> dict[str, Any]:
        keys = self.random.choice(((HOSTNAME_LABEL,), (ZONE_LABEL,), (HOSTNAME_LABEL, ZONE_LABEL)))
        zone = {"node_selector": {ZONE_LABEL: self.random.choice(("a", "b"))}} if self.chance(0.2) else {}
        return {"topology_spread_constraints": tuple(self.constraint(key, own) for key in keys), **zone}

    def in_zone(self, _own: LabelSelector) -> dict[str, Any]:
        return {"node_selector": {ZONE_LABEL: self.random.choice(("a", "b", "c"))}}

    def gated(self, _own: LabelSelector) -> dict[str, Any]:
        return {"scheduling_gates": (SchedulingGate("later"),)}

    def with_volume(self, _own: LabelSelector) -> dict[str, Any]:
        return {"volumes": (claim_volume(f"claim-{self.random.randint(1, 4)}"),)}

    def with_port(self, _own: LabelSelector) -> dict[str, Any]:
        return {"host_ports": [self.random.choice((8080, 8081))]}

    def constraint(self, key: str, own: LabelSelector) -> TopologySpreadConstraint:
        return TopologySpreadConstraint(
            max_skew=self.random.choice((1, 2)),
            topology_key=key,
            when_unsatisfiable=self.random.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
            label_selector=own,
            node_taints_policy=self.random.choice((None, "Honor")),
            min_domains=self.random.choice((None, None, 2)),
        )

    def with_device(self, _own: LabelSelector) -> dict[str, Any]:
        name = self.name("device-claim")
        if self.chance(0.8):
            for space in NAMESPACES:
                claim = devices.make_claim(name=name)
                meta = replace(claim.metadata, namespace=space, uid=f"{space}/{name}")
                self.world.add(replace(claim, metadata=meta))
        return {"resource_claims": (PodResourceClaim(name="gpu", resource_claim_name=name),)}

    def remove_pod(self) -> None:
        if (pod := self.one(Pod)) is not None:
            self.world.remove(pod)

    def finish_pod(self) -> None:
        if (pod := self.one(Pod, lambda pod: pod.status.phase == "Running")) is not None:
            self.store.update(replace(pod, status=replace(pod.status, phase="Succeeded")))

    def relabel_pod(self) -> None:
        if (pod := self.one(Pod)) is not None:
            meta = replace(pod.metadata, labels={"app": self.random.choice(APPS)})
            self.store.update(replace(pod, metadata=meta))

    def open_gates(self) -> None:
        if (pod := self.one(Pod, lambda pod: pod.spec.scheduling_gates)) is not None:
            self.store.update(replace(pod, spec=replace(pod.spec, scheduling_gates=())))

    def tolerate(self) -> None:
        if (pod := self.one(Pod)) is not None:
            added = (*pod.spec.tolerations, Toleration(operator="Exists"))
            self.store.update(replace(pod, spec=replace(pod.spec, tolerations=added)))

    def claim(self) -> None:
        """Create a claim that pods may be waiting for, bound to a volume or unbound."""
        name, space = f"claim-{self.random.randint(1, 4)}", self.random.choice(NAMESPACES)
        if self.store.get(PersistentVolumeClaim, name, space) is not None:
            return
        mode = self.random.choice(("ReadWriteOnce", "ReadWriteOncePod"))
        claim = make_claim(name, namespace=space, access_modes=(mode,), storage_class="")
        self.world.add(claim)
        if self.chance(0.7):
            self.bind_claim()

    def bind_claim(self) -> None:
        claim = self.one(PersistentVolumeClaim, lambda claim: not claim.spec.volume_name)
        if claim is None:
            return
        reach = reachable(**{ZONE_LABEL: self.random.choice(("a", "b"))}) if self.chance(0.5) else None
        volume = make_volume(self.name("volume"), claim=claim, reach=reach, driver=DRIVER, phase="Bound")
        self.world.add(volume)
        done = make_claim(claim.name, namespace=claim.namespace, bound_to=volume.name, storage_class="")
        spec = replace(done.spec, access_modes=claim.spec.access_modes)
        annotations = {**claim.annotations, **done.annotations}
        meta = replace(claim.metadata, annotations=annotations)
        self.store.update(replace(claim, metadata=meta, spec=spec, status=done.status))

    def driver(self) -> None:
        """Install the volume driver on a node, or change its attach limit."""
        if (node := self.one(Node)) is None:
            return
        requested = make_csi_node(node.name, limits={DRIVER: self.random.choice((1, 2, None))})
        existing = self.store.get(CSINode, node.name)
        if existing is None:
            self.world.add(requested)
        else:
            self.store.update(replace(existing, spec=requested.spec))

    def slice(self) -> None:
        if (node := self.one(Node)) is not None:
            name = self.name("slice")
            self.world.add(devices.make_slice(devices.device("gpu-0"), name=name, pool=name, node=node.name))

    def collect_claims(self) -> None:
        """Act as the claim controller: deallocate claims without reservations."""
        pods = {pod.uid for pod in self.store.list(Pod) if not pod.is_finished}
        for claim in list(self.store.list(ResourceClaim)):
            if claim.status.reserved_for and not any(consumer.uid in pods for consumer in claim.status.reserved_for):
                self.world.remove(claim)

    def relabel_namespace(self) -> None:
        space = self.one(Namespace)
        meta = replace(space.metadata, labels={} if space.labels else {"open": "yes"})
        self.store.update(replace(space, metadata=meta))

    def budget(self) -> None:
        self.world.add(
            PodDisruptionBudget(
                metadata=ObjectMeta(name=self.name("budget"), namespace="default", uid=self.name("uid")),
                spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels={"app": self.random.choice(APPS)})),
                status=PodDisruptionBudgetStatus(disruptions_allowed=self.random.choice((0, 1))),
            )
        )

    def service(self) -> None:
        self.world.add(
            Service(
                metadata=ObjectMeta(name=self.name("service"), namespace="default", uid=self.name("uid")),
                spec=ServiceSpec(selector={"app": self.random.choice(APPS)}),
            )
        )
