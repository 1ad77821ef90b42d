"""Standing answers: pods that ask the same share what was found out about every node.

Pods whose signatures are equal get the same verdicts and raw scores from every row-local plugin, so these are kept with
the position in the change log up to which they are true. The next pod of the kind looks again at the rows that changed
since, asks the plugins that look at the whole cluster (or have no signature), and picks the winner.
"""

from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

import numpy as np

from moorage.api.pod import Pod
from moorage.cache.cache import Cache
from moorage.engine.evaluation import (
    apply_filter,
    check_range,
    judge_node,
    judge_nodes,
    normalized_scores,
    raw_scores,
    run_pre_score,
)
from moorage.engine.judgement import FEASIBLE, IdArray, Statuses
from moorage.engine.prefilter import ask_pre_filter
from moorage.engine.profile import Profile, normalizes
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import Plugin, PreFilterAnswer, PreFilterPlugin, ScorePlugin
from moorage.framework.status import BoolArray, Code, IntArray, Status

FEW_ROWS: Final = 6
"""Up to so many changed rows it is cheaper to go node by node than to open a window."""

MEMORY_BUDGET: Final = 96 * 1024 * 1024
BYTES_PER_ROW: Final = 80
INFEASIBLE_TOTAL: Final = -1


@dataclass(slots=True)
class StandingScore:
    """What one row-local score plugin said of every row."""

    plugin: ScorePlugin
    weight: int
    raw: IntArray
    normalizes: bool
    normalized: IntArray | None = None


class Answer:
    """What is known of every row for pods of one signature."""

    def __init__(self, profile: Profile, fresh: frozenset[str], pod: Pod, nodes: NodeTable) -> None:
        self.profile = profile
        self.fresh = fresh
        self.cycle = CycleState()
        self.pre_filter: dict[str, PreFilterAnswer | PluginError] = {}
        for plugin in profile.pre_filter:
            if plugin.name not in fresh:
                self.pre_filter[plugin.name] = _remember(plugin, self.cycle, pod, nodes)
        skipped = {name for name, said in self.pre_filter.items() if _is_skip(said)}
        self.cycle.skipped_filters.update(skipped)
        self.filters = tuple(p for p in profile.filter if p.name not in fresh and p.name not in skipped)
        self.fresh_filters = tuple((i, p) for i, p in enumerate(profile.filter) if p.name in fresh)
        self.statuses = Statuses()
        self.numbers: IdArray = np.zeros(0, dtype=np.int32)
        self.feasible: BoolArray = np.zeros(0, dtype=np.bool_)
        self.feasible_count = 0
        self.scores: list[StandingScore] | None = None
        self.totals: IntArray = np.zeros(0, dtype=np.int64)
        self._totals_stale = True
        self.position = 0
        self.structure = -1
        self.epoch: Hashable = None

    def judge_all(self, pod: Pod, nodes: NodeTable) -> None:
        """Ask every row-local filter about every row."""
        self.statuses = Statuses()
        self.numbers = judge_nodes(self.filters, self.cycle, pod, nodes, self.statuses)
        self.feasible = np.equal(self.numbers, FEASIBLE)
        self.feasible_count = int(np.count_nonzero(self.feasible))
        self.scores = None
        self._totals_stale = True

    def judge_rows(self, pod: Pod, nodes: NodeTable, rows: list[int]) -> None:
        """Ask again about the rows that changed."""
        if len(rows) <= FEW_ROWS:
            for row in rows:
                status = judge_node(self.filters, self.cycle, pod, nodes[row])
                self._set_number(row, FEASIBLE if status is None else self.statuses.number(status))
        else:
            numbers = judge_nodes(self.filters, self.cycle, pod, nodes.take(np.array(rows)), self.statuses)
            for row, number in zip(rows, numbers.tolist(), strict=True):
                self._set_number(row, number)
        if self.scores is not None:
            self._rate_rows(pod, nodes, rows)

    def _set_number(self, row: int, number: int) -> None:
        self.numbers[row] = number
        is_feasible = number == FEASIBLE
        if is_feasible != bool(self.feasible[row]):
            self.feasible[row] = is_feasible
            self.feasible_count += 1 if is_feasible else -1
            if self.scores is not None and any(score.normalizes for score in self.scores):
                self._totals_stale = True

    def rate(self, pod: Pod, nodes: NodeTable) -> list[StandingScore]:
        """Return the row-local raw scores of every row, asking for them the first time."""
        if self.scores is None:
            for plugin in self.profile.pre_score:
                if plugin.name not in self.fresh:
                    run_pre_score(plugin, self.cycle, pod, nodes)
            self.scores = [
                StandingScore(
                    scorer,
                    self.profile.weights[scorer.name],
                    np.array(raw_scores(scorer, self.cycle, pod, nodes)),
                    normalizes(scorer),
                )
                for scorer in self.profile.score
                if scorer.name not in self.fresh and scorer.name not in self.cycle.skipped_scores
            ]
            for score in self.scores:
                if not score.normalizes:
                    check_range(score.plugin.name, score.raw)
            self._totals_stale = True
        return self.scores

    def _rate_rows(self, pod: Pod, nodes: NodeTable, rows: list[int]) -> None:
        assert self.scores is not None
        window = nodes.take(np.array(rows)) if len(rows) > FEW_ROWS else None
        for score in self.scores:
            if window is not None:
                raw = raw_scores(score.plugin, self.cycle, pod, window).tolist()
            else:
                raw = [score.plugin.score(self.cycle, pod, nodes[row]) for row in rows]
            for row, value in zip(rows, raw, strict=True):
                if score.raw[row] != value:
                    score.raw[row] = value
                    if score.normalizes:
                        self._totals_stale = True
                    else:
                        check_range(score.plugin.name, score.raw[row : row + 1])
        if not self._totals_stale:
            for row in rows:
                self.totals[row] = self._total_of(row)

    def _total_of(self, row: int) -> int:
        assert self.scores is not None
        if not self.feasible[row]:
            return INFEASIBLE_TOTAL
        return sum(
            score.weight * int((score.raw if score.normalized is None else score.normalized)[row])
            for score in self.scores
        )

    def standing_totals(self, pod: Pod, nodes: NodeTable) -> IntArray:
        """Return the weighted sums over the row-local plugins; rows that are not feasible have less than none."""
        scores = self.rate(pod, nodes)
        if self._totals_stale:
            totals = np.zeros(len(nodes), dtype=np.int64)
            rows = None if self.feasible_count == len(nodes) else np.flatnonzero(self.feasible)
            for score in scores:
                if score.normalizes:
                    score.normalized = normalize_standing(score, self.cycle, pod, nodes, rows)
                totals += score.weight * (score.raw if score.normalized is None else score.normalized)
            totals[~self.feasible] = INFEASIBLE_TOTAL
            self.totals = totals
            self._totals_stale = False
        return self.totals

    def totals_over(self, cycle: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray) -> IntArray:
        """Return the same over another set of feasible rows, as a column of the caller's own."""
        totals = np.zeros(len(nodes), dtype=np.int64)
        rows = None if feasible.all() else np.flatnonzero(feasible)
        for score in self.rate(pod, nodes):
            share = normalize_standing(score, cycle, pod, nodes, rows) if score.normalizes else score.raw
            totals += score.weight * share
        totals[~feasible] = INFEASIBLE_TOTAL
        return totals


def normalize_standing(
    score: StandingScore, cycle: CycleState, pod: Pod, nodes: NodeTable, rows: IntArray | None
) -> IntArray:
    """Normalise standing scores over the feasible rows (``None``: all); those of other rows are left at 0."""
    among = score.raw if rows is None else score.raw[rows]
    window = nodes if rows is None else nodes.take(rows)
    if score.plugin.normalizes_by_value and len(among) and (low := int(among.min())) == int(among.max()):
        one = np.array([low], dtype=np.int64)
        level = normalized_scores(score.plugin, cycle, pod, window.take(np.zeros(1, dtype=np.int64)), one)
        return np.full(len(score.raw), level[0], dtype=np.int64)
    normalized = normalized_scores(score.plugin, cycle, pod, window, among.copy())
    if rows is None:
        return normalized
    whole = np.zeros(len(score.raw), dtype=np.int64)
    whole[rows] = normalized
    return whole


class Answers:
    """The standing answers of one profile; those least recently used are dropped."""

    def __init__(self, profile: Profile, cache: Cache) -> None:
        self._profile = profile
        self._cache = cache
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self._signers = tuple(p for p in profile.judges if not p.looks_at_cluster and _overrides(p, "sign"))
        self._epochs = tuple(p for p in profile.judges if _overrides(p, "epoch"))
        self._always_fresh = frozenset(p.name for p in profile.judges) - {p.name for p in self._signers}

    def __len__(self) -> int:
        return len(self._answers)

    def for_pod(self, pod: Pod) -> Answer:
        """Return what is known of every row for this pod, brought up to date."""
        signature = tuple([plugin.sign(pod) for plugin in self._signers])
        nodes, columns = self._cache.nodes, self._cache.columns
        epoch = tuple([plugin.epoch() for plugin in self._epochs])
        answer = self._answers.get(signature)
        if answer is None or answer.structure != self._cache.structure or answer.epoch != epoch:
            answer = self._new(signature, pod, nodes, epoch)
        else:
            self._answers.move_to_end(signature)
            changed = columns.changes.since(answer.position)
            if changed is None or len(changed) > len(nodes):
                answer.judge_all(pod, nodes)
            elif changed:
                rows = list(dict.fromkeys(changed))
                answer.judge_rows(pod, nodes, rows)
        answer.position = columns.changes.position
        return answer

    def _new(self, signature: tuple[Hashable, ...], pod: Pod, nodes: NodeTable, epoch: Hashable) -> Answer:
        unsigned = (plugin.name for plugin, sign in zip(self._signers, signature, strict=True) if sign is None)
        answer = Answer(self._profile, self._always_fresh.union(unsigned), pod, nodes)
        answer.structure, answer.epoch = self._cache.structure, epoch
        answer.judge_all(pod, nodes)
        self._answers[signature] = answer
        self._answers.move_to_end(signature)
        most = max(4, min(1024, MEMORY_BUDGET // (BYTES_PER_ROW * max(1, len(nodes)))))
        while len(self._answers) > most:
            self._answers.popitem(last=False)
        return answer


def judge_fresh(answer: Answer, cycle: CycleState, pod: Pod, nodes: NodeTable) -> tuple[IdArray, BoolArray, int]:
    """Add the verdicts of the plugins that are asked in every cycle to the standing ones."""
    active = [(index, plugin) for index, plugin in answer.fresh_filters if plugin.name not in cycle.skipped_filters]
    if not active:
        return answer.numbers, answer.feasible, answer.feasible_count
    numbers = answer.numbers.copy()
    place = {plugin.name: index for index, plugin in enumerate(answer.profile.filter)}
    for index, plugin in active:
        alive = _not_rejected_before(answer, numbers, index, place)
        apply_filter(plugin, cycle, pod, nodes, answer.statuses, numbers, alive)
    feasible = np.equal(numbers, FEASIBLE)
    return numbers, feasible, int(np.count_nonzero(feasible))


def _not_rejected_before(answer: Answer, numbers: IdArray, index: int, place: dict[str, int]) -> BoolArray:
    """Find the rows no filter before this one turned down: a later standing rejection gives way to this plugin's."""
    later = [True]
    for number in range(1, len(answer.statuses)):
        status = answer.statuses[number]
        later.append(status is not None and place[status.plugin] > index)
    return np.array(later, dtype=np.bool_)[numbers]


def _remember(plugin: PreFilterPlugin, cycle: CycleState, pod: Pod, nodes: NodeTable) -> PreFilterAnswer | PluginError:
    try:
        return ask_pre_filter(plugin, cycle, pod, nodes)
    except PluginError as error:
        return error


def _is_skip(said: PreFilterAnswer | PluginError) -> bool:
    return isinstance(said, Status) and said.code == Code.SKIP


def _overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)
