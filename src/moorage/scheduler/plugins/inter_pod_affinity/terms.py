"""The incoming pod's terms, with namespace selectors replaced by the namespaces they select."""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from moorage.kube.api.affinity_terms import NO_LABELS, AffinityTerm
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import LabelMatcher
from moorage.scheduler.framework.handle import Lister
from moorage.scheduler.state.selector_index import Namespaces


class IncomingTerm(NamedTuple):
    """A term of an incoming pod with its namespaces."""

    topology_key: str
    namespaces: Namespaces
    matcher: LabelMatcher

    def matches(self, pod: Pod) -> bool:
        return (self.namespaces is None or pod.namespace in self.namespaces) and self.matcher.matches(pod.labels)


class NamespaceExpansion:
    """Expands terms with the namespaces of the cluster."""

    def __init__(self, namespaces: Lister[Namespace]) -> None:
        self._namespaces = namespaces

    @property
    def version(self) -> int:
        """The version of the namespaces; it grows with every change."""
        return self._namespaces.version

    def expand(self, terms: Iterable[AffinityTerm]) -> tuple[IncomingTerm, ...]:
        return tuple([self.expand_one(term) for term in terms])

    def expand_one(self, term: AffinityTerm) -> IncomingTerm:
        """Expand one term; an empty namespace selector means all namespaces."""
        selector, namespaces = term.namespace_matcher, term.namespaces
        if not selector.is_nothing and not selector.is_everything:
            namespaces |= {item.name for item in self._namespaces.list() if selector.matches(item.labels)}
        return IncomingTerm(term.topology_key, None if selector.is_everything else namespaces, term.matcher)

    def find_labels(self, namespace: str) -> Mapping[str, str]:
        """Return the labels of a namespace; unknown namespaces have no labels."""
        obj = self._namespaces.get(namespace)
        return NO_LABELS if obj is None else obj.labels


def match_all(terms: Sequence[IncomingTerm], pod: Pod) -> bool:
    """Return whether all terms select the pod; False without terms."""
    return bool(terms) and all(term.matches(pod) for term in terms)


def conjunction(terms: Sequence[IncomingTerm]) -> tuple[Namespaces, LabelMatcher]:
    """Combine terms to the namespaces and the matcher of the pods that all terms select."""
    if len(terms) == 1:
        return terms[0].namespaces, terms[0].matcher
    namespaces = [term.namespaces for term in terms if term.namespaces is not None]
    return (
        frozenset.intersection(*namespaces) if namespaces else None,
        LabelMatcher(
            tuple(requirement for term in terms for requirement in term.matcher.requirements),
            any(term.matcher.is_nothing for term in terms),
        ),
    )
