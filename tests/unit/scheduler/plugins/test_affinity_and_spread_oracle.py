"""Random clusters, evaluated by the plugins and by the oracle."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from tests.unit.scheduler.plugins.placement_oracle import (
    World,
    expected_affinity,
    expected_affinity_scores,
    expected_spread,
    expected_spread_scores,
)

from moorage.kube.api.affinity import (
    Affinity,
    NodeAffinity,
    PodAffinity,
    PodAffinityTerm,
    PodAntiAffinity,
    Taint,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.meta import ObjectMeta
from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    LabelSelector,
    LabelSelectorRequirement,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.plugin import FilterPlugin, PreFilterExtensions
from moorage.scheduler.framework.status import Code, Status
from moorage.scheduler.plugins.inter_pod_affinity.plugin import InterPodAffinity
from moorage.scheduler.plugins.pod_topology_spread.plugin import PodTopologySpread
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


def judged(plugin: FilterPlugin, rig: Rig, pod: Pod) -> list[Status | None]:
    """Evaluate both forms, on the cluster and on a window, and check that they agree."""
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
    sample = plugin.filter_nodes(cycle, pod, rig.nodes.take(window))
    assert [sample.status_at(index) for index in range(len(window))] == [by_node[row] for row in window]
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
    assert_rated(InterPodAffinity(handle=rig), rig, pod)


def assert_rated(plugin: InterPodAffinity, rig: Rig, pod: Pod) -> None:
    cycle = CycleState()
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
def test_affinity_after_a_what_if_equals_affinity_in_the_changed_cluster(
    rig: Rig, pod: Pod, data: st.DataObject
) -> None:
    """The changed clone returns the results of the changed cluster, and the original those of the old one."""
    plugin, cycle = InterPodAffinity(handle=rig), CycleState()
    if plugin.pre_filter(cycle, pod, rig.nodes) is not None:
        return
    before = [plugin.filter(cycle, pod, node) for node in rig.nodes]
    clone = cycle.clone()
    removed = [second for _, second in World(rig).pods() if data.draw(st.booleans())]
    come = [
        data.draw(pods(f"new{number}")).on_node(data.draw(st.sampled_from(rig.nodes.names)))
        for number in range(data.draw(st.integers(0, 3)))
    ]
    for second in removed:
        plugin.remove_pod(clone, pod, second, rig.nodes.find(second.node_name))  # type: ignore[arg-type]
    for second in come:
        plugin.add_pod(clone, pod, second, rig.nodes.find(second.node_name))  # type: ignore[arg-type]
    after = [plugin.filter(clone, pod, node) for node in rig.nodes]
    verdict = plugin.filter_nodes(clone, pod, rig.nodes)
    assert [verdict.status_at(row) for row in range(len(rig.nodes))] == after
    assert [plugin.filter(cycle, pod, node) for node in rig.nodes] == before

    for second in removed:
        rig.cache.remove_pod(second)
    for second in come:
        rig.cache.add_pod(second)
    assert after == expected_affinity(World(rig), pod)


def change_something(rig: Rig, data: st.DataObject, step: int) -> None:
    """Add, delete or replace a pod, or add, delete or change a node."""
    existing = [second for _, second in World(rig).pods()]
    names = list(rig.nodes.names)
    match data.draw(st.sampled_from(["come", "come", "go", "relabel", "node comes", "node goes", "node changes"])):
        case "come":
            rig.cache.add_pod(data.draw(pods(f"new{step}", node=data.draw(st.sampled_from(names)))))
        case "go" if existing:
            rig.cache.remove_pod(data.draw(st.sampled_from(existing)))
        case "relabel" if existing:
            second = data.draw(st.sampled_from(existing))
            rig.cache.update_pod(replace(second, metadata=replace(second.metadata, labels=data.draw(LABELS))))
        case "node comes":
            rig.cache.add_node(data.draw(nodes(100 + step)))
        case "node goes" if len(names) > 1:
            rig.cache.remove_node(data.draw(st.sampled_from(names)))
        case "node changes":
            fresh, name = data.draw(nodes(0)), data.draw(st.sampled_from(names))
            rig.cache.update_node(replace(fresh, metadata=replace(fresh.metadata, name=name)))
        case _:
            pass


@settings(max_examples=60, deadline=None)
@given(rig=rigs(), kinds=st.lists(spread_pods(), min_size=1, max_size=2), data=st.data())
def test_spread_remains_right_while_the_cluster_changes(rig: Rig, kinds: list[Pod], data: st.DataObject) -> None:
    plugin = PodTopologySpread(handle=rig)
    for step in range(data.draw(st.integers(1, 6))):
        pod = data.draw(st.sampled_from(kinds))
        assert judged(plugin, rig, pod) == expected_spread(World(rig), pod)
        everything = list(range(len(rig.nodes)))
        assert rated(plugin, rig, pod, everything) == expected_spread_scores(World(rig), pod, everything)
        cycle = CycleState()
        if plugin.pre_score(cycle, pod, rig.nodes) is None:
            raw = plugin.score_nodes(cycle, pod, rig.nodes)
            assert raw.tolist() == [plugin.score(cycle, pod, node) for node in rig.nodes]
        change_something(rig, data, step)


@settings(max_examples=80, deadline=None)
@given(rig=rigs(), kinds=st.lists(pods(), min_size=1, max_size=3), data=st.data())
def test_affinity_remains_right_while_the_cluster_changes(rig: Rig, kinds: list[Pod], data: st.DataObject) -> None:
    plugin = InterPodAffinity(handle=rig)
    for step in range(data.draw(st.integers(1, 8))):
        pod = data.draw(st.sampled_from(kinds))
        assert judged(plugin, rig, pod) == expected_affinity(World(rig), pod)
        assert_rated(plugin, rig, pod)
        if data.draw(st.integers(0, 4)) == 0:
            team = data.draw(st.sampled_from([{}, {"team": "x"}]))
            rig.add(Namespace(metadata=ObjectMeta(name=data.draw(NAMESPACES), labels=team)))
        else:
            change_something(rig, data, step)
