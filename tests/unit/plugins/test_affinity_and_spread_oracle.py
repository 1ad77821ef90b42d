"""Random clusters against a count of every pod on every node, written from the definitions and nothing else."""

from collections.abc import Iterator
from math import floor, log

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from moorage.api.affinity import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Taint,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from moorage.api.cluster import Namespace
from moorage.api.meta import ObjectMeta
from moorage.api.node import HOSTNAME_LABEL
from moorage.api.pod import Pod
from moorage.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.framework.cycle import CycleState
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.plugin import FilterPlugin, PreFilterExtensions
from moorage.framework.status import Code, Status
from moorage.plugins.inter_pod_affinity import InterPodAffinity
from moorage.plugins.inter_pod_affinity.filter import AFFINITY_UNMET, ANTI_AFFINITY_BROKEN, EXISTING_BROKEN
from moorage.plugins.pod_topology_spread import PodTopologySpread
from moorage.plugins.pod_topology_spread.filter import LABEL_MISSING, TOO_UNEVEN
from moorage.testing import make_node, make_pod
from moorage.testing.rig import Rig

KEYS = ("zone", "rack", HOSTNAME_LABEL)
VALUES = st.sampled_from(["a", "b"])
LABELS = st.dictionaries(st.sampled_from(["app", "tier"]), VALUES)
NAMESPACES = st.sampled_from(["default", "other", "unknown"])
EXPRESSIONS = st.one_of(
    st.builds(
        LabelSelectorRequirement,
        st.just("app"),
        st.sampled_from(["In", "NotIn"]),
        st.lists(VALUES, min_size=1, max_size=2, unique=True).map(tuple),
    ),
    st.builds(LabelSelectorRequirement, st.just("tier"), st.sampled_from(["Exists", "DoesNotExist"])),
)
SELECTORS = st.one_of(
    st.none(),
    st.builds(LabelSelector, match_labels=LABELS),
    st.builds(LabelSelector, match_expressions=st.lists(EXPRESSIONS, max_size=2).map(tuple)),
)
NAMESPACE_SELECTORS = st.sampled_from(
    [
        None,
        None,
        LabelSelector(),
        LabelSelector(match_labels={"team": "x"}),
        LabelSelector(match_expressions=(LabelSelectorRequirement("team", "DoesNotExist"),)),
    ]
)
TERMS = st.builds(
    PodAffinityTerm,
    topology_key=st.sampled_from(KEYS),
    label_selector=SELECTORS,
    namespaces=st.lists(NAMESPACES, max_size=1).map(tuple),
    namespace_selector=NAMESPACE_SELECTORS,
)
WEIGHTED = st.lists(st.builds(WeightedPodAffinityTerm, st.integers(1, 100), TERMS), max_size=2).map(tuple)
REQUIRED = st.lists(TERMS, max_size=2).map(tuple)
AFFINITIES = st.one_of(
    st.none(),
    st.builds(
        Affinity,
        pod_affinity=st.builds(PodAffinity, required=REQUIRED, preferred=WEIGHTED),
        pod_anti_affinity=st.builds(PodAntiAffinity, required=REQUIRED, preferred=WEIGHTED),
    ),
)
TAINT = Taint(key="dedicated", value="x", effect="NoSchedule")
CONSTRAINTS = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 3),
    topology_key=st.sampled_from(KEYS),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    label_selector=SELECTORS,
    min_domains=st.sampled_from([None, 1, 2, 4]),
    node_affinity_policy=st.sampled_from([None, "Honor", "Ignore"]),
    node_taints_policy=st.sampled_from([None, "Honor", "Ignore"]),
    match_label_keys=st.sampled_from([(), ("tier",), ("absent",)]),
)


@st.composite
def nodes(draw: st.DrawFn, number: int):  # type: ignore[no-untyped-def]
    labels = draw(st.dictionaries(st.sampled_from(["zone", "rack"]), st.sampled_from(["a", "b", "c", ""])))
    return make_node(f"n{number}", labels=labels, taints=(TAINT,) if draw(st.booleans()) else ())


@st.composite
def rigs(draw: st.DrawFn) -> Rig:
    count = draw(st.integers(1, 5))
    rig = Rig(
        Namespace(metadata=ObjectMeta(name="default", labels=draw(st.sampled_from([{}, {"team": "x"}])))),
        Namespace(metadata=ObjectMeta(name="other", labels=draw(st.sampled_from([{}, {"team": "x"}])))),
        *(draw(nodes(number)) for number in range(count)),
    )
    for number in range(draw(st.integers(0, 7))):
        rig.add(draw(pods(f"p{number}", node=f"n{draw(st.integers(0, count - 1))}")))
    return rig


@st.composite
def pods(draw: st.DrawFn, name: str = "incoming", node: str = "") -> Pod:
    affinity = draw(AFFINITIES)
    spec = {} if affinity is None else {"affinity": affinity}
    return make_pod(
        name, namespace=draw(NAMESPACES), labels=draw(LABELS), node=node, terminating=draw(st.booleans()), **spec
    )


@st.composite
def spread_pods(draw: st.DrawFn) -> Pod:
    zones = NodeSelector((NodeSelectorTerm((NodeSelectorRequirement("zone", "In", ("a", "b")),)),))
    return make_pod(
        "incoming",
        labels=draw(LABELS),
        topology_spread_constraints=tuple(draw(st.lists(CONSTRAINTS, min_size=1, max_size=3))),
        tolerates=draw(st.sampled_from([(), ("dedicated",)])),
        node_selector=draw(st.sampled_from([{}, {"rack": "a"}])),
        affinity=draw(st.sampled_from([None, Affinity(node_affinity=NodeAffinity(required=zones))])),
    )


def selects(selector: LabelSelector | None, labels: dict[str, str]) -> bool:
    if selector is None:
        return False
    for key, value in selector.match_labels.items():
        if labels.get(key) != value:
            return False
    for item in selector.match_expressions:
        found = labels.get(item.key)
        if {
            "In": found not in item.values,
            "NotIn": found in item.values,
            "Exists": found is None,
            "DoesNotExist": found is not None,
        }[item.operator]:
            return False
    return True


class World:
    """A rig as the oracle sees it: nodes, and pods on them."""

    def __init__(self, rig: Rig) -> None:
        self.namespaces = {item.name: item.labels for item in rig.lister(Namespace).list()}
        self.nodes = [(info.labels, list(info.pods.values()), info) for info in rig.nodes]

    def pods(self) -> Iterator[tuple[dict[str, str], Pod]]:
        return ((labels, pod) for labels, pods, _ in self.nodes for pod in pods)

    def means(self, term: PodAffinityTerm, owner: Pod, other: Pod, *, owner_is_incoming: bool) -> bool:
        if not term.namespaces and term.namespace_selector is None:
            in_namespace = other.namespace == owner.namespace
        else:
            # An incoming pod's selector goes through the namespaces that are known; an existing pod's is asked about
            # the incoming pod's namespace, which has no labels when it is not known.
            known = (
                other.namespace in self.namespaces
                or not owner_is_incoming
                or term.namespace_selector == LabelSelector()
            )
            in_namespace = other.namespace in term.namespaces or (
                known and selects(term.namespace_selector, self.namespaces.get(other.namespace, {}))
            )
        return in_namespace and selects(term.label_selector, other.labels)


def required(pod: Pod) -> tuple[tuple[PodAffinityTerm, ...], tuple[PodAffinityTerm, ...]]:
    affinity = pod.spec.affinity or Affinity()
    return (affinity.pod_affinity or PodAffinity()).required, (affinity.pod_anti_affinity or PodAntiAffinity()).required


def expected_affinity(world: World, pod: Pod) -> list[Status | None]:
    wanted, unwanted = required(pod)
    good, bad, resented = set(), set(), set()
    for labels, other in world.pods():
        if wanted and all(world.means(term, pod, other, owner_is_incoming=True) for term in wanted):
            good |= {(term.topology_key, labels[term.topology_key]) for term in wanted if term.topology_key in labels}
        for term in unwanted:
            if world.means(term, pod, other, owner_is_incoming=True) and term.topology_key in labels:
                bad.add((term.topology_key, labels[term.topology_key]))
        for term in required(other)[1]:
            if world.means(term, other, pod, owner_is_incoming=False) and term.topology_key in labels:
                resented.add((term.topology_key, labels[term.topology_key]))
    bootstrap = not good and all(world.means(term, pod, pod, owner_is_incoming=True) for term in wanted)

    def verdict(labels: dict[str, str]) -> Status | None:
        pairs = set(labels.items())
        has_keys = all(term.topology_key in labels for term in wanted)
        near = all((term.topology_key, labels.get(term.topology_key)) in good for term in wanted)
        if wanted and not (has_keys and (near or bootstrap)):
            return AFFINITY_UNMET
        if pairs & bad:
            return ANTI_AFFINITY_BROKEN
        return EXISTING_BROKEN if pairs & resented else None

    return [verdict(labels) for labels, _, _ in world.nodes]


def expected_affinity_scores(world: World, pod: Pod) -> list[int] | None:
    table: dict[tuple[str, str], int] = {}

    def say(term: PodAffinityTerm, labels: dict[str, str], weight: int) -> None:
        if term.topology_key in labels:
            pair = (term.topology_key, labels[term.topology_key])
            table[pair] = table.get(pair, 0) + weight

    def wishes(of: Pod) -> list[tuple[PodAffinityTerm, int]]:
        affinity = of.spec.affinity or Affinity()
        return [(w.pod_affinity_term, w.weight) for w in (affinity.pod_affinity or PodAffinity()).preferred] + [
            (w.pod_affinity_term, -w.weight) for w in (affinity.pod_anti_affinity or PodAntiAffinity()).preferred
        ]

    for labels, other in world.pods():
        for term, weight in wishes(pod):
            if world.means(term, pod, other, owner_is_incoming=True):
                say(term, labels, weight)
        for term, weight in [*wishes(other), *((term, 1) for term in required(other)[0])]:
            if world.means(term, other, pod, owner_is_incoming=False):
                say(term, labels, weight)
    if not table:
        return None
    return [sum(table.get(pair, 0) for pair in labels.items()) for labels, _, _ in world.nodes]


def spread_selector(item: TopologySpreadConstraint, pod: Pod):  # type: ignore[no-untyped-def]
    def matches(labels: dict[str, str]) -> bool:
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
        other.namespace == pod.namespace and not other.is_terminating and matches(other.labels) for other in here
    )


def includes(item: TopologySpreadConstraint, pod: Pod, info: NodeInfo) -> bool:
    labels = info.labels
    if item.node_affinity_policy != "Ignore":
        if any(labels.get(key) != value for key, value in pod.spec.node_selector.items()):
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

    def verdict(labels: dict[str, str]) -> Status | None:
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
                size = len({world.nodes[other][0][item.topology_key] for other in able})
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


def judged(plugin: FilterPlugin, rig: Rig, pod: Pod) -> list[Status | None]:
    """Judge by both forms, on the cluster and on a window of it, and make sure that they agree."""
    assert isinstance(plugin, PreFilterExtensions)
    cycle = CycleState()
    answer = plugin.pre_filter(cycle, pod, rig.nodes)
    if answer is not None:
        assert isinstance(answer, Status)
        assert answer.code == Code.SKIP
        return [None] * len(rig.nodes)
    by_node = [plugin.filter(cycle, pod, node) for node in rig.nodes]
    verdict = plugin.filter_nodes(cycle, pod, rig.nodes)
    assert [verdict.status_at(row) for row in range(len(rig.nodes))] == by_node
    window = np.arange(len(rig.nodes))[::-2]
    some = plugin.filter_nodes(cycle, pod, rig.nodes.take(window))
    assert [some.status_at(place) for place in range(len(window))] == [by_node[row] for row in window]
    return by_node


def rated(plugin, rig: Rig, pod: Pod, feasible: list[int]) -> list[int] | None:  # type: ignore[no-untyped-def]
    cycle, window = CycleState(), rig.nodes.take(np.array(feasible))
    if plugin.pre_score(cycle, pod, window) is not None:
        return None
    raw = plugin.score_nodes(cycle, pod, window)
    assert raw.tolist() == [plugin.score(cycle, pod, node) for node in window]
    scores: list[int] = plugin.normalize_scores(cycle, pod, window, raw).tolist()
    return scores


@settings(max_examples=100, deadline=None)
@given(rig=rigs(), pod=pods())
def test_affinity_verdicts(rig: Rig, pod: Pod) -> None:
    assert judged(InterPodAffinity(handle=rig), rig, pod) == expected_affinity(World(rig), pod)


@settings(max_examples=100, deadline=None)
@given(rig=rigs(), pod=pods())
def test_affinity_scores(rig: Rig, pod: Pod) -> None:
    plugin, cycle = InterPodAffinity(handle=rig), CycleState()
    want = expected_affinity_scores(World(rig), pod)
    assert (plugin.pre_score(cycle, pod, rig.nodes) is not None) == (want is None)
    if want is not None:
        assert plugin.score_nodes(cycle, pod, rig.nodes).tolist() == want
        assert [plugin.score(cycle, pod, node) for node in rig.nodes] == want


@settings(max_examples=100, deadline=None)
@given(rig=rigs(), pod=spread_pods())
def test_spread_verdicts(rig: Rig, pod: Pod) -> None:
    assert judged(PodTopologySpread(handle=rig), rig, pod) == expected_spread(World(rig), pod)


@settings(max_examples=100, deadline=None)
@given(rig=rigs(), pod=spread_pods(), data=st.data())
def test_spread_scores(rig: Rig, pod: Pod, data: st.DataObject) -> None:
    rows = range(len(rig.nodes))
    feasible = data.draw(st.lists(st.sampled_from(rows), min_size=1, unique=True))
    want = expected_spread_scores(World(rig), pod, feasible)
    assert rated(PodTopologySpread(handle=rig), rig, pod, feasible) == want


@settings(max_examples=100, deadline=None)
@given(rig=rigs(), pod=pods(), data=st.data())
def test_affinity_after_a_what_if_equals_affinity_in_that_world(rig: Rig, pod: Pod, data: st.DataObject) -> None:
    """The clone answers as a cluster so changed would, and the original as before."""
    plugin, cycle = InterPodAffinity(handle=rig), CycleState()
    if plugin.pre_filter(cycle, pod, rig.nodes) is not None:
        return
    before = [plugin.filter(cycle, pod, node) for node in rig.nodes]
    clone = cycle.clone()
    gone = [other for _, other in World(rig).pods() if data.draw(st.booleans())]
    come = [
        data.draw(pods(f"new{number}")).on_node(data.draw(st.sampled_from(rig.nodes.names)))
        for number in range(data.draw(st.integers(0, 3)))
    ]
    for other in gone:
        plugin.remove_pod(clone, pod, other, rig.nodes.find(other.node_name))  # type: ignore[arg-type]
    for other in come:
        plugin.add_pod(clone, pod, other, rig.nodes.find(other.node_name))  # type: ignore[arg-type]
    after = [plugin.filter(clone, pod, node) for node in rig.nodes]
    verdict = plugin.filter_nodes(clone, pod, rig.nodes)
    assert [verdict.status_at(row) for row in range(len(rig.nodes))] == after
    assert [plugin.filter(cycle, pod, node) for node in rig.nodes] == before

    for other in gone:
        rig.cache.remove_pod(other)
    for other in come:
        rig.cache.add_pod(other)
    assert after == expected_affinity(World(rig), pod)
