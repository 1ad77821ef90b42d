"""Pod affinity terms, parsed once per distinct text and hashable: equal terms of many pods are stored once."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeVar
from weakref import WeakValueDictionary

import msgspec
from msgspec import Struct
from msgspec.structs import force_setattr

from moorage.common.caches import MAX_VALUE_LENGTH, short_key
from moorage.common.errors import SelectorError
from moorage.kube.api.affinity import Affinity, PodAffinity, PodAffinityTerm, PodAntiAffinity, WeightedPodAffinityTerm
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import NOTHING, LabelMatcher, LabelSelector, label_matcher

T = TypeVar("T")

NO_LABELS: Final[Mapping[str, str]] = {}


class AffinityTerm(Struct, frozen=True):
    """The selected pods and the topology key of a term, independent of the pod that has it."""

    topology_key: str
    matcher: LabelMatcher
    namespaces: frozenset[str]
    namespace_matcher: LabelMatcher
    _hash: int = 0  # of the others

    def __post_init__(self) -> None:
        parts = (self.topology_key, self.matcher, self.namespaces, self.namespace_matcher)
        force_setattr(self, "_hash", hash(parts))

    def __hash__(self) -> int:
        # Terms are looked up for every added or removed pod, and the nested hash costs more than the rest of that.
        return self._hash

    def matches(self, namespace: str, labels: Mapping[str, str], namespace_labels: Mapping[str, str]) -> bool:
        """Return whether the term selects a pod with these labels, in a namespace with those labels."""
        if namespace not in self.namespaces and not self.namespace_matcher.matches(namespace_labels):
            return False
        return self.matcher.matches(labels)


class WeightedTerm(NamedTuple):
    """A preferred term. The weight of an anti-affinity term is negative."""

    term: AffinityTerm
    weight: int


class PodTerms(Struct, frozen=True, eq=False, weakref=True):
    """All affinity terms of a pod. A list with an invalid selector is treated as empty, as upstream.

    Pods of a template share the object, so that keys can contain it instead of the terms. It is deleted with its last
    pod.
    """

    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred: tuple[WeightedTerm, ...] = ()
    problems: tuple[str, ...] = ()


NO_TERMS: Final = PodTerms()

_encoder: Final = msgspec.msgpack.Encoder(order="deterministic")
_parsed: Final["WeakValueDictionary[tuple[str, bytes], PodTerms]"] = WeakValueDictionary()


def affinity_terms(pod: Pod) -> PodTerms:
    """Return the terms of a pod, parsed once per template."""
    affinity = pod.spec.affinity
    if affinity is None or (affinity.pod_affinity is None and affinity.pod_anti_affinity is None):
        return NO_TERMS
    terms: PodTerms | None = pod.__dict__.get("_affinity_terms")
    if terms is None:
        encoded = _encoder.encode((affinity.pod_affinity, affinity.pod_anti_affinity))
        key = (pod.namespace, short_key(encoded))
        terms = _parsed.get(key)
        if terms is None:
            terms = _parse(pod.namespace, affinity)
            if len(encoded) <= MAX_VALUE_LENGTH:
                _parsed[key] = terms
        pod.__dict__["_affinity_terms"] = terms
    return terms


def _parse(namespace: str, affinity: Affinity) -> PodTerms:
    near, away = affinity.pod_affinity or PodAffinity(), affinity.pod_anti_affinity or PodAntiAffinity()
    problems: list[str] = []
    own_namespace = frozenset((namespace,))
    last_selector: LabelSelector | None = None
    last_matcher = NOTHING

    def parse_all(subject: str, parse: Callable[[Any], T], declared: Iterable[Any]) -> tuple[T, ...]:
        try:
            return tuple(parse(item) for item in declared)
        except SelectorError as error:
            problems.append(f"{subject}: {error}")
            return ()

    def parse_term(term: PodAffinityTerm) -> AffinityTerm:
        nonlocal last_selector, last_matcher
        if last_selector != term.label_selector:  # terms may differ only in their topology keys
            last_matcher, last_selector = label_matcher(term.label_selector), term.label_selector
        is_own = not term.namespaces and term.namespace_selector is None
        namespaces = own_namespace if is_own else frozenset(term.namespaces)
        return AffinityTerm(term.topology_key, last_matcher, namespaces, label_matcher(term.namespace_selector))

    def parse_preference(declared: WeightedPodAffinityTerm) -> WeightedTerm:
        return WeightedTerm(parse_term(declared.pod_affinity_term), declared.weight)

    required = parse_all("requiredAffinityTerms", parse_term, near.required)
    excluded = parse_all("requiredAntiAffinityTerms", parse_term, away.required)
    liked = parse_all("preferredAffinityTerms", parse_preference, near.preferred)
    disliked = parse_all("preferredAntiAffinityTerms", parse_preference, away.preferred)
    preferred = liked + tuple(item._replace(weight=-item.weight) for item in disliked)
    return PodTerms(required, excluded, preferred, tuple(problems))
