from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from moorage.kube.api.affinity import Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm
from moorage.kube.api.affinity_terms import affinity_terms
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    EVERYTHING,
    NOTHING,
    LabelMatcher,
    LabelSelector,
    LabelSelectorRequirement,
    label_matcher,
    label_set_matcher,
)
from moorage.scheduler.framework.status import IntArray
from moorage.scheduler.state import pod_index
from moorage.scheduler.state.cache import Cache
from moorage.scheduler.state.pod_index import PodIndex, TermGroup
from moorage.scheduler.state.selector_index import Namespaces
from moorage.testing import make_node, make_pod

DEFAULT = frozenset({"default"})


def expression(key: str, operator: str, *values: str) -> LabelMatcher:
    return label_matcher(LabelSelector(match_expressions=(LabelSelectorRequirement(key, operator, values),)))


def counts(index: PodIndex, namespaces: Namespaces, matcher: LabelMatcher, *, terminating: bool) -> IntArray:
    return index.count(namespaces, matcher, terminating=terminating).per_row(index.rows)


PODS = (
    (make_pod("web-0", labels={"app": "web", "index": "0"}), 0),
    (make_pod("web-1", labels={"app": "web", "index": "1"}), 2),
    (make_pod("web-2", labels={"app": "web", "index": "1"}), 2),
    (make_pod("bare"), 1),
    (make_pod("leaving", labels={"app": "web"}, terminating=True), 1),
    (make_pod("other", namespace="other", labels={"app": "web"}), 0),
)

COUNTS: dict[str, tuple[Namespaces, LabelMatcher, bool, list[int]]] = {
    "a label selects its pods": (DEFAULT, label_set_matcher({"app": "web"}), False, [1, 0, 2]),
    "terminating pods count on request": (DEFAULT, label_set_matcher({"app": "web"}), True, [1, 1, 2]),
    "other namespaces count when named": (DEFAULT | {"other"}, label_set_matcher({"app": "web"}), True, [2, 1, 2]),
    "no set of namespaces means all": (None, label_set_matcher({"app": "web"}), True, [2, 1, 2]),
    "an empty set of namespaces has no pods": (frozenset(), EVERYTHING, True, [0, 0, 0]),
    "an unused namespace has no pods": (frozenset({"empty"}), EVERYTHING, True, [0, 0, 0]),
    "everything selects pods without labels, too": (DEFAULT, EVERYTHING, True, [1, 2, 2]),
    "nothing selects nothing": (None, NOTHING, True, [0, 0, 0]),
    "the rarer of two labels narrows the search": (
        DEFAULT,
        label_set_matcher({"app": "web", "index": "0"}),
        True,
        [1, 0, 0],
    ),
    "In selects any of its values": (DEFAULT, expression("index", "In", "0", "1", "2"), True, [1, 0, 2]),
    "NotIn selects pods without the key": (DEFAULT, expression("index", "NotIn", "1"), True, [1, 2, 0]),
    "Exists selects any value": (DEFAULT, expression("index", "Exists"), True, [1, 0, 2]),
    "DoesNotExist selects the rest": (DEFAULT, expression("index", "DoesNotExist"), True, [0, 2, 0]),
}


@pytest.mark.parametrize("asked_first", [True, False])
@pytest.mark.parametrize(("namespaces", "matcher", "terminating", "want"), COUNTS.values(), ids=COUNTS)
def test_counts(
    namespaces: Namespaces, matcher: LabelMatcher, terminating: bool, want: list[int], asked_first: bool
) -> None:
    index = PodIndex()
    index.resize(3)
    if asked_first:
        assert counts(index, namespaces, matcher, terminating=terminating).tolist() == [0, 0, 0]
    for pod, row in PODS:
        index.add(pod, row)

    assert counts(index, namespaces, matcher, terminating=terminating).tolist() == want

    for pod, row in PODS:
        index.remove(pod, row)
    assert counts(index, namespaces, matcher, terminating=terminating).tolist() == [0, 0, 0]


def test_counts_cannot_be_written_to() -> None:
    index = PodIndex()
    index.resize(1)
    column = counts(index, None, EVERYTHING, terminating=True)
    with pytest.raises(ValueError, match="read-only"):
        column[0] = 1


def test_counts_follow_added_and_removed_rows() -> None:
    index = PodIndex()
    index.resize(1)
    first, last = make_pod("first"), make_pod("last")
    assert counts(index, DEFAULT, EVERYTHING, terminating=True).tolist() == [0]
    index.resize(200)
    index.add(first, 0)
    index.add(last, 199)
    assert np.flatnonzero(counts(index, DEFAULT, EVERYTHING, terminating=True)).tolist() == [0, 199]

    index.remove(first, 0)
    index.move([last], 199, 0)
    index.resize(199)

    assert np.flatnonzero(counts(index, DEFAULT, EVERYTHING, terminating=True)).tolist() == [0]


def test_least_recently_used_selectors_are_dropped_and_rebuilt_correctly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pod_index, "MAX_BYTES", 0)
    index = PodIndex()
    index.resize(2)
    matchers = [label_set_matcher({"app": str(number)}) for number in range(pod_index.MIN_COUNTS + 5)]
    for matcher in matchers:
        counts(index, DEFAULT, matcher, terminating=True)
    for number in range(len(matchers)):
        index.add(make_pod(labels={"app": str(number)}), number % 2)

    for number, matcher in enumerate(matchers):
        want = [1, 0] if number % 2 == 0 else [0, 1]
        assert counts(index, DEFAULT, matcher, terminating=True).tolist() == want


def term(app: str = "web", key: str = "zone", **fields: object) -> PodAffinityTerm:
    labels = {"app": app, "tier": "a"} if key == "b" else {"app": app}
    return PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=labels), **fields)  # type: ignore[arg-type]


NAMESPACE_SELECTOR = LabelSelector(match_labels={"team": "a"})
MEANT: dict[str, tuple[PodAffinityTerm, str, Mapping[str, str], Mapping[str, str], bool]] = {
    "its own namespace by default": (term(), "default", {"app": "web"}, {}, True),
    "not another one": (term(), "other", {"app": "web"}, {}, False),
    "not other labels": (term(), "default", {"app": "db"}, {}, False),
    "the namespaces it lists": (term(namespaces=("other",)), "other", {"app": "web"}, {}, True),
    "then no longer its own": (term(namespaces=("other",)), "default", {"app": "web"}, {}, False),
    "namespaces with labels that it selects": (
        term(namespace_selector=NAMESPACE_SELECTOR),
        "other",
        {"app": "web"},
        {"team": "a"},
        True,
    ),
    "not those it does not select": (
        term(namespace_selector=NAMESPACE_SELECTOR),
        "default",
        {"app": "web"},
        {},
        False,
    ),
    "all namespaces with an empty selector": (
        term(namespace_selector=LabelSelector()),
        "other",
        {"app": "web"},
        {},
        True,
    ),
    "listed and selected namespaces": (
        term(namespaces=("other",), namespace_selector=NAMESPACE_SELECTOR),
        "third",
        {"app": "web"},
        {"team": "a"},
        True,
    ),
    "no pod without a selector": (PodAffinityTerm(topology_key="zone"), "default", {"app": "web"}, {}, False),
    "every pod with an empty selector": (
        PodAffinityTerm(topology_key="zone", label_selector=LabelSelector()),
        "default",
        {},
        {},
        True,
    ),
}


@pytest.mark.parametrize(("output", "namespace", "labels", "namespace_labels", "want"), MEANT.values(), ids=MEANT)
def test_a_term_means(
    output: PodAffinityTerm,
    namespace: str,
    labels: Mapping[str, str],
    namespace_labels: Mapping[str, str],
    want: bool,
) -> None:
    pod = make_pod(affinity=Affinity(pod_anti_affinity=PodAntiAffinity(required=(output,))))
    index = PodIndex()
    index.resize(1)
    index.add(pod, 0)

    terms = index.anti_affinity.about(namespace, labels, namespace_labels)

    assert bool(terms) == want
    assert affinity_terms(pod).anti_affinity[0].matches(namespace, labels, namespace_labels) == want


def per_row(group: TermGroup, rows: int, weight: int = 1) -> IntArray:
    totals = np.zeros(rows, dtype=np.int64)
    group.add_to(totals, weight)
    return totals


def test_equal_terms_of_different_pods_are_one_group() -> None:
    index = PodIndex()
    index.resize(100)
    affinity = Affinity(
        pod_affinity=PodAffinity(
            required=(term(),), preferred=(WeightedPodAffinityTerm(5, term()), WeightedPodAffinityTerm(7, term()))
        ),
        pod_anti_affinity=PodAntiAffinity(preferred=(WeightedPodAffinityTerm(3, term()),)),
    )
    pods = [make_pod(f"p{row}", labels={"own": str(row)}, affinity=affinity) for row in range(100)]
    for row, pod in enumerate(pods):
        index.add(pod, row)
    assert (len(index.affinity), len(index.anti_affinity), len(index.preferred)) == (1, 0, 3)
    assert {group.weight for group in index.preferred.about("default", {"app": "web"}, {})} == {5, 7, -3}

    (group,) = index.affinity.about("default", {"app": "web"}, {})
    assert per_row(group, 100).tolist() == [1] * 100
    for row in range(50):
        index.remove(pods[row], row)
    assert per_row(group, 100, weight=4).tolist() == [0] * 50 + [4] * 50
    for row in range(50, 98):
        index.remove(pods[row], row)
    assert np.flatnonzero(per_row(group, 100)).tolist() == [98, 99]


def test_a_list_with_a_selector_that_cannot_be_read_is_treated_as_empty() -> None:
    bad = PodAffinityTerm(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "ok"}))
    worse = PodAffinityTerm(
        topology_key="zone", label_selector=LabelSelector(match_expressions=(LabelSelectorRequirement("app", "Near"),))
    )
    pod = make_pod(
        affinity=Affinity(
            pod_affinity=PodAffinity(required=(bad, worse)), pod_anti_affinity=PodAntiAffinity(required=(bad,))
        )
    )
    terms = affinity_terms(pod)
    assert terms.affinity == ()
    assert len(terms.anti_affinity) == 1
    assert terms.problems[0].startswith("requiredAffinityTerms: app: operator 'Near' is unknown")


def test_label_order_is_irrelevant() -> None:
    cache = Cache()
    cache.add_node(make_node("n"))
    cache.add_pod(make_pod("p", uid="p", node="n", labels={"app": "web", "index": "0"}))
    cache.update_pod(make_pod("p", uid="p", node="n", labels={"index": "0", "app": "web"}))
    cache.update_pod(make_pod("p", uid="p", node="n", labels={"app": "db"}))
    assert_same(cache, [])
    cache.remove_pod(make_pod("p", uid="p", node="n"))
    assert cache.pods.snapshot() == {}


@st.composite
def placed_pods(draw: st.DrawFn) -> Pod:
    small = st.sampled_from(["a", "b"])
    labels = draw(st.dictionaries(st.sampled_from(["app", "tier", "index"]), small))
    near = draw(st.lists(st.builds(term, small, small), max_size=2))
    away = draw(st.lists(st.builds(WeightedPodAffinityTerm, st.integers(1, 2), st.builds(term, small)), max_size=2))
    return make_pod(
        f"p{draw(st.integers(0, 10**6))}",
        namespace=draw(small),
        labels=labels,
        terminating=draw(st.booleans()),
        affinity=Affinity(
            pod_affinity=PodAffinity(required=tuple(near)), pod_anti_affinity=PodAntiAffinity(preferred=tuple(away))
        ),
    )


QUESTIONS = st.tuples(
    st.sampled_from([None, frozenset({"a"}), frozenset({"a", "b"})]),
    st.sampled_from(
        [
            EVERYTHING,
            label_set_matcher({"app": "a"}),
            label_set_matcher({"app": "a", "index": "b"}),
            expression("tier", "In", "a", "b"),
            expression("tier", "NotIn", "a"),
            expression("index", "Exists"),
        ]
    ),
    st.booleans(),
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), placed_pods(), st.integers(0, 9)),
        st.tuples(st.just("shuffle"), st.integers(0, 99), st.none()),
        st.tuples(st.just("relabel"), st.integers(0, 99), st.sampled_from(["a", "b"])),
        st.tuples(st.just("remove pod"), st.integers(0, 99), st.none()),
        st.tuples(st.just("remove node"), st.integers(0, 99), st.none()),
        st.tuples(st.just("add node"), st.none(), st.none()),
        st.tuples(st.just("ask"), QUESTIONS, st.none()),
    ),
    max_size=40,
)


@settings(max_examples=150, deadline=None)
@given(steps=STEPS, questions=st.lists(QUESTIONS, max_size=4))
def test_index_equals_a_rebuilt_index_after_any_history(steps, questions) -> None:  # type: ignore[no-untyped-def]
    cache = Cache()
    for number in range(3):
        cache.add_node(make_node(f"n{number}"))
    node_number, pods = 3, {}
    for action, subject, position in steps:
        if action == "add" and len(cache):
            pod = subject.on_node(cache.nodes[position % len(cache)].name)
            if cache.pod(pod.uid) is None:
                cache.add_pod(pod)
                pods[pod.uid] = pod
        elif action in ("shuffle", "relabel") and pods:
            pod = turned_round(pods[sorted(pods)[subject % len(pods)]], {"app": position} if position else {})
            cache.update_pod(pod)
            pods[pod.uid] = pod
        elif action == "remove pod" and pods:
            cache.remove_pod(pods.pop(sorted(pods)[subject % len(pods)]))
        elif action == "remove node" and len(cache):
            cache.remove_node(cache.nodes[subject % len(cache)].name)
        elif action == "add node":
            cache.add_node(make_node(f"n{node_number}"))
            node_number += 1
        elif action == "ask":
            namespaces, matcher, terminating = subject
            counts(cache.pods, namespaces, matcher, terminating=terminating)
    assert_same(cache, questions)


def turned_round(pod: Pod, labels: Mapping[str, str]) -> Pod:
    """Return a later version of a pod, as another serializer might send it: every dict filled the other way round."""
    later = {**dict(reversed(pod.labels.items())), **labels}
    near = tuple(
        replace(
            term, label_selector=LabelSelector(match_labels=dict(reversed(term.label_selector.match_labels.items())))
        )
        for term in pod.spec.affinity.pod_affinity.required
    )
    affinity = replace(pod.spec.affinity, pod_affinity=PodAffinity(required=near))
    return replace(pod, metadata=replace(pod.metadata, labels=later), spec=replace(pod.spec, affinity=affinity))


def assert_same(cache: Cache, questions: list[tuple[Namespaces, LabelMatcher, bool]]) -> None:
    fresh = PodIndex()
    fresh.resize(len(cache))
    for row, info in enumerate(cache.nodes):
        for pod in info.pods.values():
            fresh.add(pod, row)
    assert cache.pods.rows == fresh.rows
    assert cache.pods.snapshot() == fresh.snapshot()
    for kind in ("affinity", "anti_affinity", "preferred"):
        assert getattr(cache.pods, kind).snapshot() == getattr(fresh, kind).snapshot()
    for namespaces, matcher, terminating in questions:
        column = counts(cache.pods, namespaces, matcher, terminating=terminating)
        assert column.tolist() == counts(fresh, namespaces, matcher, terminating=terminating).tolist()
        assert column.tolist() == [
            sum(
                (namespaces is None or pod.namespace in namespaces)
                and matcher.matches(pod.labels)
                and (terminating or not pod.is_terminating)
                for pod in info.pods.values()
            )
            for info in cache.nodes
        ]
