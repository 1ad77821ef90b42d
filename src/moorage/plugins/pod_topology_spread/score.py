"""Soft constraints: the fewer pods of its kind in a node's domains, the better."""

from collections.abc import Iterable
from math import log
from typing import Final

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from moorage.api.arithmetic import round_half_away, round_half_away_nodes
from moorage.api.node import HOSTNAME_LABEL
from moorage.api.pod import Pod
from moorage.framework.domains import DomainCounts, Labels, nodes_lacking
from moorage.framework.masks import all_of, any_of
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import Mark, NodeTable
from moorage.framework.pod_index import PodIndex
from moorage.framework.status import MAX_NODE_SCORE, BoolArray, IntArray
from moorage.plugins.pod_topology_spread.constraints import Constraint, Constraints
from moorage.plugins.pod_topology_spread.inclusion import Inclusion
from moorage.plugins.pod_topology_spread.tally import MatchingPods, Tally

FEW_ROWS: Final = 6
"""Up to so many changed rows it is cheaper to rate them one by one."""

FloatArray = NDArray[np.float64]


class Preference(Struct, frozen=True):
    """One constraint: pods per row for the hostname key, per domain for any other, and what a pod weighs."""

    constraint: Constraint
    weight: float
    counts: IntArray | DomainCounts

    def points(self, count: int) -> float:
        """Return what so many pods add to the score; a larger allowed skew makes differences matter less."""
        return float(count) * self.weight + float(self.constraint.max_skew - 1)

    def count_on(self, node: NodeInfo, value: str, namespace: str) -> int:
        """Count the pods in the domain of one node."""
        if isinstance(self.counts, DomainCounts):
            return self.counts[value]
        return sum(self.constraint.counts(pod, namespace) for pod in node.pods.values())

    def points_at(self, nodes: NodeTable, column: Labels) -> FloatArray:
        """Compute the points of every node of a window; none for nodes without the key."""
        if isinstance(self.counts, DomainCounts):
            points = self._points(self.counts.table(column.values)).take(column.codes)
        else:
            points = self._points(self.counts if nodes.shows_all else self.counts.take(nodes.rows))
        lacking = nodes_lacking(column)
        if lacking is not None:
            points[lacking] = 0.0
        return points

    def is_same(self, other: "Preference") -> bool:
        """Tell whether another one counts the same and gives it the same weight; counts per row go on by themselves."""
        return self.weight == other.weight and self.counts is other.counts

    def _points(self, counts: IntArray) -> FloatArray:
        return counts.astype(np.float64) * self.weight + float(self.constraint.max_skew - 1)


class PreferenceState(Struct, frozen=True):
    """Every soft constraint of a pod with its counts, and what that makes of the nodes of the cluster.

    ``needs_all_keys`` says that nodes without one of the keys get no score.
    """

    preferences: tuple[Preference, ...]
    needs_all_keys: bool
    counted: NodeTable
    raw: IntArray
    lacking: BoolArray | None

    def ignored(self, nodes: NodeTable) -> BoolArray | None:
        """Find the nodes that get no score for want of a key; ``None`` if there are none."""
        if not self.needs_all_keys:
            return None
        if not nodes.is_window_of(self.counted):
            return nodes_lacking_any([nodes.label(item.constraint.topology_key) for item in self.preferences])
        return self.lacking if self.lacking is None or nodes.shows_all else self.lacking.take(nodes.rows)

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
        if not nodes.is_window_of(self.counted):
            return rated(self.preferences, nodes, self.ignored(nodes))
        return self.raw if nodes.shows_all else self.raw.take(nodes.rows)

    def normalize(self, nodes: NodeTable, scores: IntArray) -> IntArray:
        """Turn the ratings round, so that the emptiest domains come near 100; nodes that are ignored get 0."""
        ignored = self.ignored(nodes)
        among = scores if ignored is None else scores[~ignored]
        if not len(among):
            return np.zeros_like(scores)
        top = int(np.maximum.reduce(among))
        if top == 0:
            turned = np.full_like(scores, MAX_NODE_SCORE)
        else:
            turned = (top + int(np.minimum.reduce(among))) - scores
            turned *= MAX_NODE_SCORE
            turned //= top
        if ignored is not None:
            turned[ignored] = 0
        return turned


def rated(preferences: Iterable[Preference], nodes: NodeTable, ignored: BoolArray | None) -> IntArray:
    """Rate every node of a window by its points."""
    score = np.zeros(len(nodes), dtype=np.float64)
    for item in preferences:
        score += item.points_at(nodes, nodes.label(item.constraint.topology_key))
    rounded = round_half_away_nodes(score)
    if ignored is not None:
        rounded[ignored] = 0
    return rounded


def nodes_lacking_any(columns: Iterable[Labels]) -> BoolArray | None:
    """Find the nodes without one of several labels; ``None`` if all have all."""
    return any_of(nodes_lacking(column) for column in columns)


class PreferenceCounts:
    """The soft constraints of pods that ask the same, kept from one pod to the next.

    Pods are counted in all nodes, but what a pod weighs depends on the domains of the feasible ones.
    """

    def __init__(self, constraints: Constraints, pod: Pod, inclusion: Inclusion, *, needs_all_keys: bool) -> None:
        self.constraints = constraints
        self._pods = [MatchingPods(constraint, pod.namespace) for constraint in constraints]
        self._inclusion = inclusion
        self._needs_all_keys = needs_all_keys
        self._tallies: list[Tally | None] = []
        self._sizes: list[int] = []
        self._lacking: BoolArray | None = None
        self._mark: Mark | None = None
        self._raw: IntArray = np.zeros(0, dtype=np.int64)
        self._state: PreferenceState | None = None

    def state(self, index: PodIndex, everywhere: NodeTable, feasible: NodeTable) -> PreferenceState:
        """Return the state of one cycle."""
        changed, mark = everywhere.pods_changed_since(self._mark)
        if changed is None:
            self._state = None
            self._count(index, everywhere)
        elif changed:
            for tally in self._tallies:
                if tally is not None:
                    tally.follow(changed, index)
        # Last: after an error all is counted again.
        self._mark = mark
        state, preferences = self._state, self._preferences(index, everywhere, feasible)
        if state is None or not all(map(Preference.is_same, state.preferences, preferences)):
            return self._rate(preferences, everywhere)
        if changed:
            if self._lacking is not None or len(changed) > FEW_ROWS:
                return self._rate(preferences, everywhere)
            for row in set(changed):
                self._raw[row] = self._rating_of(row, preferences)
        return state

    def _count(self, index: PodIndex, everywhere: NodeTable) -> None:
        columns = [everywhere.label(constraint.topology_key) for constraint in self.constraints]
        self._lacking = nodes_lacking_any(columns)
        ignored = self._lacking if self._needs_all_keys else None
        labelled = None if ignored is None else ~ignored
        self._tallies, self._sizes = [], []
        for constraint, column, pods in zip(self.constraints, columns, self._pods, strict=True):
            if constraint.topology_key == HOSTNAME_LABEL:
                self._tallies.append(None)
            else:
                where = all_of((self._inclusion.included(constraint, everywhere), labelled))
                self._tallies.append(Tally(pods, index, column, where))
            self._sizes.append(_size(constraint, column, ignored))

    def _preferences(self, index: PodIndex, everywhere: NodeTable, feasible: NodeTable) -> tuple[Preference, ...]:
        sizes = self._sizes if feasible.shows_all_of(everywhere) else self._sizes_in(feasible)
        return tuple(
            [
                Preference(constraint, log(size + 2), pods.per_row(index) if tally is None else tally.counts)
                for constraint, size, pods, tally in zip(
                    self.constraints, sizes, self._pods, self._tallies, strict=True
                )
            ]
        )

    def _sizes_in(self, feasible: NodeTable) -> list[int]:
        """Count the domains of a window: what a pod weighs grows with them."""
        columns = [feasible.label(constraint.topology_key) for constraint in self.constraints]
        ignored = nodes_lacking_any(columns) if self._needs_all_keys else None
        return [
            _size(constraint, column, ignored) for constraint, column in zip(self.constraints, columns, strict=True)
        ]

    def _rate(self, preferences: tuple[Preference, ...], everywhere: NodeTable) -> PreferenceState:
        ignored = self._lacking if self._needs_all_keys else None
        self._raw = rated(preferences, everywhere, ignored)
        shown = self._raw.view()
        shown.flags.writeable = False
        self._state = PreferenceState(preferences, self._needs_all_keys, everywhere, shown, ignored)
        return self._state

    def _rating_of(self, row: int, preferences: tuple[Preference, ...]) -> int:
        """Rate one row, in a cluster where all have all keys."""
        score = 0.0
        for item, tally in zip(preferences, self._tallies, strict=True):
            if isinstance(item.counts, DomainCounts):
                assert tally is not None
                score += item.points(int(item.counts.table(tally.values)[tally.codes[row]]))
            else:
                score += item.points(int(item.counts[row]))
        return round_half_away(score)


def _size(constraint: Constraint, column: Labels, ignored: BoolArray | None) -> int:
    """Count the domains: nodes for the hostname key; nodes without the label are a domain shared with the value ""."""
    if constraint.topology_key == HOSTNAME_LABEL:
        return len(column) - (0 if ignored is None else int(np.count_nonzero(ignored)))
    codes = column.codes if ignored is None else column.codes[~ignored]
    found = np.bincount(codes, minlength=len(column.values)) > 0
    size = int(np.count_nonzero(found))
    nowhere, empty = column.values.find(None), column.values.find("")
    if nowhere is not None and empty is not None and found[nowhere] and found[empty]:
        size -= 1
    return size
