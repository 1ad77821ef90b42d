"""Preferred terms of the incoming pod and of existing pods."""

from collections.abc import Mapping

import numpy as np

from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import MAX_NODE_SCORE, IntArray
from moorage.scheduler.state.domains import DomainTally, LabelDomains, is_any_counted


class DomainScores:
    """Scores that pods add to their domains, by topology key."""

    def __init__(self, tallies: dict[str, DomainTally], domains: LabelDomains) -> None:
        self._tallies = tallies
        self._domains = domains
        self._nodes: NodeTable | None = None

    def refresh(self, nodes: NodeTable) -> None:
        """Follow the cluster."""
        self._nodes = nodes
        for key, tally in self._tallies.items():
            tally.refresh(self._domains.of(nodes, key))

    @property
    def is_empty(self) -> bool:
        """Whether no pod adds to a score; as upstream, scores that cancel out do count."""
        return not is_any_counted(self._tallies.values())

    def at_node(self, labels: Mapping[str, str]) -> int:
        """Sum up the scores of one node's domains."""
        return sum(tally[labels.get(key)] for key, tally in self._tallies.items())

    def at_nodes(self, nodes: NodeTable) -> IntArray:
        """Sum up the scores of each node's domains."""
        is_of_cluster = self._nodes is not None and nodes.is_window_of(self._nodes)
        total: IntArray | None = None
        for key, tally in self._tallies.items():
            if is_of_cluster:
                score = tally.at(None if nodes.shows_all else nodes.rows)
            else:
                column = nodes.label(key)
                score = tally.table(column.values).take(column.codes)
            total = score if total is None else total + score
        return np.zeros(len(nodes), dtype=np.int64) if total is None else total


def normalize(scores: IntArray) -> IntArray:
    """Scale the scores to 0…100; the floating-point operations and their order match upstream, for equal rounding."""
    if not len(scores):
        return scores
    low, high = int(np.minimum.reduce(scores)), int(np.maximum.reduce(scores))
    if high == low:
        return np.zeros_like(scores)
    spread = np.subtract(scores, low, dtype=np.float64)
    spread /= float(high - low)
    spread *= float(MAX_NODE_SCORE)
    return spread.astype(np.int64)
