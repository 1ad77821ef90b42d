"""Soft constraints: prefer domains with fewer matching pods."""

from collections.abc import Iterable, Sequence
from math import log
from typing import Final

import numpy as np
from msgspec import Struct

from moorage.kube.api.arithmetic import round_half_away, round_half_away_nodes
from moorage.kube.api.node import HOSTNAME_LABEL
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.node_selection import all_of, any_of
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import MAX_NODE_SCORE, BoolArray, FloatArray, IntArray
from moorage.scheduler.plugins.pod_topology_spread.spread_constraints import (
    Constraints,
    Inclusion,
    SpreadConstraint,
    SpreadTally,
    decisive_constraints,
)
from moorage.scheduler.state.domains import DomainTally, Labels, nodes_lacking
from moorage.scheduler.state.pod_index import PodIndex

FEW_ROWS: Final = 6
"""Up to this many changed rows are scored one by one."""


class SpreadPreference(Struct, frozen=True):
    """One constraint: pods per row for the hostname key, per domain for other keys, and the weight of a pod."""

    constraint: SpreadConstraint
    weight: float
    counts: IntArray | DomainTally

    def points(self, count: int) -> float:
        """Return the score of ``count`` pods; a larger ``maxSkew`` reduces the differences."""
        return float(count) * self.weight + float(self.constraint.max_skew - 1)

    def count_pods(self, node: NodeInfo, value: str, namespace: str) -> int:
        """Count the pods in the domain of a node."""
        if isinstance(self.counts, DomainTally):
            return self.counts[value]
        return sum(self.constraint.counts(pod, namespace) for pod in node.pods.values())

    def compute_points(self, nodes: NodeTable, column: Labels) -> FloatArray:
        """Compute the points of every node of a window; 0 for nodes without the key."""
        if isinstance(self.counts, DomainTally):
            points = self._points(self.counts.table(column.values)).take(column.codes)
        else:
            points = self._points(self.counts if nodes.shows_all else self.counts.take(nodes.rows))
        lacking = nodes_lacking(column)
        if lacking is not None:
            points[lacking] = 0.0
        return points

    def _points(self, counts: IntArray) -> FloatArray:
        points = counts.astype(np.float64)
        points *= self.weight
        points += float(self.constraint.max_skew - 1)
        return points


class SpreadScores:
    """Raw and normalized scores of every row. Both columns are updated row by row."""

    def __init__(self, raw: IntArray, ignored: BoolArray | None) -> None:
        self.raw = _shown(raw)
        self.ignored = ignored
        self._raw = raw
        self._turned: IntArray | None = None
        self._bounds = (0, 0)
        self._stale: list[int] = []
        self._extremes: tuple[int, int] | None = None
        """The lowest and the highest score, or ``None`` if unknown. The next two attributes count their rows."""
        self._at_low = self._at_high = 0

    def put(self, row: int, score: int) -> None:
        """Update the score of a row that is not ignored."""
        before = int(self._raw[row])
        self._raw[row] = score
        self._stale.append(row)
        if self._extremes is not None:
            low, high = self._extremes
            self._at_low += (score == low) - (before == low)
            self._at_high += (score == high) - (before == high)
            if score < low or score > high or not self._at_low or not self._at_high:
                self._extremes = None

    def turned(self) -> IntArray:
        """Return the normalized scores of all rows in 32 bits; few change while the extremes remain the same."""
        # Scan all rows for the extremes only after the last row with an extreme score changed.
        if self._extremes is None:
            self._extremes = low, high = bounds(self._raw, self.ignored)
            counted_scores = self._raw if self.ignored is None else self._raw[~self.ignored]
            self._at_low = int(np.count_nonzero(counted_scores == low))
            self._at_high = int(np.count_nonzero(counted_scores == high))
        now = self._extremes
        if self._turned is None or now != self._bounds or len(self._stale) > FEW_ROWS:
            self._turned = turned_round(self._raw, now, self.ignored).astype(np.int32)
            self._bounds = now
        elif now[1]:
            for row in self._stale:
                self._turned[row] = MAX_NODE_SCORE * (now[0] + now[1] - int(self._raw[row])) // now[1]
        self._stale.clear()
        return _shown(self._turned)


def bounds(scores: IntArray, ignored: BoolArray | None) -> tuple[int, int]:
    """Return the lowest and the highest score of nodes that are not ignored; (0, 0) without nodes."""
    counted_scores = scores if ignored is None else scores[~ignored]
    return (
        (int(np.minimum.reduce(counted_scores)), int(np.maximum.reduce(counted_scores)))
        if len(counted_scores)
        else (0, 0)
    )


def turned_round(scores: IntArray, between: tuple[int, int], ignored: BoolArray | None) -> IntArray:
    """Invert scores, so that the lowest become the highest, near 100. Ignored nodes get 0."""
    low, top = between
    if top == 0:
        turned = np.full_like(scores, MAX_NODE_SCORE)
    else:
        turned = (top + low) - scores
        turned *= MAX_NODE_SCORE
        turned //= top
    if ignored is not None:
        turned[ignored] = 0
    return turned


def _shown(column: IntArray) -> IntArray:
    view = column.view()
    view.flags.writeable = False
    return view


class PreferenceState(Struct, frozen=True):
    """Every soft constraint of a pod with its counts, and the resulting scores of the cluster's nodes.

    ``needs_all_keys``: nodes without one of the keys get no score.
    """

    preferences: Sequence[SpreadPreference]
    needs_all_keys: bool
    counted: NodeTable
    scores: SpreadScores

    def ignored(self, nodes: NodeTable) -> BoolArray | None:
        """Find the nodes without a score because a key is missing. Return ``None`` if all nodes have all keys."""
        if not self.needs_all_keys:
            return None
        if not nodes.is_window_of(self.counted):
            return nodes_lacking_any([nodes.label(item.constraint.topology_key) for item in self.preferences])
        ignored = self.scores.ignored
        return ignored if ignored is None or nodes.shows_all else ignored.take(nodes.rows)

    def score(self, node: NodeInfo, namespace: str) -> int:
        """Score one node: more pods give a higher score; normalization inverts it."""
        score = 0.0
        for item in self.preferences:
            value = node.labels.get(item.constraint.topology_key)
            if value is not None:
                score += item.points(item.count_pods(node, value, namespace))
            elif self.needs_all_keys:
                return 0
        return round_half_away(score)

    def score_nodes(self, nodes: NodeTable) -> IntArray:
        if not nodes.is_window_of(self.counted):
            return spread_scores(self.preferences, nodes, self.ignored(nodes))
        return self.scores.raw if nodes.shows_all else self.scores.raw.take(nodes.rows)

    def normalize(self, nodes: NodeTable, scores: IntArray) -> IntArray:
        """Invert the scores, so that the emptiest domains get nearly 100. Ignored nodes get 0."""
        # score_nodes returned this read-only array, so the cached normalized scores apply.
        if scores is self.scores.raw:
            return self.scores.turned()
        ignored = self.ignored(nodes)
        return turned_round(scores, bounds(scores, ignored), ignored)


def spread_scores(preferences: Sequence[SpreadPreference], nodes: NodeTable, ignored: BoolArray | None) -> IntArray:
    """Score every node of a window by its points."""
    columns = [item.compute_points(nodes, nodes.label(item.constraint.topology_key)) for item in preferences]
    score = columns[0]
    for points in columns[1:]:
        score += points
    rounded = round_half_away_nodes(score)
    if ignored is not None:
        rounded[ignored] = 0
    return rounded


def nodes_lacking_any(columns: Iterable[Labels]) -> BoolArray | None:
    """Find the nodes without one of several labels. Return ``None`` if all have all."""
    return any_of(nodes_lacking(column) for column in columns)


class HostCounts:
    """The pods on each row, for the hostname key: every row is a domain, so nothing is summed.

    Valid until a node changes, or the index drops a count.
    """

    __slots__ = ("_pods", "_position", "_rows")

    def __init__(self, constraint: SpreadConstraint, namespace: str, index: PodIndex) -> None:
        self._rows = index.rows
        self._pods = constraint.counted_pods(namespace, index)
        self._position = 0 if self._pods is None else self._pods.log.position

    def per_row(self) -> IntArray:
        """Count the pods on each row. The view follows later changes."""
        return np.zeros(self._rows, dtype=np.int64) if self._pods is None else self._pods.per_row(self._rows)

    def steps(self) -> Sequence[int] | None:
        """Return the rows where pods were added since the last call, ``~row`` for removals, or ``None`` if too many."""
        if self._pods is None or self._pods.log.position == self._position:
            return ()
        position, self._position = self._position, self._pods.log.position
        return self._pods.log.since(position)


class PreferenceCounts:
    """The soft constraints of equal pods, cached between pods.

    Pods are counted in all nodes, but the weight of a pod depends on the domains of the feasible nodes.
    """

    def __init__(self, constraints: Constraints, pod: Pod, inclusion: Inclusion, *, needs_all_keys: bool) -> None:
        self.constraints = constraints
        self._namespace = pod.namespace
        self._inclusion = inclusion
        self._needs_all_keys = needs_all_keys
        self._counted_versions: tuple[int, int] | None = None
        self._counted = constraints
        self._lacking: BoolArray | None = None
        self._tallies: list[SpreadTally | HostCounts] = []
        self._sizes: list[int] = []
        self._scored_for: list[int] = []
        self._state: PreferenceState | None = None

    def state(self, index: PodIndex, everywhere: NodeTable, feasible: NodeTable) -> PreferenceState:
        """Return the cycle state of an attempt."""
        versions = everywhere.nodes_version, index.generation
        if self._counted_versions != versions:
            self._count(index, everywhere)
            self._state = None
            self._counted_versions = versions
        sizes = self._sizes if feasible.shows_all_of(everywhere) else self._count_domains(feasible)
        state, rows = self._state, self._follow()
        if state is None or rows is None or sizes != self._scored_for:
            self._scored_for = sizes
            preferences = [
                SpreadPreference(
                    constraint, log(size + 2), tally.tally if isinstance(tally, SpreadTally) else tally.per_row()
                )
                for constraint, size, tally in zip(self._counted, sizes, self._tallies, strict=True)
            ]
            ignored = self._lacking if self._needs_all_keys else None
            scores = SpreadScores(spread_scores(preferences, everywhere, ignored), ignored)
            self._state = state = PreferenceState(preferences, self._needs_all_keys, everywhere, scores)
            return state
        for row in rows:
            # All nodes have all keys.
            score = 0.0
            for item, tally in zip(state.preferences, self._tallies, strict=True):
                if isinstance(item.counts, DomainTally):
                    assert isinstance(tally, SpreadTally)
                    score += item.points(int(item.counts.table(tally.values)[tally.codes[row]]))
                else:
                    score += item.points(int(item.counts[row]))
            state.scores.put(row, round_half_away(score))
        return state

    def _follow(self) -> list[int] | None:
        """Refresh the counts. Return the rows with changed counts, ``None`` if more changed."""
        rows: list[int] | None = []
        for tally in self._tallies:
            if isinstance(tally, SpreadTally):
                before = tally.tally.version
                tally.refresh()
                if tally.tally.version != before:
                    rows = None
            elif steps := tally.steps():
                if rows is not None and self._lacking is None and len(steps) <= FEW_ROWS:
                    rows += [step if step >= 0 else ~step for step in steps]
                else:
                    rows = None
            elif steps is None:
                rows = None
        return rows

    def _count(self, index: PodIndex, everywhere: NodeTable) -> None:
        if self._needs_all_keys:
            self._counted = decisive_constraints(self.constraints, everywhere)
        columns = [everywhere.label(constraint.topology_key) for constraint in self._counted]
        self._lacking = nodes_lacking_any(columns)
        ignored = self._lacking if self._needs_all_keys else None
        labeled = None if ignored is None else ~ignored
        self._tallies, self._sizes = [], []
        for constraint, column in zip(self._counted, columns, strict=True):
            if constraint.topology_key == HOSTNAME_LABEL:
                self._tallies.append(HostCounts(constraint, self._namespace, index))
            else:
                where = all_of((self._inclusion.included(constraint, everywhere), labeled))
                self._tallies.append(SpreadTally(constraint, self._namespace, index, column, where))
            self._sizes.append(_size(constraint, column, ignored))

    def _count_domains(self, feasible: NodeTable) -> list[int]:
        """Count the domains of a window. The weight of a pod grows with them."""
        columns = [feasible.label(constraint.topology_key) for constraint in self._counted]
        ignored = nodes_lacking_any(columns) if self._needs_all_keys else None
        return [_size(constraint, column, ignored) for constraint, column in zip(self._counted, columns, strict=True)]


def _size(constraint: SpreadConstraint, column: Labels, ignored: BoolArray | None) -> int:
    """Count the domains: nodes for the hostname key; nodes without the label share a domain with the value ""."""
    if constraint.topology_key == HOSTNAME_LABEL:
        return len(column) - (0 if ignored is None else int(np.count_nonzero(ignored)))
    codes = column.codes if ignored is None else column.codes[~ignored]
    occurs = np.bincount(codes, minlength=len(column.values)) > 0
    size = int(np.count_nonzero(occurs))
    nowhere, empty = column.values.find(None), column.values.find("")
    if nowhere is not None and empty is not None and occurs[nowhere] and occurs[empty]:
        size -= 1
    return size
