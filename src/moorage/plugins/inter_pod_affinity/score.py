"""Preferred terms, both ways: what the incoming pod thinks of the pods there, and they of it."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from moorage.framework.domains import DomainCounts
from moorage.framework.nodetable import NodeTable
from moorage.framework.pod_index import PodIndex
from moorage.framework.status import MAX_NODE_SCORE, IntArray
from moorage.framework.term_index import TermGroup, total_by_key
from moorage.plugins.inter_pod_affinity.terms import IncomingTerm

DomainScores = dict[str, DomainCounts]
WeightedGroup = tuple[TermGroup, int]


class Opinion(NamedTuple):
    """Pods per row, and what each adds to the score of its domain of a key."""

    topology_key: str
    counts: IntArray
    weight: int


def own_opinions(terms: Iterable[tuple[IncomingTerm, int]], pods: PodIndex) -> list[Opinion]:
    """Find the pods that an incoming pod's preferred terms mean, anywhere."""
    opinions = (
        Opinion(term.topology_key, pods.counts(term.namespaces, term.matcher, terminating=True), weight)
        for term, weight in terms
    )
    return [opinion for opinion in opinions if opinion.counts.any()]


def existing_opinions(groups: Sequence[WeightedGroup], rows: int) -> list[Opinion]:
    """Add up what pods there think of an incoming pod, key by key."""
    return [Opinion(key, counts, 1) for key, counts in total_by_key(groups, rows).items()]


def domain_scores(opinions: Iterable[Opinion], nodes: NodeTable) -> DomainScores:
    """Add up opinions by domain: one pass over the nodes per key."""
    totals: dict[str, IntArray] = {}
    for key, counts, weight in opinions:
        weighed = counts if weight == 1 else weight * counts
        totals[key] = totals[key] + weighed if key in totals else weighed
    return {key: DomainCounts.sum_of(nodes.label(key), total) for key, total in totals.items()}


def score_nodes(scores: DomainScores, nodes: NodeTable) -> IntArray:
    """Add up, for each node, the scores of its domains."""
    total: IntArray | None = None
    for key, domains in scores.items():
        score = domains.at(nodes.label(key))
        total = score if total is None else total + score
    return np.zeros(len(nodes), dtype=np.int64) if total is None else total


def normalize(scores: IntArray) -> IntArray:
    """Spread the scores over 0…100, the worst at 0; in floats and in this order, as the last bit decides ties."""
    if not len(scores):
        return scores
    low, high = int(scores.min()), int(scores.max())
    if high == low:
        return np.zeros_like(scores)
    spread: IntArray = (float(MAX_NODE_SCORE) * ((scores - low) / float(high - low))).astype(np.int64)
    return spread
