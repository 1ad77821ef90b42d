"""InterPodAffinity: keep pods near to, or away from, other pods."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final

import numpy as np

from moorage.kube.api.affinity_terms import NO_LABELS, AffinityTerm, PodTerms, affinity_terms
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import MANY
from moorage.scheduler.config.args import InterPodAffinityArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import (
    Action,
    ClusterEvent,
    EventRegistration,
    QueueingHint,
    Resource,
    changed_keys,
    queue_if,
)
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    PreFilterAnswer,
    PreFilterExtensions,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.scheduler.framework.status import MAX_NODE_SCORE, SKIP, IntArray, Status, Verdict
from moorage.scheduler.plugins.inter_pod_affinity.cached_rules import CachedRules, DomainScores
from moorage.scheduler.plugins.inter_pod_affinity.filter import (
    AffinityState,
    IncomingTerm,
    NamespaceExpansion,
    match_all,
)
from moorage.scheduler.state.handle import ClusterHandle
from moorage.scheduler.state.pod_index import PodIndex, term_places
from moorage.scheduler.state.selector_index import list_places


def hint_after_assigned_pod(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Queue when a pod that matches the affinity was assigned, or a pod that matches the anti-affinity was deleted."""
    if any(
        assigned is not None and not assigned.node_name and not assigned.nominated_node_name for assigned in (old, new)
    ):
        return QueueingHint.SKIP
    terms = affinity_terms(pod)
    if old is not None and new is not None:
        helps = (not _all_match(terms.affinity, old) and _all_match(terms.affinity, new)) or (
            _any_matches(terms.anti_affinity, old) and not _any_matches(terms.anti_affinity, new)
        )
    elif new is not None:
        helps = _all_match(terms.affinity, new)
    else:
        assert old is not None
        helps = _any_matches(terms.anti_affinity, old) or _any_matches(affinity_terms(old).anti_affinity, pod)
    return queue_if(helps)


def hint_after_own_labels(pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
    """Queue: existing pods may have rejected the old labels only."""
    return QueueingHint.QUEUE


def hint_after_node(pod: Pod, old: Node | None, new: Node) -> QueueingHint:
    """Queue when a node was added or moved to another domain of the pod's required terms."""
    terms = affinity_terms(pod)
    if old is None:
        helps = bool(terms.anti_affinity) or any(term.topology_key in new.labels for term in terms.affinity)
    else:
        before, after = old.labels, new.labels
        required_keys, avoided = (
            [term.topology_key for term in kind] for kind in (terms.affinity, terms.anti_affinity)
        )
        has_entered = any(key in after and before.get(key) != after[key] for key in required_keys)
        helps = has_entered or any(key in before and after.get(key) != before[key] for key in avoided)
    return queue_if(helps)


class _PodsByTerm:
    """Finds the pending pods with a term that a changed pod may match, or that a deleted pod avoided.

    An added pod may match affinity terms (``near``). A deleted or changed one may have matched anti-affinity terms
    (``away``), or all affinity terms of a pod that is now the first of its kind (``first``).
    """

    def keys(self, pod: Pod) -> set[Hashable] | None:
        terms = affinity_terms(pod)
        if terms.problems:
            return None
        keys: set[Hashable] = {("own", key) for key in list_places(pod.namespace, pod.labels)}
        keys.update(("away", key) for term in terms.anti_affinity for key in term_places(term))
        if terms.affinity:
            # A pod must match all of them, so one is sufficient: rather one that names values.
            near = max(terms.affinity[:16], key=lambda term: any(r.operator == "In" for r in term.matcher.requirements))
            keys.update(("near", key) for key in term_places(near))
            if all(term.matcher.matches(pod.labels) for term in terms.affinity):
                keys.update(("first", key) for key in term_places(near))
        return keys

    def affected(self, old: Pod | None, new: Pod | None) -> set[Hashable] | None:
        keys: set[Hashable] = set()
        if new is not None:
            keys.update(("near", key) for key in list_places(new.namespace, new.labels))
        if old is not None:
            avoided = affinity_terms(old).anti_affinity
            if len(avoided) > MANY:
                return None
            keys.update((kind, key) for key in list_places(old.namespace, old.labels) for kind in ("away", "first"))
            keys.update(("own", key) for term in avoided for key in term_places(term))
        return keys


class _PodsByTopologyKey:
    """Finds the pending pods with a term for the domains that a node enters or leaves."""

    def keys(self, pod: Pod) -> set[Hashable]:
        terms = affinity_terms(pod)
        keys: set[Hashable] = {term.topology_key for term in (*terms.affinity, *terms.anti_affinity)}
        return keys | {_AVOIDING} if terms.anti_affinity else keys

    def affected(self, old: Node | None, new: Node | None) -> set[Hashable] | None:
        before, after = (NO_LABELS if node is None else node.labels for node in (old, new))
        keys = changed_keys(before, after)
        # A new node is in another domain than all pods that a pod avoids, whether or not it has the label.
        return keys | {_AVOIDING} if old is None else keys


class _PodsByAnyTopologyKey(_PodsByTopologyKey):
    """Finds the same pods, and all pods, if the event may concern the terms of existing pods."""

    def __init__(self, pods: PodIndex) -> None:
        self._avoided = pods.anti_affinity.topology_keys

    def affected(self, old: Node | None, new: Node | None) -> set[Hashable] | None:
        keys = super().affected(old, new)
        assert keys is not None
        return None if self._avoided and (old is None or not keys.isdisjoint(self._avoided)) else keys


_AVOIDING: Final = ""
"""The key of pods with anti-affinity terms."""
_BY_TERM: Final = _PodsByTerm()

EVENTS = (
    EventRegistration(
        ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE),
        hint_after_assigned_pod,
        index=_BY_TERM,
    ),
    EventRegistration(ClusterEvent(Resource.TARGET_POD, Action.UPDATE_POD_LABEL), hint_after_own_labels),
    EventRegistration(
        ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL), hint_after_node, index=_PodsByTopologyKey()
    ),
)


def _all_match(terms: tuple[AffinityTerm, ...], assigned: Pod) -> bool:
    return bool(terms) and all(_matches(term, assigned) for term in terms)


def _any_matches(terms: Iterable[AffinityTerm], assigned: Pod) -> bool:
    return any(_matches(term, assigned) for term in terms)


def _matches(term: AffinityTerm, assigned: Pod) -> bool:
    # As upstream, without the labels of the pod's namespace, so few namespace selectors match.
    return term.matches(assigned.namespace, assigned.labels, NO_LABELS)


class ExtraHints:
    """Hints for events that upstream's hints skip, from the terms of existing pods and the namespace labels.

    Otherwise the pods would wait for the periodic flush: a new node for a pod that other pods avoid, the deletion of
    the last matching pod (the next pod is then the first of its kind), and changes of namespace labels.
    """

    def __init__(self, pods: PodIndex, namespaces: NamespaceExpansion) -> None:
        self._pods = pods
        self._namespaces = namespaces

    def events(self) -> Sequence[EventRegistration]:
        """Return the events with their hints, called after upstream's."""
        pod_change = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD | Action.UPDATE_POD_LABEL | Action.DELETE)
        node_change = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.DELETE)
        namespace_change = ClusterEvent(Resource.NAMESPACE, Action.ADD | Action.UPDATE)
        return (
            EventRegistration(pod_change, self.after_assigned_pod, beyond_upstream=True, index=_BY_TERM),
            EventRegistration(
                node_change, self.after_node, beyond_upstream=True, index=_PodsByAnyTopologyKey(self._pods)
            ),
            EventRegistration(namespace_change, self.after_namespace, beyond_upstream=True),
        )

    def after_assigned_pod(self, pod: Pod, old: Pod | None, new: Pod | None) -> QueueingHint:
        """Queue when a matching pod was assigned, or when a pod that either side avoids was deleted."""
        if any(
            assigned is not None and not assigned.node_name and not assigned.nominated_node_name
            for assigned in (old, new)
        ):
            return QueueingHint.SKIP
        terms = affinity_terms(pod)
        affinity, anti_affinity = self._namespaces.expand(terms.affinity), self._namespaces.expand(terms.anti_affinity)
        did_match, does_match = (assigned is not None and match_all(affinity, assigned) for assigned in (old, new))
        helps = (does_match and not did_match) or (did_match and not does_match and match_all(affinity, pod))
        if old is not None and not helps:
            helps = bool(_keys(anti_affinity, old) - (_keys(anti_affinity, new) if new is not None else set()))
        if old is not None and new is None and not helps:
            labels = self._namespaces.find_labels(pod.namespace)
            own = affinity_terms(old).anti_affinity
            helps = any(term.matches(pod.namespace, pod.labels, labels) for term in own)
        return queue_if(helps)

    def after_node(self, pod: Pod, old: Node | None, new: Node | None) -> QueueingHint:
        """Queue when a node was added, deleted, or changed its domain for a key of the pod's or matching terms."""
        terms = affinity_terms(pod)
        affinity = self._namespaces.expand(terms.affinity)
        is_first = match_all(affinity, pod)
        before, after = (NO_LABELS if node is None else node.labels for node in (old, new))
        for term in affinity:
            key = term.topology_key
            if before.get(key) != after.get(key) and (key in after or is_first):
                return QueueingHint.QUEUE
        labels = self._namespaces.find_labels(pod.namespace)
        avoiding = [group.term for group in self._pods.anti_affinity.about(pod.namespace, pod.labels, labels)]
        keys = {term.topology_key for term in (*terms.anti_affinity, *avoiding)}
        if old is None:
            return queue_if(bool(keys))
        return queue_if(any(key in before and before[key] != after.get(key) for key in keys))

    def after_namespace(self, pod: Pod, old: Namespace | None, new: Namespace) -> QueueingHint:
        """Queue when the pod's terms select the namespace or no longer do, or when other pods no longer avoid it."""
        before = NO_LABELS if old is None else old.labels
        terms = affinity_terms(pod)
        for term in (*terms.affinity, *terms.anti_affinity):
            selector = term.namespace_matcher
            # A namespace that did not exist was not selected by any selector.
            if (old is not None and selector.matches(before)) != selector.matches(new.labels):
                return QueueingHint.QUEUE
        if new.name != pod.namespace:
            return QueueingHint.SKIP
        avoiding = self._pods.anti_affinity.about(pod.namespace, pod.labels, before)
        return queue_if(not all(group.term.matches(pod.namespace, pod.labels, new.labels) for group in avoiding))


def _keys(terms: Sequence[IncomingTerm], assigned: Pod) -> set[str]:
    """Return the topology keys of the terms that match a pod."""
    return {term.topology_key for term in terms if term.matches(assigned)}


FILTER_STATE: Final = StateKey[AffinityState](
    "PreFilterInterPodAffinity", missing='error reading "PreFilterInterPodAffinity" from cycleState: not found'
)
SCORE_STATE: Final = StateKey[DomainScores](
    "PreScoreInterPodAffinity", missing='failed to read "PreScoreInterPodAffinity" from cycleState: not found'
)


class InterPodAffinity(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Required terms filter nodes, preferred terms score them; the terms of existing pods also count."""

    Args = InterPodAffinityArgs
    depends_on = DependsOn.CLUSTER

    def __init__(self, *, args: InterPodAffinityArgs | None = None, handle: ClusterHandle) -> None:
        self._args = args or InterPodAffinityArgs()
        self._handle = handle
        namespaces = NamespaceExpansion(handle.lister(Namespace))
        self._cached_rules = CachedRules(handle.pods, namespaces, self._args.hard_pod_affinity_weight)
        self._extra_hints = ExtraHints(handle.pods, namespaces)

    def events_to_register(self) -> Sequence[EventRegistration]:
        return (*EVENTS, *self._extra_hints.events())

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        terms = affinity_terms(pod)
        if terms.problems:
            return Status.unresolvable(f"parsing pod: {_all_problems(terms)}")
        if not terms.affinity and not terms.anti_affinity and not self._handle.pods.anti_affinity:
            return SKIP
        rules = self._cached_rules.required(pod, terms, nodes)
        rules.refresh(nodes)
        if rules.is_empty:
            return SKIP
        cycle[FILTER_STATE] = AffinityState(rules)
        return None

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        cycle[FILTER_STATE].change(pod, added, node, 1)
        return None

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        cycle[FILTER_STATE].change(pod, removed, node, -1)
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return cycle[FILTER_STATE].filter(node)

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        return cycle[FILTER_STATE].filter_nodes(nodes)

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        terms = affinity_terms(pod)
        if terms.problems:
            return Status.error(f"failed to parse pod: {_all_problems(terms)}")
        if self._args.ignore_preferred_terms_of_existing_pods and not terms.preferred:
            return SKIP
        if not terms.preferred and not terms.affinity and not self._cached_rules.can_score:
            return SKIP
        scores = self._cached_rules.preferred(pod, terms, self._handle.nodes)
        scores.refresh(self._handle.nodes)
        if scores.is_empty:
            return SKIP
        cycle[SCORE_STATE] = scores
        return None

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return cycle[SCORE_STATE].at_node(node.labels)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        return cycle[SCORE_STATE].at_nodes(nodes)

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        """Scale to 0…100. The floating-point operations and their order match upstream, for equal rounding."""
        low, high = (int(np.minimum.reduce(scores)), int(np.maximum.reduce(scores))) if len(scores) else (0, 0)
        if high == low:
            return np.zeros_like(scores)
        spread = np.subtract(scores, low, dtype=np.float64)
        spread /= float(high - low)
        spread *= float(MAX_NODE_SCORE)
        return spread.astype(np.int64)


def _all_problems(terms: PodTerms) -> str:
    return terms.problems[0] if len(terms.problems) == 1 else f"[{', '.join(terms.problems)}]"
