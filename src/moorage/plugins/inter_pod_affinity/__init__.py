"""InterPodAffinity: keep pods near to, or away from, other pods."""

from collections.abc import Sequence
from typing import Final

from moorage.api.cluster import Namespace
from moorage.api.pod import Pod
from moorage.config.args import InterPodAffinityArgs
from moorage.framework.affinity_terms import PodTerms, WeightedTerm, affinity_terms
from moorage.framework.cycle import CycleState, StateKey
from moorage.framework.events import EventRegistration
from moorage.framework.handle import Handle
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import (
    FilterPlugin,
    PreFilterAnswer,
    PreFilterExtensions,
    PreScorePlugin,
    ScorePlugin,
)
from moorage.framework.status import SKIP, IntArray, Status, Verdict
from moorage.framework.term_index import total_by_key
from moorage.plugins.inter_pod_affinity.filter import (
    AffinityState,
    PairCounts,
    count_affinity,
    count_anti_affinity,
)
from moorage.plugins.inter_pod_affinity.hints import EVENTS
from moorage.plugins.inter_pod_affinity.score import (
    DomainScores,
    Opinion,
    WeightedGroup,
    domain_scores,
    existing_opinions,
    normalize,
    own_opinions,
    score_nodes,
)
from moorage.plugins.inter_pod_affinity.terms import IncomingTerm, NamespaceExpansion, match_all

FILTER_STATE: Final = StateKey[AffinityState](
    "PreFilterInterPodAffinity", missing='error reading "PreFilterInterPodAffinity" from cycleState: not found'
)
SCORE_STATE: Final = StateKey[DomainScores](
    "PreScoreInterPodAffinity", missing='failed to read "PreScoreInterPodAffinity" from cycleState: not found'
)


class InterPodAffinity(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Required terms rule nodes out, preferred ones rate them; pods already there have their say, too."""

    Args = InterPodAffinityArgs
    looks_at_cluster = True

    def __init__(self, *, args: InterPodAffinityArgs | None = None, handle: Handle) -> None:
        self._args = args or InterPodAffinityArgs()
        self._handle = handle
        self._namespaces = NamespaceExpansion(handle.lister(Namespace))

    def events_to_register(self) -> Sequence[EventRegistration]:
        return EVENTS

    def pre_filter(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer:
        terms = affinity_terms(pod)
        if terms.problems:
            return Status.unresolvable(f"parsing pod: {_all_problems(terms)}")
        pods = self._handle.pods
        if not terms.affinity and not terms.anti_affinity and not pods.anti_affinity:
            return SKIP
        namespace_labels = self._namespaces.labels_of(pod.namespace)
        avoiding = pods.anti_affinity.about(pod.namespace, pod.labels, namespace_labels)
        existing = PairCounts.sum_of(total_by_key(((group, 1) for group in avoiding), pods.rows), nodes)
        if not terms.affinity and not terms.anti_affinity and existing.is_empty:
            return SKIP
        wanted = self._namespaces.expand(terms.affinity)
        unwanted = self._namespaces.expand(terms.anti_affinity)
        cycle[FILTER_STATE] = AffinityState(
            affinity_terms=wanted,
            anti_terms=unwanted,
            namespace_labels=namespace_labels,
            matches_itself=match_all(wanted, pod),
            affinity=count_affinity(wanted, pods, nodes),
            anti=count_anti_affinity(unwanted, pods, nodes),
            existing_anti=existing,
        )
        return None

    def add_pod(self, cycle: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status | None:
        cycle[FILTER_STATE].change(pod, added, node, 1)
        return None

    def remove_pod(self, cycle: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status | None:
        cycle[FILTER_STATE].change(pod, removed, node, -1)
        return None

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return cycle[FILTER_STATE].judge(node)

    def filter_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Verdict:
        return cycle[FILTER_STATE].judge_nodes(nodes)

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        terms = affinity_terms(pod)
        if terms.problems:
            return Status.error(f"failed to parse pod: {_all_problems(terms)}")
        if self._args.ignore_preferred_terms_of_existing_pods and not terms.preferred:
            return SKIP
        own = own_opinions(self._expanded(terms.preferred), self._handle.pods) if terms.preferred else []
        groups = self._groups_about(pod)
        if not own and not groups:
            return SKIP
        scores = self._domain_scores(own, groups)
        if all(domains.is_zero for domains in scores.values()) and not self._anything_was_said(own, groups):
            return SKIP
        cycle[SCORE_STATE] = scores
        return None

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return sum(domains[node.labels.get(key)] for key, domains in cycle[SCORE_STATE].items())

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        return score_nodes(cycle[SCORE_STATE], nodes)

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        return normalize(scores)

    def _groups_about(self, pod: Pod) -> list[WeightedGroup]:
        """Find the terms of pods on nodes that mean this one, with what they weigh here."""
        pods, hard_weight = self._handle.pods, self._args.hard_pod_affinity_weight
        required = pods.affinity if hard_weight > 0 else None
        if not required and not pods.preferred:
            return []
        about = (pod.namespace, pod.labels, self._namespaces.labels_of(pod.namespace))
        groups = [(group, group.weight) for group in pods.preferred.about(*about)]
        if required:
            groups += [(group, hard_weight) for group in required.about(*about)]
        return groups

    def _expanded(self, terms: Sequence[WeightedTerm]) -> list[tuple[IncomingTerm, int]]:
        return [(self._namespaces.expand_one(term), weight) for term, weight in terms]

    def _domain_scores(self, own: list[Opinion], groups: Sequence[WeightedGroup]) -> DomainScores:
        existing = existing_opinions(groups, self._handle.pods.rows) if groups else []
        return domain_scores([*own, *existing], self._handle.nodes)

    def _anything_was_said(self, own: list[Opinion], groups: Sequence[WeightedGroup]) -> bool:
        """Tell opinions that cancel out from opinions that nobody had: upstream skips only the latter."""
        heads = self._domain_scores(
            [opinion._replace(weight=1) for opinion in own], [(group, 1) for group, _ in groups]
        )
        return not all(domains.is_zero for domains in heads.values())


def _all_problems(terms: PodTerms) -> str:
    return terms.problems[0] if len(terms.problems) == 1 else f"[{', '.join(terms.problems)}]"
