"""Standing answers: pods that ask the same share what was found out about every node.

Each row-local plugin keeps its verdicts and raw scores per signature of its own (:mod:`plugin_answers`); pods whose
signatures are all equal also share the combination: who is feasible, and the weighted sums. The next pod of the kind
looks again at the rows that changed since, asks the plugins that look at the whole cluster (or have no signature), and
picks the winner.
"""

from collections import OrderedDict
from collections.abc import Hashable
from operator import methodcaller
from typing import Final, TypeAlias

import numpy as np
from msgspec import Struct

from moorage.api.pod import Pod
from moorage.api.shape import MOST_SHAPES, Shape
from moorage.cache.cache import Cache
from moorage.engine.boundary import ask, ask_each
from moorage.engine.evaluation import apply_filter, check_range, normalized_scores
from moorage.engine.judgement import FEASIBLE, IdArray, Statuses
from moorage.engine.plugin_answers import PluginAnswer
from moorage.engine.profile import Profile, normalizes
from moorage.errors import PluginError
from moorage.framework.cycle import CycleState
from moorage.framework.nodecolumns import NodeColumns
from moorage.framework.nodetable import NodeTable
from moorage.framework.plugin import Plugin, ScorePlugin
from moorage.framework.status import MAX_NODE_SCORE, MIN_NODE_SCORE, BoolArray, Code, IntArray, Status

MEMORY_BUDGET: Final = 64 * 1024 * 1024
BYTES_PER_ROW: Final = 24
MOST_ANSWERS: Final = 1024
MOST_STATUSES: Final = 10_000
INFEASIBLE_TOTAL: Final = -1
_EPOCH: Final = methodcaller("epoch")

Signature: TypeAlias = tuple[Hashable, ...]


class Share(Struct):
    """What one row-local score plugin adds to the totals: a column, or one number for all rows."""

    part: PluginAnswer
    plugin: ScorePlugin
    weight: int
    normalizes: bool
    column: IntArray | int = 0
    version: int = 0


class TotalOrder:
    """Totals and ranks as one column of numbers, so that the winner is its maximum and ties need no second look."""

    def __init__(self) -> None:
        self._column: IntArray = np.zeros(0, dtype=np.int64)
        self._ranks: IntArray | None = None
        self._size = 0

    def forget(self) -> None:
        """Make the column anew when it is next asked for."""
        self._ranks = None

    def put(self, row: int, total: int) -> None:
        """Follow the total of one row."""
        if self._ranks is not None:
            self._column[row] = total * self._size - int(self._ranks[row])

    def best(self, totals: IntArray, ranks: IntArray, size: int) -> int:
        """Return the row of the winner; ranks are below ``size``."""
        if self._ranks is not ranks:
            self._column = totals * size - ranks
            self._ranks, self._size = ranks, size
        return int(self._column.argmax())


class Answer:
    """What is known of every row for pods of one signature."""

    def __init__(
        self, profile: Profile, parts: dict[str, PluginAnswer], columns: NodeColumns, statuses: Statuses
    ) -> None:
        self.profile = profile
        self.statuses = statuses
        self.cycle = CycleState()
        for part in parts.values():
            self.cycle.take_in(part.cycle)
        self.pre_filter = {
            plugin.name: parts[plugin.name].pre_filter for plugin in profile.pre_filter if plugin.name in parts
        }
        self.fresh = frozenset(plugin.name for plugin in profile.judges if plugin.name not in parts)
        self.fresh_filters = tuple((i, p) for i, p in enumerate(profile.filter) if p.name in self.fresh)
        self.fresh_pre_scores = tuple(p for p in profile.pre_score if p.name in self.fresh)
        self.fresh_scores = tuple(p for p in profile.score if p.name in self.fresh)
        self.to_pre_filter = tuple(p for p in profile.pre_filter if p.name in self.fresh or self._matters(p.name))
        self._filters = [parts[p.name] for p in profile.filter if p.name in parts and not parts[p.name].skips_filter]
        self._pod_filters = [part for part in self._filters if part.plugin.looks_at_pods]
        self._columns = columns
        self._nodes_seen = self._nodes_rated = -1
        self._scorers = [(parts[p.name], p) for p in profile.score if p.name in parts]
        scoring = {plugin.name for plugin in profile.score}
        self._only_pre_scoring = [parts[p.name] for p in profile.pre_score if p.name in parts and p.name not in scoring]
        self._shares: list[Share] | None = None
        self._pod_shares: list[Share] = []
        self.numbers: IdArray = np.zeros(0, dtype=np.int32)
        self.feasible: BoolArray = np.zeros(0, dtype=np.bool_)
        self.feasible_count = 0
        self.feasible_version = 0
        self.heap_ranks: tuple[Hashable, IntArray] = (None, np.zeros(0, dtype=np.int64))
        """The tie-break of the feasible rows, and of which version of them."""
        self.totals: IntArray = np.zeros(0, dtype=np.int64)
        self._totals_stale = True
        self._stale_rows: dict[int, None] = {}
        self._order = TotalOrder()
        self.refusals: dict[str, tuple[Hashable, Status | None]] = {}
        """What was said of nodes with the pods promised to them, and of which version of the node and which pods."""
        self.position = -1

    def is_fresh_for(self, cycle: CycleState) -> bool:
        """Tell whether a plugin that looks at the whole cluster has a say about the pod in this cycle."""
        return any(plugin.name not in cycle.skipped_filters for _, plugin in self.fresh_filters)

    def judge(self, pod: Pod, nodes: NodeTable, changed: list[int] | None) -> None:
        """Bring verdicts up to date: on the rows that changed, or on all."""
        nodes_seen = self._columns.node_changes.position
        # Filters that look at nodes alone need not be asked while no node has changed.
        asked = self._filters if changed is None or self._nodes_seen != nodes_seen else self._pod_filters
        for part in asked:
            part.judge(pod, nodes)
        # Last: after a plugin's error all of them are asked again.
        self._nodes_seen = nodes_seen
        if changed is None:
            self._combine_all(len(nodes))
        else:
            for row in dict.fromkeys(changed):
                self._combine_row(row)

    def _matters(self, plugin: str) -> bool:
        """Tell whether a remembered answer is more than "go on" or "skip", which the state already holds."""
        said = self.pre_filter[plugin]
        return not (said is None or (isinstance(said, Status) and said.code == Code.SKIP))

    def _combine_all(self, size: int) -> None:
        self.numbers = np.zeros(size, dtype=np.int32)
        for part in self._filters:
            if part.rejects_any:
                self.numbers = np.where(self.numbers == FEASIBLE, part.numbers, self.numbers)
        self.feasible = np.equal(self.numbers, FEASIBLE)
        self.feasible_count = int(np.count_nonzero(self.feasible))
        self.feasible_version += 1
        self._totals_stale = True

    def _combine_row(self, row: int) -> None:
        number = FEASIBLE
        for part in self._filters:
            if part.rejects_any and (number := int(part.numbers[row])) != FEASIBLE:
                break
        self.numbers[row] = number
        self._stale_rows[row] = None
        is_feasible = number == FEASIBLE
        if is_feasible != bool(self.feasible[row]):
            self.feasible[row] = is_feasible
            self.feasible_count += 1 if is_feasible else -1
            self.feasible_version += 1
            if self._shares is None or any(
                not isinstance(share.column, int) for share in self._shares if share.normalizes
            ):
                self._totals_stale = True

    def shares(self, pod: Pod, nodes: NodeTable) -> list[Share]:
        """Return the row-local score plugins that take part, with raw scores brought up to date."""
        if self._shares is None:
            self._shares = self._new_shares(pod, nodes)
            self._pod_shares = [share for share in self._shares if share.plugin.looks_at_pods]
            self._totals_stale = True
        else:
            node_changes = self._columns.node_changes.position
            for share in self._shares if self._nodes_rated != node_changes else self._pod_shares:
                share.part.rate(pod, nodes)
            for share in self._shares:
                # The column has to be made anew, unless it is the raw scores, which follow their plugin by themselves.
                if share.version != share.part.version and (share.normalizes or share.column is not share.part.raw):
                    self._totals_stale = True
        self._nodes_rated = self._columns.node_changes.position
        return self._shares

    def _new_shares(self, pod: Pod, nodes: NodeTable) -> list[Share]:
        for part in self._only_pre_scoring:
            part.prepare_scores(pod, nodes)
        shares = []
        for part, plugin in self._scorers:
            part.rate(pod, nodes)
            if not part.skips_score:
                shares.append(Share(part, plugin, self.profile.weights[plugin.name], normalizes(plugin)))
        return shares

    def standing_totals(self, pod: Pod, nodes: NodeTable) -> IntArray:
        """Return the weighted sums over the row-local plugins; rows that are not feasible have less than none."""
        shares = self.shares(pod, nodes)
        if self._totals_stale:
            rows = None if self.feasible_count == len(nodes) else np.flatnonzero(self.feasible)
            for share in shares:
                share.column = share_column(share, self.cycle, pod, nodes, rows)
                share.version = share.part.version
            self.totals = sum_of_shares(shares, len(nodes))
            self.totals[~self.feasible] = INFEASIBLE_TOTAL
            self._totals_stale = False
            self._order.forget()
        else:
            for row in self._stale_rows:
                self.totals[row] = total = self._total_of(row, shares)
                self._order.put(row, total)
        self._stale_rows.clear()
        return self.totals

    def winner(self, ranks: IntArray, size: int) -> int:
        """Return the row with the highest standing total; among equals, the one whose rank is lowest."""
        return self._order.best(self.totals, ranks, size)

    def _total_of(self, row: int, shares: list[Share]) -> int:
        if not self.feasible[row]:
            return INFEASIBLE_TOTAL
        total = 0
        for share in shares:
            score = share.column if isinstance(share.column, int) else int(share.column[row])
            if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                check_range(share.plugin.name, np.array([score]))
            total += share.weight * score
        return total

    def totals_over(self, cycle: CycleState, pod: Pod, nodes: NodeTable, feasible: BoolArray) -> IntArray:
        """Return the same over another set of feasible rows, as a column of the caller's own."""
        rows = None if feasible.all() else np.flatnonzero(feasible)
        shares = [
            Share(
                share.part, share.plugin, share.weight, share.normalizes, share_column(share, cycle, pod, nodes, rows)
            )
            for share in self.shares(pod, nodes)
        ]
        totals = sum_of_shares(shares, len(nodes))
        totals[~feasible] = INFEASIBLE_TOTAL
        return totals


def share_column(share: Share, cycle: CycleState, pod: Pod, nodes: NodeTable, rows: IntArray | None) -> IntArray | int:
    """Return a plugin's normalised scores over the feasible rows (``None``: all); other rows are left at 0."""
    part = share.part
    level = part.constant
    if not share.normalizes:
        if part.low < MIN_NODE_SCORE or part.high > MAX_NODE_SCORE:
            # Once seen on some row, perhaps not there any more.
            check_range(share.plugin.name, part.raw)
        return part.raw if level is None else level
    if level is not None and share.plugin.normalizes_by_value and len(nodes):
        if part.levelled is None or part.levelled[0] != level:
            one = np.array([level], dtype=np.int64)
            window = nodes.take(np.zeros(1, dtype=np.int64))
            part.levelled = level, int(normalized_scores(share.plugin, cycle, pod, window, one)[0])
        return part.levelled[1]
    among = part.raw if rows is None else part.raw[rows]
    window = nodes if rows is None else nodes.take(rows)
    normalized = normalized_scores(share.plugin, cycle, pod, window, among.copy())
    if rows is None:
        return normalized
    whole = np.zeros(len(part.raw), dtype=np.int64)
    whole[rows] = normalized
    return whole


def sum_of_shares(shares: list[Share], size: int) -> IntArray:
    """Add up the weighted scores of all plugins."""
    base = sum(share.weight * share.column for share in shares if isinstance(share.column, int))
    totals = np.full(size, base, dtype=np.int64)
    for share in shares:
        if not isinstance(share.column, int):
            totals += share.column if share.weight == 1 else share.weight * share.column
    return totals


class Answers:
    """The standing answers of one profile; those least recently used are dropped."""

    def __init__(self, profile: Profile, cache: Cache) -> None:
        self._profile = profile
        self._cache = cache
        signers = [p for p in profile.judges if not p.looks_at_cluster and _overrides(p, "sign")]
        self._shape_signers = tuple(plugin for plugin in signers if plugin.signs_shape)
        self._pod_signers = tuple(plugin for plugin in signers if not plugin.signs_shape)
        self._signers = self._shape_signers + self._pod_signers
        self._by_shape: dict[Shape, Signature] = {}
        self._timed = tuple(p for p in self._signers if _overrides(p, "epoch"))
        self._epoch: Hashable = None
        self._structure = -1
        self._reset()

    def _reset(self) -> None:
        self._statuses = Statuses()
        self._answers: OrderedDict[Hashable, Answer] = OrderedDict()
        self._parts: OrderedDict[Hashable, PluginAnswer] = OrderedDict()

    def __len__(self) -> int:
        return len(self._answers)

    def for_pod(self, pod: Pod) -> Answer:
        """Return what is known of every row for this pod, brought up to date."""
        self._drop_what_no_longer_holds()
        signature = self._signature(pod)
        nodes, changes = self._cache.nodes, self._cache.columns.changes
        answer = self._find(signature)
        if answer is None:
            answer = self._new(signature, pod, nodes)
            changed = None
        else:
            self._answers.move_to_end(signature)
            changed = changes.since(answer.position)
            if changed is not None and len(changed) > len(nodes):
                changed = None
        if changed is None or changed:
            answer.judge(pod, nodes, changed)
        answer.position = changes.position
        return answer

    def unjudged(self, pod: Pod) -> Answer | None:
        """Return the answer that could not be brought up to date, if there is one: all but its verdicts holds."""
        return self._find(self._signature(pod))

    def _signature(self, pod: Pod) -> Signature:
        signed = None if pod.node_name else self._by_shape.get(pod.shape)
        if signed is None:
            signed = ask_each("Sign", self._shape_signers, methodcaller("sign", pod))
            if not pod.node_name:
                self._remember(pod.shape, signed)
        if self._pod_signers:
            return signed + ask_each("Sign", self._pod_signers, methodcaller("sign", pod))
        return signed

    def _remember(self, shape: Shape, signed: Signature) -> None:
        if len(self._by_shape) >= MOST_SHAPES:
            self._by_shape.clear()
        self._by_shape[shape] = signed

    def _find(self, signature: Signature) -> Answer | None:
        try:
            return self._answers.get(signature)
        except TypeError:
            for plugin, sign in zip(self._signers, signature, strict=True):
                ask("Sign", plugin, hash, sign)
            raise

    def _drop_what_no_longer_holds(self) -> None:
        """Start anew when rows stand for other nodes, or something outside pods and rows has changed."""
        try:
            epoch = ask_each("Epoch", self._timed, _EPOCH)
        except PluginError:
            self._reset()
            raise
        if self._structure != self._cache.structure or len(self._statuses) > MOST_STATUSES:
            self._reset()
        elif epoch != self._epoch:
            old = self._epoch if isinstance(self._epoch, tuple) else ()
            gone = {p.name for p, was, now in zip(self._timed, old, epoch, strict=False) if was != now}
            self._answers.clear()
            self._by_shape.clear()
            self._parts = OrderedDict((key, part) for key, part in self._parts.items() if part.plugin.name not in gone)
        self._structure, self._epoch = self._cache.structure, epoch

    def _new(self, signature: Signature, pod: Pod, nodes: NodeTable) -> Answer:
        parts = {
            plugin.name: self._part(plugin, sign, pod, nodes)
            for plugin, sign in zip(self._signers, signature, strict=True)
            if sign is not None
        }
        answer = self._answers[signature] = Answer(self._profile, parts, self._cache.columns, self._statuses)
        most = max(4, min(MOST_ANSWERS, MEMORY_BUDGET // (BYTES_PER_ROW * max(1, len(nodes)))))
        while len(self._answers) > most:
            self._answers.popitem(last=False)
        while len(self._parts) > most + len(parts):
            self._parts.popitem(last=False)
        return answer

    def _part(self, plugin: Plugin, sign: Hashable, pod: Pod, nodes: NodeTable) -> PluginAnswer:
        part = self._parts.get((plugin.name, sign))
        if part is None:
            part = self._parts[plugin.name, sign] = PluginAnswer(
                plugin, self._profile, self._cache.columns, self._statuses
            )
            part.prepare(pod, nodes)
        else:
            self._parts.move_to_end((plugin.name, sign))
        return part


def judge_fresh(answer: Answer, cycle: CycleState, pod: Pod, nodes: NodeTable) -> tuple[IdArray, BoolArray, int]:
    """Add the verdicts of the plugins that are asked in every cycle to the standing ones."""
    active = [(index, plugin) for index, plugin in answer.fresh_filters if plugin.name not in cycle.skipped_filters]
    if not active:
        return answer.numbers, answer.feasible, answer.feasible_count
    numbers = answer.numbers.copy()
    for index, plugin in active:
        alive = _not_rejected_before(answer, numbers, index)
        apply_filter(plugin, cycle, pod, nodes, answer.statuses, numbers, alive)
    feasible = np.equal(numbers, FEASIBLE)
    return numbers, feasible, int(np.count_nonzero(feasible))


def _not_rejected_before(answer: Answer, numbers: IdArray, index: int) -> BoolArray:
    """Find the rows no filter before this one turned down: a later standing rejection gives way to this plugin's."""
    if not numbers.any():
        return np.ones(len(numbers), dtype=np.bool_)
    place = {plugin.name: at for at, plugin in enumerate(answer.profile.filter)}
    later = [True]
    for number in range(1, len(answer.statuses)):
        status = answer.statuses[number]
        later.append(status is not None and place[status.plugin] > index)
    return np.array(later, dtype=np.bool_)[numbers]


def _overrides(plugin: Plugin, method: str) -> bool:
    return getattr(type(plugin), method) is not getattr(Plugin, method)
