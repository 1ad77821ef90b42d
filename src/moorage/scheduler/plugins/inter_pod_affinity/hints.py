"""Which events may let a pod in that affinity kept out."""

from collections.abc import Iterable

from moorage.kube.api.affinity_terms import NO_LABELS, AffinityTerm, affinity_terms
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource


def hint_after_assigned_pod(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Queue when a pod near which this one wants to be has come, or one it must avoid has gone."""
    if any(other is not None and not other.node_name and not other.nominated_node_name for other in (old, new)):
        return QueueingHint.SKIP
    terms = affinity_terms(pod)
    if old is not None and new is not None:
        helps = (not _all_mean(terms.affinity, old) and _all_mean(terms.affinity, new)) or (
            _any_means(terms.anti_affinity, old) and not _any_means(terms.anti_affinity, new)
        )
    elif new is not None:
        helps = _all_mean(terms.affinity, new)
    else:
        assert old is not None
        helps = _any_means(terms.anti_affinity, old) or _any_means(affinity_terms(old).anti_affinity, pod)
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


def hint_after_own_labels(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Queue: pods already there may have minded the old labels only."""
    return QueueingHint.QUEUE


def hint_after_node(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    """Queue when a node came or moved to another domain of a key that the pod's required terms name."""
    terms = affinity_terms(pod)
    if old is None:
        helps = bool(terms.anti_affinity) or any(term.topology_key in new.labels for term in terms.affinity)
    else:
        helps = any(_entered_a_domain(term.topology_key, old, new) for term in terms.affinity) or any(
            _left_a_domain(term.topology_key, old, new) for term in terms.anti_affinity
        )
    return QueueingHint.QUEUE if helps else QueueingHint.SKIP


EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        hint_after_assigned_pod,
    ),
    EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL), hint_after_own_labels),
    EventRegistration(ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), hint_after_node),
)


def _entered_a_domain(key: str, old: Node, new: Node) -> bool:
    return key in new.labels and old.labels.get(key) != new.labels[key]


def _left_a_domain(key: str, old: Node, new: Node) -> bool:
    return key in old.labels and new.labels.get(key) != old.labels[key]


def _all_mean(terms: tuple[AffinityTerm, ...], other: Pod) -> bool:
    return bool(terms) and all(_means(term, other) for term in terms)


def _any_means(terms: Iterable[AffinityTerm], other: Pod) -> bool:
    return any(_means(term, other) for term in terms)


def _means(term: AffinityTerm, other: Pod) -> bool:
    # Upstream asks here without the labels of the other pod's namespace, so few namespace selectors select it.
    return term.matches(other.namespace, other.labels, NO_LABELS)
