"""NodeAffinity: nodes that a pod's selector and affinity, or the profile's, demand or prefer."""

from collections.abc import Hashable, Iterable, Sequence
from typing import Final, NamedTuple

import numpy as np
from msgspec import Struct

from moorage.common.caches import cached
from moorage.kube.api.affinity import NodeAffinity as NodeAffinitySpec
from moorage.kube.api.affinity import PreferredSchedulingTerm
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.api.selectors import (
    EVERYTHING,
    MANY,
    NODE_NAME_FIELD,
    LabelMatcher,
    NodeMatcher,
    NodeSelector,
    NodeSelectorTerm,
    NodeTermMatcher,
    count_characters,
    label_set_matcher,
    node_matcher,
    node_term_matcher,
)
from moorage.scheduler.config.args import NodeAffinityArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import Action, ClusterEvent, EventRegistration, QueueingHint, Resource, queue_if
from moorage.scheduler.framework.node_selection import all_of, matching_nodes, nodes_meeting_all, weigh_nodes
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import (
    DependsOn,
    FilterPlugin,
    NodeNames,
    PreFilterAnswer,
    PreFilterPlugin,
    PreScorePlugin,
    ScorePlugin,
    default_normalize,
)
from moorage.scheduler.framework.status import BoolArray, IntArray, Status, Verdict
from moorage.scheduler.state.selector_index import list_places, places

NOT_WANTED: Final = Status.unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED: Final = Status.unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT: Final = Status.unresolvable("pod affinity terms conflict")
FEW_NAMES: Final = 4
"""Results are not cached for pods that name at most this many nodes."""


class Demands(Struct, frozen=True):
    """The requirements of a pod: all labels of its selector, and one term of its required affinity."""

    labels: LabelMatcher
    affinity: NodeMatcher | None

    @property
    def is_large(self) -> bool:
        """Whether parsing the requirements takes long."""
        terms = () if self.affinity is None else self.affinity.terms
        return max(len(self.labels.requirements), len(terms), *(len(term.expressions) for term in terms)) > MANY

    def accepts(self, node: Node) -> bool:
        if not self.labels.matches(node.labels):
            return False
        return self.affinity is None or self.affinity.matches(node.labels, node.name)

    def accepted_nodes(self, nodes: NodeTable) -> BoolArray:
        """Find the nodes of a window that satisfy the requirements."""
        labeled = nodes_meeting_all(self.labels.requirements, nodes)
        affinity_mask = None if self.affinity is None else matching_nodes(self.affinity, nodes)
        accepted = all_of((labeled, affinity_mask))
        return np.ones(len(nodes), dtype=np.bool_) if accepted is None else accepted


class Preference(NamedTuple):
    """A preference for some nodes, and its weight."""

    weight: int
    term: NodeTermMatcher


DEMANDS: Final = StateKey[Demands]("NodeAffinity: what the pod demands")
PREFERENCES: Final = StateKey[tuple[Preference, ...]]("NodeAffinity: what the pod and the profile prefer")


class NodeAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Reject nodes that the pod or the profile does not want; score the other nodes by the preferences they satisfy."""

    depends_on = DependsOn.NODE
    _signs_template = True
    _normalizes_by_value = True

    Args = NodeAffinityArgs

    def __init__(self, *, args: NodeAffinityArgs | None = None) -> None:
        added_affinity = (args.added_affinity if args else None) or NodeAffinitySpec()
        self._added = None if added_affinity.required is None else node_matcher(added_affinity.required)
        self._added_preferences = parse_preferences(added_affinity.preferred or ())

    def sign(self, pod: Pod) -> Hashable | None:
        affinity, selector = find_node_affinity(pod), pod.spec.node_selector
        if affinity.required is not None:
            names = named_nodes(affinity.required.node_selector_terms)
            if names is not None and len(names) <= FEW_NAMES:
                # Daemon pods: each names another node, so cached results would never be reused.
                return None
        return affinity, None if selector is None else frozenset(selector.items())

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        required = find_node_affinity(pod).required
        if required is None and self._added is None and pod.spec.node_selector is None:
            return Status.skip()
        cycle[DEMANDS] = read_demands(pod)
        names = named_nodes(required.node_selector_terms) if required else None
        if names is None:
            return None
        return NodeNames(names) if names else CONFLICT

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if self._added is not None and not self._added.matches(node.labels, node.name):
            return NOT_ENFORCED
        # Without the pre-filter the requirements are parsed here.
        demands = cycle.get(DEMANDS) or read_demands(pod)
        return None if demands.accepts(node.node) else NOT_WANTED

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        unwanted = ~(cycle.get(DEMANDS) or read_demands(pod)).accepted_nodes(nodes)
        if self._added is None:
            return Verdict.reject(where=unwanted, because=NOT_WANTED)
        forbidden = ~matching_nodes(self._added, nodes)
        return Verdict(len(nodes), ((forbidden, NOT_ENFORCED), (unwanted & ~forbidden, NOT_WANTED)))

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        if find_node_affinity(pod).preferred is None and not self._added_preferences:
            return Status.skip()
        cycle[PREFERENCES] = self._read_preferences(pod)
        return None

    def _read_preferences(self, pod: Pod) -> tuple[Preference, ...]:
        """Parse the preferences of the pod and the profile; called from Score if the profile has no PreScore."""
        return self._added_preferences + parse_preferences(find_node_affinity(pod).preferred or ())

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        preferences = cycle.get(PREFERENCES) or self._read_preferences(pod)
        return sum(weight for weight, term in preferences if term.matches(node.labels, node.name))

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        preferences = cycle.get(PREFERENCES) or self._read_preferences(pod)
        return weigh_nodes(((term, weight) for weight, term in preferences), nodes)

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        return default_normalize(scores)

    def events_to_register(self) -> Sequence[EventRegistration]:
        event = ClusterEvent(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL)
        return (EventRegistration(event, self.after_node_change, index=_PodsByNodeLabel()),)

    def after_node_change(self, pod: Pod, old: Node | None, new: Node) -> QueueingHint:
        """Queue when a node was added that satisfies the requirements, or when a node began to.

        As upstream, only the pod's own demands are compared with the old node, not those of the profile.
        """
        if self._added is not None and not self._added.matches(new.labels, new.name):
            return QueueingHint.SKIP
        demands = read_demands(pod)
        return queue_if((old is None or not demands.accepts(old)) and demands.accepts(new))


class _PodsByNodeLabel:
    """Finds the pending pods that may demand a label of a changed node."""

    def keys(self, pod: Pod) -> set[Hashable] | None:
        demands = read_demands(pod)
        if demands.labels.requirements or demands.affinity is None:
            return set(places(None, demands.labels))
        terms = [term for term in demands.affinity.terms if not term.matches_nothing]
        if any(term.fields for term in terms):
            return None
        return {key for term in terms for key in places(None, LabelMatcher(term.expressions))}

    def affected(self, _old: Node | None, new: Node) -> set[Hashable]:
        return set(list_places("", new.labels))


_NO_AFFINITY: Final = NodeAffinitySpec()


def find_node_affinity(pod: Pod) -> NodeAffinitySpec:
    """Return the node affinity of a pod. No affinity is one without any terms."""
    affinity = pod.spec.affinity
    return _NO_AFFINITY if affinity is None or affinity.node_affinity is None else affinity.node_affinity


def read_demands(pod: Pod) -> Demands:
    """Parse the node selector and affinity of a pod. Large results are cached for all pods of the template."""
    shape = pod.shape
    demands: Demands | None = shape.demands
    if demands is None:
        required, selector = find_node_affinity(pod).required, pod.spec.node_selector
        demands = Demands(
            label_set_matcher(selector) if selector else EVERYTHING,
            None if required is None else node_matcher(required),
        )
        # Do not cache small selectors: each pod of a DaemonSet has a different one, and parsing is cheap.
        if demands.is_large:
            shape.demands = demands
    return demands


def named_nodes(terms: Iterable[NodeSelectorTerm]) -> frozenset[str] | None:
    """Return the only nodes that the terms can mean, or ``None`` if there are no terms, or if one names no node."""
    names: set[str] | None = None
    for term in terms:
        values = [
            frozenset(field.values)
            for field in term.match_fields
            if field.key == NODE_NAME_FIELD and field.operator == "In"
        ]
        if not values:
            return None
        names = names or set()
        names |= frozenset.intersection(*values)
    return None if names is None else frozenset(names)


@cached(1024, lambda terms: count_characters(NodeSelector(tuple(term.preference for term in terms))))
def parse_preferences(terms: tuple[PreferredSchedulingTerm, ...]) -> tuple[Preference, ...]:
    """Parse preferred terms, except empty ones and those without a weight. An invalid term is an error."""
    return tuple(
        Preference(term.weight, node_term_matcher(term.preference))
        for term in terms
        if term.weight and (term.preference.match_expressions or term.preference.match_fields)
    )
