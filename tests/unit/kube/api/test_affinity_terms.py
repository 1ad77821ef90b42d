"""Affinity terms: parsed once per template, with the namespaces and the problems of upstream."""

from typing import Any

import msgspec

from moorage.kube.api.affinity_terms import NO_TERMS, affinity_terms
from moorage.kube.api.codec import decode
from moorage.kube.api.pod import Pod

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
TERM = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "db"}}}
INVALID = {"topologyKey": "zone", "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Is"}]}}


def make_pod(namespace: str = "shop", **affinity: Any) -> Pod:
    return decode(Pod, msgspec.json.encode({"metadata": {"namespace": namespace}, "spec": {"affinity": affinity}}))


def test_pods_of_one_template_share_their_terms() -> None:
    affinity = {"podAffinity": {REQUIRED: [TERM]}}
    terms = affinity_terms(make_pod(**affinity))
    assert affinity_terms(make_pod(**affinity)) is terms
    assert affinity_terms(make_pod("other", **affinity)) is not terms
    assert affinity_terms(make_pod(nodeAffinity={})) is NO_TERMS


def test_weights_of_anti_affinity_are_negative() -> None:
    preferences = {PREFERRED: [{"weight": 5, "podAffinityTerm": TERM}]}
    terms = affinity_terms(make_pod(podAffinity=preferences, podAntiAffinity=preferences))
    assert [item.weight for item in terms.preferred] == [5, -5]
    assert terms.preferred[0].term == terms.preferred[1].term


def test_term_means_the_namespace_of_the_pod_unless_it_names_others() -> None:
    terms = [TERM, TERM | {"namespaces": ["a", "b"]}, TERM | {"namespaceSelector": {"matchLabels": {"team": "x"}}}]
    own, items, selected = affinity_terms(make_pod(podAntiAffinity={REQUIRED: terms})).anti_affinity
    assert [item.namespaces for item in (own, items, selected)] == [{"shop"}, {"a", "b"}, set()]
    labels = {"app": "db"}
    assert own.matches("shop", labels, {})
    assert not own.matches("a", labels, {})
    assert selected.matches("anywhere", labels, {"team": "x"})
    assert not selected.matches("anywhere", {"app": "web"}, {"team": "x"})


def test_list_with_an_invalid_selector_is_empty_and_reported() -> None:
    parts = {REQUIRED: [TERM, INVALID], PREFERRED: [{"weight": 1, "podAffinityTerm": INVALID}]}
    terms = affinity_terms(make_pod(podAffinity=parts, podAntiAffinity={REQUIRED: [INVALID]}))
    assert (terms.affinity, terms.anti_affinity, terms.preferred) == ((), (), ())
    assert [problem.partition(":")[0] for problem in terms.problems] == [
        "requiredAffinityTerms",
        "requiredAntiAffinityTerms",
        "preferredAffinityTerms",
    ]
