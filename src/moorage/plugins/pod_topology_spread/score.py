"""Soft constraints: the fewer pods of its kind in a node's domains, the better."""

from math import log

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from moorage.api.arithmetic import round_half_away, round_half_away_nodes
from moorage.api.node import HOSTNAME_LABEL
from moorage.api.pod import Pod
from moorage.framework.domains import DomainCounts, Labels, nodes_lacking
from moorage.framework.masks import all_of, any_of
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.pod_index import PodIndex
from moorage.framework.status import MAX_NODE_SCORE, BoolArray, IntArray
from moorage.plugins.pod_topology_spread.constraints import Constraint, Constraints
from moorage.plugins.pod_topology_spread.filter import matching_pods
from moorage.plugins.pod_topology_spread.inclusion import Inclusion

FloatArray = NDArray[np.float64]


class Preference(Struct, frozen=True):
    """One constraint: pods per row for the hostname key, per domain for any other, and what a pod weighs."""

    constraint: Constraint
    weight: float
    per_row: IntArray
    domains: DomainCounts | None

    def points(self, count: int) -> float:
        """Return what so many pods add to the score; a larger allowed skew makes differences matter less."""
        return float(count) * self.weight + float(self.constraint.max_skew - 1)

    def count_on(self, node: NodeInfo, value: str, namespace: str) -> int:
        """Count the pods in the domain of one node."""
        if self.domains is not None:
            return self.domains[value]
        return sum(self.constraint.counts(pod, namespace) for pod in node.pods.values())

    def points_at(self, nodes: NodeTable, column: Labels) -> FloatArray:
        """Compute the points of every node of a window; none for nodes without the key."""
        if self.domains is None:
            counts = self.per_row if nodes.shows_all else self.per_row.take(nodes.rows)
            points = self._points(counts)
        else:
            points = self._points(self.domains.table(column.values)).take(column.codes)
        lacking = nodes_lacking(column)
        if lacking is not None:
            points[lacking] = 0.0
        return points

    def _points(self, counts: IntArray) -> FloatArray:
        return counts.astype(np.float64) * self.weight + float(self.constraint.max_skew - 1)


class PreferenceState(Struct, frozen=True):
    """Every soft constraint of a pod with its counts, and whether nodes must have all of their keys."""

    preferences: tuple[Preference, ...]
    needs_all_keys: bool

    def ignored(self, nodes: NodeTable) -> BoolArray | None:
        """Find the nodes that get no score for want of a key; ``None`` if there are none."""
        if not self.needs_all_keys:
            return None
        return nodes_lacking_any([nodes.label(item.constraint.topology_key) for item in self.preferences])

    def rate(self, node: NodeInfo, namespace: str) -> int:
        """Rate one node: the more pods, the higher; normalising turns that round."""
        score = 0.0
        for item in self.preferences:
            value = node.labels.get(item.constraint.topology_key)
            if value is not None:
                score += item.points(item.count_on(node, value, namespace))
            elif self.needs_all_keys:
                return 0
        return round_half_away(score)

    def rate_nodes(self, nodes: NodeTable) -> IntArray:
        """Rate every node of a window."""
        score = np.zeros(len(nodes), dtype=np.float64)
        for item in self.preferences:
            score += item.points_at(nodes, nodes.label(item.constraint.topology_key))
        rounded = round_half_away_nodes(score)
        ignored = self.ignored(nodes)
        if ignored is not None:
            rounded[ignored] = 0
        return rounded

    def normalize(self, nodes: NodeTable, scores: IntArray) -> IntArray:
        """Turn the ratings round, so that the emptiest domains come near 100; nodes that are ignored get 0."""
        ignored = self.ignored(nodes)
        rated = scores if ignored is None else scores[~ignored]
        top = int(rated.max(initial=0))
        if not len(rated):
            return np.zeros_like(scores)
        if top == 0:
            turned = np.full_like(scores, MAX_NODE_SCORE)
        else:
            turned = MAX_NODE_SCORE * (top + int(rated.min()) - scores) // top
        if ignored is not None:
            turned[ignored] = 0
        return turned


def nodes_lacking_any(columns: list[Labels]) -> BoolArray | None:
    """Find the nodes without one of several labels; ``None`` if all have all."""
    return any_of(nodes_lacking(column) for column in columns)


class PreferenceCount:
    """Counts the pods soft constraints are about: in all nodes, but for the domains of the feasible ones."""

    def __init__(self, pod: Pod, pods: PodIndex, everywhere: NodeTable, feasible: NodeTable) -> None:
        self._pod = pod
        self._pods = pods
        self._everywhere = everywhere
        self._feasible = feasible

    def count(self, constraints: Constraints, *, needs_all_keys: bool) -> PreferenceState:
        """Count for every constraint."""
        here = [self._feasible.label(constraint.topology_key) for constraint in constraints]
        there = [self._everywhere.label(constraint.topology_key) for constraint in constraints]
        ignored = nodes_lacking_any(here) if needs_all_keys else None
        left_out = nodes_lacking_any(there) if needs_all_keys else None
        inclusion = Inclusion(self._pod)
        preferences = []
        for constraint, column, whole in zip(constraints, here, there, strict=True):
            per_row = matching_pods(constraint, self._pod, self._pods)
            if constraint.topology_key == HOSTNAME_LABEL:
                size = len(self._feasible) - (0 if ignored is None else int(np.count_nonzero(ignored)))
                domains = None
            else:
                size = _distinct(column, ignored)
                included = inclusion.included(constraint, self._everywhere)
                domains = _by_domain(whole, per_row, included, left_out)
            preferences.append(Preference(constraint, log(size + 2), per_row, domains))
        return PreferenceState(tuple(preferences), needs_all_keys)


def _distinct(column: Labels, ignored: BoolArray | None) -> int:
    """Count the distinct values; nodes without the label are a domain of their own, shared with the value ""."""
    codes = column.codes if ignored is None else column.codes[~ignored]
    found = np.bincount(codes, minlength=len(column.values)) > 0
    size = int(np.count_nonzero(found))
    nowhere, empty = column.values.find(None), column.values.find("")
    if nowhere is not None and empty is not None and found[nowhere] and found[empty]:
        size -= 1
    return size


def _by_domain(
    column: Labels, per_row: IntArray, included: BoolArray | None, left_out: BoolArray | None
) -> DomainCounts:
    where = all_of((included, None if left_out is None else ~left_out))
    counted = per_row if where is None else per_row * where
    domains = DomainCounts.sum_of(column, counted)
    if column.values.find("") is not None and (lacking := nodes_lacking(column)) is not None:
        # To upstream a missing label is the value "", so pods on such nodes count where the label really is empty.
        domains.change("", int(counted[lacking].sum()))
    return domains
