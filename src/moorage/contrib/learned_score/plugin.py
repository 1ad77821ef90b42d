"""LearnedScore: scores nodes with a trained policy, within a time limit."""

from time import perf_counter
from typing import Final

import numpy as np

from moorage.contrib.learned_score.policies import (
    InvalidScoresError,
    Observation,
    ObservedColumns,
    ScoringFunction,
    compute_scores,
    load_policy_function,
)
from moorage.contrib.learned_score.process import NONSENSE, RAISED, PolicyFailure, PolicyProcess
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.args import LEAST_ALLOCATED, MOST_ALLOCATED
from moorage.scheduler.config.contrib_args import LearnedScoreArgs
from moorage.scheduler.framework.cycle import CycleState, StateKey
from moorage.scheduler.framework.events import EventRegistration
from moorage.scheduler.framework.faults import described
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable, RowArray
from moorage.scheduler.framework.plugin import PreScorePlugin, ScorePlugin
from moorage.scheduler.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, FloatArray, IntArray, Status


class LearnedScores:
    """The scores of a policy for the feasible nodes, by row of the cluster."""

    def __init__(self, rows: RowArray, scores: IntArray) -> None:
        self._rows = rows
        self._scores = scores
        self._by_row: dict[int, int] = {}

    def of(self, row: int) -> int:
        """Return the score of a row. Infeasible rows have the minimum."""
        if not self._by_row:
            self._by_row.update(zip(self._rows.tolist(), self._scores.tolist(), strict=True))
        return self._by_row.get(row, MIN_NODE_SCORE)

    def at(self, rows: RowArray) -> IntArray:
        if np.array_equal(rows, self._rows):
            return self._scores
        return np.array([self.of(row) for row in rows.tolist()], dtype=np.int64)


SCORES: Final = StateKey[LearnedScores](
    "scores of the learned policy", missing="enable LearnedScore at preScore as well, or under multiPoint"
)


class LearnedScore(PreScorePlugin, ScorePlugin):
    """Call the policy once per pod with all feasible nodes. The best node has 100, the worst 0.

    If the policy raises, returns invalid scores or exceeds its time limit, the fallback scores instead. That is counted
    and logged once.
    """

    Args = LearnedScoreArgs

    def __init__(self, *, args: LearnedScoreArgs, handle: Handle) -> None:
        self._columns = ObservedColumns(args.resources)
        self._fallback = args.fallback
        self._log = handle.log
        self._seconds = handle.metrics.histogram("policy_seconds", "Time of one call of the policy.")
        self.fallbacks = handle.metrics.counter(
            "fallbacks", "Pods without scores of the policy, by cause.", labels=("reason",)
        )
        self._policy = args.policy
        self._logged_reasons: set[str] = set()
        limit = args.time_limit.seconds
        self._function: ScoringFunction | None = None if limit else load_policy_function(args.policy)
        self._process = PolicyProcess(args.policy, limit) if limit else None

    async def start(self) -> None:
        if self._process is not None:
            self._process.start()

    async def close(self) -> None:
        if self._process is not None:
            self._process.close()

    def events_to_register(self) -> tuple[EventRegistration, ...]:
        return ()  # it rejects no pods

    def pre_score(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> Status | None:
        scores = self._scores(self._columns.observe(pod, nodes))
        if scores is None:
            return Status.skip()
        cycle[SCORES] = LearnedScores(nodes.rows, spread_scores(scores))
        return None

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        return cycle[SCORES].of(node.row)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        return cycle[SCORES].at(nodes.rows)

    def _scores(self, observation: Observation) -> FloatArray | None:
        began = perf_counter()
        try:
            scores = self._call_policy(observation)
        except PolicyFailure as failure:
            self._count(failure)
            # The mean share of the remaining resources; None skips the plugin.
            remaining: FloatArray = observation.nodes[:, self._columns.left].mean(axis=1, dtype=np.float64)
            return {LEAST_ALLOCATED: remaining, MOST_ALLOCATED: -remaining}.get(self._fallback)
        self._seconds.observe(perf_counter() - began)
        return scores

    def _call_policy(self, observation: Observation) -> FloatArray:
        if self._process is not None:
            return self._process.ask(observation)
        assert self._function is not None
        try:
            return compute_scores(self._function, observation)
        except InvalidScoresError as error:
            raise PolicyFailure(NONSENSE, str(error)) from error
        except Exception as error:  # the author's code may raise anything
            raise PolicyFailure(RAISED, described(error)) from error

    def _count(self, failure: PolicyFailure) -> None:
        self.fallbacks.inc(reason=failure.reason)
        if failure.reason not in self._logged_reasons:
            self._logged_reasons.add(failure.reason)
            self._log.warning(
                "the policy failed; using the fallback (later failures are only counted)",
                policy=self._policy,
                reason=failure.reason,
                problem=str(failure),
                instead=self._fallback,
            )


def spread_scores(scores: FloatArray) -> IntArray:
    """Spread scores over 0…100. Only the best scores get 100, so that the policy selects the node.

    >>> spread_scores(np.array([-1.0, 0.999, 1.0])).tolist(), spread_scores(np.array([7.0, 7.0])).tolist()
    ([0, 99, 100], [100, 100])
    """
    if not len(scores):
        return np.zeros(0, dtype=np.int64)
    lowest, highest = scores.min(), scores.max()
    # Halved, so that the distance between numbers of any size is finite.
    distance = highest / 2 - lowest / 2
    if not distance:
        return np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64)
    scaled = ((scores / 2 - lowest / 2) / distance * MAX_NODE_SCORE).astype(np.int64)
    return np.where(scores == highest, MAX_NODE_SCORE, np.minimum(scaled, MAX_NODE_SCORE - 1))
