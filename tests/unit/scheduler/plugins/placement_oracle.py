"""The expected results of affinity and spread, computed from the definitions by counting every pod on every node."""

from collections.abc import Iterator, Mapping
from math import floor, log

from moorage.kube.api.affinity import (
    Affinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    TopologySpreadConstraint,
)
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    LabelSelector,
)
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.inter_pod_affinity.filter import AFFINITY_UNMET, ANTI_AFFINITY_BROKEN, EXISTING_BROKEN
from moorage.scheduler.plugins.pod_topology_spread.filter import LABEL_MISSING, TOO_UNEVEN
from moorage.testing.rig import Rig


def selects(selector: LabelSelector | None, labels: Mapping[str, str]) -> bool:
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    for item in selector.match_expressions:
        result = labels.get(item.key)
        if {
            "In": result not in item.values,
            "NotIn": result in item.values,
            "Exists": result is None,
            "DoesNotExist": result is not None,
        }[item.operator]:
            return False
    return True


class World:
    """A rig as the oracle sees it: nodes, and pods on them."""

    def __init__(self, rig: Rig) -> None:
        self.namespaces = {item.name: item.labels for item in rig.lister(Namespace).list()}
        self.nodes = [(info.labels, list(info.pods.values()), info) for info in rig.nodes]

    def pods(self) -> Iterator[tuple[Mapping[str, str], Pod]]:
        return ((labels, pod) for labels, pods, _ in self.nodes for pod in pods)

    def means(self, term: PodAffinityTerm, owner: Pod, candidate: Pod, *, owner_is_incoming: bool) -> bool:
        if not term.namespaces and term.namespace_selector is None:
            in_namespace = candidate.namespace == owner.namespace
        else:
            # An incoming pod's selector selects among the known namespaces. An existing pod's selector is matched with
            # the incoming pod's namespace, which has no labels if it is unknown.
            existing = (
                candidate.namespace in self.namespaces
                or not owner_is_incoming
                or term.namespace_selector == LabelSelector()
            )
            in_namespace = candidate.namespace in term.namespaces or (
                existing and selects(term.namespace_selector, self.namespaces.get(candidate.namespace, {}))
            )
        return in_namespace and selects(term.label_selector, candidate.labels)


def required(pod: Pod) -> tuple[tuple[PodAffinityTerm, ...], tuple[PodAffinityTerm, ...]]:
    affinity = pod.spec.affinity or Affinity()
    return (affinity.pod_affinity or PodAffinity()).required, (affinity.pod_anti_affinity or PodAntiAffinity()).required


def expected_affinity(world: World, pod: Pod) -> list[Status | None]:
    requested, unwanted = required(pod)
    good, bad, resented = set(), set(), set()
    for labels, second in world.pods():
        if requested and all(world.means(term, pod, second, owner_is_incoming=True) for term in requested):
            good |= {
                (term.topology_key, labels[term.topology_key]) for term in requested if term.topology_key in labels
            }
        for term in unwanted:
            if world.means(term, pod, second, owner_is_incoming=True) and term.topology_key in labels:
                bad.add((term.topology_key, labels[term.topology_key]))
        for term in required(second)[1]:
            if world.means(term, second, pod, owner_is_incoming=False) and term.topology_key in labels:
                resented.add((term.topology_key, labels[term.topology_key]))
    bootstrap = not good and all(world.means(term, pod, pod, owner_is_incoming=True) for term in requested)

    def verdict(labels: Mapping[str, str]) -> Status | None:
        pairs = set(labels.items())
        has_keys = all(term.topology_key in labels for term in requested)
        near = all((term.topology_key, labels.get(term.topology_key)) in good for term in requested)
        if requested and not (has_keys and (near or bootstrap)):
            return AFFINITY_UNMET
        if pairs & bad:
            return ANTI_AFFINITY_BROKEN
        return EXISTING_BROKEN if pairs & resented else None

    return [verdict(labels) for labels, _, _ in world.nodes]


def expected_affinity_scores(world: World, pod: Pod) -> list[int] | None:
    table: dict[tuple[str, str], int] = {}

    def say(term: PodAffinityTerm, labels: Mapping[str, str], weight: int) -> None:
        if term.topology_key in labels:
            pair = (term.topology_key, labels[term.topology_key])
            table[pair] = table.get(pair, 0) + weight

    def wishes(of: Pod) -> list[tuple[PodAffinityTerm, int]]:
        affinity = of.spec.affinity or Affinity()
        return [(w.pod_affinity_term, w.weight) for w in (affinity.pod_affinity or PodAffinity()).preferred] + [
            (w.pod_affinity_term, -w.weight) for w in (affinity.pod_anti_affinity or PodAntiAffinity()).preferred
        ]

    for labels, second in world.pods():
        for term, weight in wishes(pod):
            if world.means(term, pod, second, owner_is_incoming=True):
                say(term, labels, weight)
        for term, weight in [*wishes(second), *((term, 1) for term in required(second)[0])]:
            if world.means(term, second, pod, owner_is_incoming=False):
                say(term, labels, weight)
    if not table:
        return None
    return [sum(table.get(pair, 0) for pair in labels.items()) for labels, _, _ in world.nodes]


def spread_selector(item: TopologySpreadConstraint, pod: Pod):  # type: ignore[no-untyped-def]
    def matches(labels: Mapping[str, str]) -> bool:
        extra = {key: pod.labels[key] for key in item.match_label_keys if key in pod.labels}
        return selects(item.label_selector, labels) and all(labels.get(key) == value for key, value in extra.items())

    return matches


def is_empty(item: TopologySpreadConstraint, pod: Pod) -> bool:
    return item.label_selector == LabelSelector() and not any(key in pod.labels for key in item.match_label_keys)


def count_here(item: TopologySpreadConstraint, pod: Pod, here: list[Pod]) -> int:
    matches = spread_selector(item, pod)
    if is_empty(item, pod):
        return 0
    return sum(
        second.namespace == pod.namespace and not second.is_terminating and matches(second.labels) for second in here
    )


def includes(item: TopologySpreadConstraint, pod: Pod, info: NodeInfo) -> bool:
    labels = info.labels
    if item.node_affinity_policy != "Ignore":
        if any(labels.get(key) != value for key, value in (pod.spec.node_selector or {}).items()):
            return False
        if pod.spec.affinity is not None and labels.get("zone") not in ("a", "b"):
            return False
    return item.node_taints_policy != "Honor" or not info.taints or bool(pod.spec.tolerations)


def expected_spread(world: World, pod: Pod) -> list[Status | None]:
    items = [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "DoNotSchedule"]
    domains: list[dict[str, int]] = [{} for _ in items]
    for labels, here, info in world.nodes:
        if all(item.topology_key in labels for item in items):
            for item, counts in zip(items, domains, strict=True):
                if includes(item, pod, info):
                    value = labels[item.topology_key]
                    counts[value] = counts.get(value, 0) + count_here(item, pod, here)

    def verdict(labels: Mapping[str, str]) -> Status | None:
        for item, counts in zip(items, domains, strict=True):
            if item.topology_key not in labels:
                return LABEL_MISSING
            few = len(counts) < (1 if item.min_domains is None else item.min_domains)
            lowest = 0 if few else min(counts.values())
            own = spread_selector(item, pod)(pod.labels)
            if counts.get(labels[item.topology_key], 0) + own - lowest > item.max_skew:
                return TOO_UNEVEN
        return None

    return [verdict(labels) for labels, _, _ in world.nodes]


def expected_spread_scores(world: World, pod: Pod, feasible: list[int]) -> list[int] | None:
    items = [c for c in pod.spec.topology_spread_constraints if c.when_unsatisfiable == "ScheduleAnyway"]
    if not items:
        return None
    able = [row for row in feasible if all(item.topology_key in world.nodes[row][0] for item in items)]
    scores = dict.fromkeys(feasible, 0)
    for row in able:
        labels, here, _ = world.nodes[row]
        total = 0.0
        for item in items:
            value = labels[item.topology_key]
            if item.topology_key == HOSTNAME_LABEL:
                size, count = len(able), count_here(item, pod, here)
            else:
                size = len({world.nodes[second][0][item.topology_key] for second in able})
                count = sum(
                    count_here(item, pod, there)
                    for elsewhere, there, info in world.nodes
                    if all(c.topology_key in elsewhere for c in items)
                    and elsewhere[item.topology_key] == value
                    and includes(item, pod, info)
                )
            total += count * log(size + 2) + (item.max_skew - 1)
        scores[row] = floor(total + 0.5)
    if able:
        high, low = max(0, *(scores[row] for row in able)), min(scores[row] for row in able)
        for row in able:
            scores[row] = 100 if high == 0 else 100 * (high + low - scores[row]) // high
    return [scores[row] for row in feasible]
