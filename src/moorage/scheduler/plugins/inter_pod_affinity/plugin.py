"""InterPodAffinity: keep pods near to, or away from, other pods."""

from collections.abc import Sequence
from typing import Final

import numpy as np

from moorage.kube.api.affinity_terms import PodTerms, affinity_terms
from moorage.kube.api.cluster import Namespace
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import InterPodAffinityArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import EventRegistration
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
from moorage.scheduler.plugins.inter_pod_affinity.filter import AffinityState
from moorage.scheduler.plugins.inter_pod_affinity.hints import EVENTS, ExtraHints
from moorage.scheduler.plugins.inter_pod_affinity.terms import NamespaceExpansion
from moorage.scheduler.state.handle import ClusterHandle

FILTER_STATE: Final = StateKey[AffinityState](
    "PreFilterInterPodAffinity", missing='error reading "PreFilterInterPodAffinity" from cycleState: not found'
)
SCORE_STATE: Final = StateKey[DomainScores](
    "PreScoreInterPodAffinity", missing='failed to read "PreScoreInterPodAffinity" from cycleState: not found'
)


class InterPodAffinity(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin):
    """Required terms filter nodes, preferred terms score them; the terms of existing pods count, too."""

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
        rules = self._cached_rules.required(pod, terms)
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
        scores = self._cached_rules.preferred(pod, terms)
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
        """Scale to 0…100; the floating-point operations and their order match upstream, for equal rounding."""
        low, high = (int(np.minimum.reduce(scores)), int(np.maximum.reduce(scores))) if len(scores) else (0, 0)
        if high == low:
            return np.zeros_like(scores)
        spread = np.subtract(scores, low, dtype=np.float64)
        spread /= float(high - low)
        spread *= float(MAX_NODE_SCORE)
        return spread.astype(np.int64)


def _all_problems(terms: PodTerms) -> str:
    return terms.problems[0] if len(terms.problems) == 1 else f"[{', '.join(terms.problems)}]"
