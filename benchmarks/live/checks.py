"""Checks of the cluster after a round, computed from the specs alone."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from benchmarks.live.workload import NAMESPACE, Workload
from moorage.kube.api.affinity import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from moorage.kube.api.devices import ResourceClaim
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.pod_groups import PodGroup
from moorage.kube.api.selectors import LabelMatcher, label_matcher, node_matcher
from moorage.kube.api.storage import CSINode
from moorage.kube.client.rest import ApiClient

SCHEDULED: Final = "PodScheduled"
RUNNING: Final = "running-"
CHURN: Final = "churn-"
"""Name prefixes of existing pods, and of pods and nodes that are created and deleted during a round."""


async def problems(client: ApiClient, workload: Workload) -> list[str]:
    """Read the cluster and return its violations."""
    state = State(
        workload,
        await client.list(Pod, NAMESPACE),
        await client.list(Node),
        await client.list(CSINode),
        await client.list(ResourceClaim, NAMESPACE),
        await client.list(PodGroup, NAMESPACE) if "GenericWorkload=true" in workload.gates else (),
    )
    return [problem for check in CHECKS for problem in check(state)]


@dataclass(slots=True)
class State:
    """The cluster after a round; ``placed`` omits pods on deleted nodes."""

    workload: Workload
    pods: Sequence[Pod]
    nodes: Sequence[Node]
    csi_nodes: Sequence[CSINode] = ()
    claims: Sequence[ResourceClaim] = ()
    groups: Sequence[PodGroup] = ()
    by_name: dict[str, Node] = field(init=False)
    placed: list[Pod] = field(init=False)

    def __post_init__(self) -> None:
        self.by_name = {node.name: node for node in self.nodes}
        self.placed = [pod for pod in self.pods if pod.node_name in self.by_name]

    def domain(self, pod: Pod, key: str) -> str:
        """Return the topology domain of a pod."""
        return self.by_name[pod.node_name].labels.get(key, "")

    def per_domain(self, key: str, matcher: LabelMatcher) -> Counter[str]:
        """Count the pods that match in every domain."""
        return Counter(self.domain(pod, key) for pod in self.placed if matcher.matches(pod.labels))


def numbers(state: State) -> Iterator[str]:
    """Every feasible pod is placed, and every other pod is reported."""
    own = [pod for pod in state.pods if not pod.name.startswith((RUNNING, CHURN))]
    bound = sum(bool(pod.node_name) for pod in own)
    reported = sum(_is_reported(pod) for pod in own)
    if (bound, reported) != (state.workload.bound, state.workload.reported):
        yield (
            f"{bound} pods are bound and {reported} reported, of {len(own)}; "
            f"expected were {state.workload.bound} and {state.workload.reported}"
        )


def known_nodes(state: State) -> Iterator[str]:
    """No pod is bound to a node that never existed."""
    for pod in state.pods:
        if pod.node_name and pod.node_name not in state.by_name and not pod.node_name.startswith(CHURN):
            yield f"{pod.name} is on {pod.node_name}, which does not exist"


def capacity(state: State) -> Iterator[str]:
    """No node is over capacity."""
    requested: dict[str, Counter[str]] = defaultdict(Counter)
    for pod in state.placed:
        requested[pod.node_name].update({**pod.requests, "pods": 1})
    for name, amounts in requested.items():
        there = state.by_name[name].allocatable
        for resource, amount in amounts.items():
            if amount > there.get(resource, 0):
                yield f"{name} is over capacity: {amount} of {there.get(resource, 0)} {resource}"


def node_choice(state: State) -> Iterator[str]:
    """Node selectors, required node affinity and taints are respected."""
    for pod in state.placed:
        node = state.by_name[pod.node_name]
        selector = pod.spec.node_selector or {}
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        matcher = node_matcher(affinity.required) if affinity and affinity.required else None
        if selector.items() - node.labels.items() or (matcher and not matcher.matches(node.labels, node.name)):
            yield f"{pod.name} does not want to be on {node.name}"
        if not pod.name.startswith(RUNNING) and any(t.repels_pods and not pod.tolerates(t) for t in node.spec.taints):
            yield f"{pod.name} does not tolerate the taints of {node.name}"


def anti_affinity(state: State) -> Iterator[str]:
    """Required anti-affinity is respected in every domain."""
    for term, owners in _terms(state.placed, lambda terms: terms.pod_anti_affinity):
        matcher = label_matcher(term.label_selector)
        there = state.per_domain(term.topology_key, matcher)
        for pod in owners:
            if there[state.domain(pod, term.topology_key)] > matcher.matches(pod.labels):
                yield f"{pod.name} shares {term.topology_key} {state.domain(pod, term.topology_key)}"


def affinity(state: State) -> Iterator[str]:
    """Required affinity is respected; the first pod of a set may be alone."""
    for term, owners in _terms(state.placed, lambda terms: terms.pod_affinity):
        matcher = label_matcher(term.label_selector)
        there = state.per_domain(term.topology_key, matcher)
        for pod in owners:
            neighbours = there[state.domain(pod, term.topology_key)] - matcher.matches(pod.labels)
            if not neighbours and sum(there.values()) > 1:
                yield f"{pod.name} is without company in {state.domain(pod, term.topology_key)}"


def spread(state: State) -> Iterator[str]:
    """No domain has more pods than the emptiest and the allowed skew."""
    constraints: dict[str, TopologySpreadConstraint] = {}
    for pod in state.placed:
        constraints |= {repr(each): each for each in pod.spec.topology_spread_constraints}
    for constraint in constraints.values():
        if constraint.when_unsatisfiable == "DoNotSchedule":
            there = state.per_domain(constraint.topology_key, label_matcher(constraint.label_selector))
            everywhere = {node.labels.get(constraint.topology_key, "") for node in state.nodes} - {""}
            counts = [there[domain] for domain in everywhere]
            if max(counts) - min(counts) > constraint.max_skew:
                yield f"{min(counts)} to {max(counts)} pods in a {constraint.topology_key}"


def volumes(state: State) -> Iterator[str]:
    """No node holds more volumes than its driver can attach."""
    limits = {
        each.name: driver.allocatable.count
        for each in state.csi_nodes
        for driver in each.spec.drivers
        if driver.allocatable is not None
    }
    attached: Counter[str] = Counter()
    for pod in state.placed:
        attached[pod.node_name] += sum(volume.persistent_volume_claim is not None for volume in pod.spec.volumes)
    for name, count in attached.items():
        limit = limits.get(name)
        if limit is not None and count > limit:
            yield f"{name} has {count} volumes, and can hold {limit}"


def devices(state: State) -> Iterator[str]:
    """Every device is allocated to one claim, and the devices of a placed pod are on its node."""
    claims = {claim.name: claim for claim in state.claims}
    allocations: Counter[tuple[str, str]] = Counter()
    for claim in claims.values():
        allocations.update(_list_devices(claim))
    yield from (f"{device} is given to {count} claims" for device, count in allocations.items() if count > 1)
    for pod in state.placed:
        for use in pod.spec.resource_claims:
            claim = claims[use.resource_claim_name or ""]
            pools = {pool for pool, _ in _list_devices(claim)}
            if pools != {pod.node_name} or pod.uid not in {user.uid for user in claim.status.reserved_for}:
                yield f"{pod.name} is on {pod.node_name}, its devices are of {sorted(pools)}"


def groups(state: State) -> Iterator[str]:
    """A gang has its minimum number of placed pods, or none; topology constraints hold."""
    members: dict[str, list[Pod]] = defaultdict(list)
    for pod in state.placed:
        if pod.spec.scheduling_group is not None:
            members[pod.spec.scheduling_group.pod_group_name or ""].append(pod)
    for group in state.groups:
        pods = members[group.name]
        if 0 < len(pods) < (group.min_count or 0):
            yield f"{group.name} has {len(pods)} pods on nodes, and needs {group.min_count}"
        if (key := group.spec.topology_key) is not None:
            domains = {state.domain(pod, key) for pod in pods}
            if len(domains) > 1:
                yield f"{group.name} is in {len(domains)} values of {key}"


CHECKS: Final[Sequence[Callable[[State], Iterator[str]]]] = (
    numbers,
    known_nodes,
    capacity,
    node_choice,
    anti_affinity,
    affinity,
    spread,
    volumes,
    devices,
    groups,
)


def _is_reported(pod: Pod) -> bool:
    condition = pod.condition(SCHEDULED)
    return not pod.node_name and condition is not None and condition.reason == "Unschedulable"


def _list_devices(claim: ResourceClaim) -> list[tuple[str, str]]:
    allocation = claim.status.allocation
    return [(each.pool, each.device) for each in allocation.devices.results] if allocation else []


def _terms(
    pods: Iterable[Pod], of: Callable[[Affinity], PodAffinity | None]
) -> Iterator[tuple[PodAffinityTerm, Sequence[Pod]]]:
    """Return each distinct required term and the pods that have it."""
    terms: dict[str, PodAffinityTerm] = {}
    owners: Mapping[str, list[Pod]] = defaultdict(list)
    for pod in pods:
        group = of(pod.spec.affinity) if pod.spec.affinity else None
        for term in group.required if group else ():
            terms[repr(term)] = term
            owners[repr(term)].append(pod)
    for text, term in terms.items():
        yield term, owners[text]
