"""Comparing standing answers with ones computed from nothing: on in all tests, and for a share of live cycles."""

import numpy as np

from moorage.api.pod import Pod
from moorage.engine.evaluation import judge_nodes, rate_nodes
from moorage.engine.judgement import IdArray, Statuses
from moorage.engine.prefilter import run_pre_filters
from moorage.engine.profile import Profile
from moorage.errors import MoorageError
from moorage.framework.cycle import CycleState
from moorage.framework.nodetable import NodeTable
from moorage.framework.status import BoolArray, IntArray


class CrossCheckError(MoorageError):
    """A standing answer differs from the one computed from nothing: a plugin's signature or forms are wrong."""


class CrossCheck:
    """Judges and rates everything again, the plain way, and raises where the result differs."""

    def __init__(self, profile: Profile) -> None:
        self._profile = profile

    def verdicts(self, pod: Pod, nodes: NodeTable, numbers: IdArray, statuses: Statuses) -> None:
        """Compare what is said of each row."""
        cycle, plain = CycleState(), Statuses()
        run_pre_filters(self._profile.pre_filter, cycle, pod, nodes)
        expected = judge_nodes(self._profile.filter, cycle, pod, nodes, plain)
        for row in range(len(nodes)):
            found, want = statuses[int(numbers[row])], plain[int(expected[row])]
            if found != want:
                raise CrossCheckError(f"{pod.key} on {nodes[row].name}: standing answer {found}, from nothing {want}")

    def totals(self, pod: Pod, nodes: NodeTable, feasible: BoolArray, totals: IntArray) -> None:
        """Compare the weighted sum of each feasible row."""
        cycle = CycleState()
        run_pre_filters(self._profile.pre_filter, cycle, pod, nodes)
        rows = np.flatnonzero(feasible)
        expected = rate_nodes(self._profile, cycle, pod, nodes.take(rows)).totals
        for row, want in zip(rows, expected, strict=True):
            if totals[row] != want:
                name = nodes[int(row)].name
                raise CrossCheckError(f"{pod.key} on {name}: standing total {totals[row]}, from nothing {want}")
