"""The plugins that are asked in every cycle, since they look at the whole cluster or sign nothing."""

import numpy as np

from moorage.api.pod import Pod
from moorage.engine.evaluation import rejected_by
from moorage.engine.judgement import IdArray
from moorage.engine.layout import FreshFilter
from moorage.engine.standing import Answer
from moorage.framework.cycle import CycleState
from moorage.framework.nodetable import NodeTable
from moorage.framework.status import BoolArray


def judge_fresh(answer: Answer, cycle: CycleState, pod: Pod, nodes: NodeTable) -> tuple[IdArray, BoolArray, int]:
    """Add their verdicts to the standing ones; as long as they turn nothing down, those are returned as they are."""
    numbers, feasible = answer.numbers, answer.feasible
    for asked in answer.layout.fresh_filters:
        if asked.plugin.name in cycle.skipped_filters:
            continue
        alive = _not_rejected_before(asked, answer, numbers, feasible)
        for rejected, number in rejected_by(asked.plugin, cycle, pod, nodes, answer.statuses, alive):
            numbers = numbers.copy()
            np.putmask(numbers, rejected, number)
            feasible = feasible & ~rejected
    if feasible is answer.feasible:
        return numbers, feasible, answer.feasible_count
    return numbers, feasible, int(np.count_nonzero(feasible))


def _not_rejected_before(asked: FreshFilter, answer: Answer, numbers: IdArray, feasible: BoolArray) -> BoolArray:
    """Find the rows no filter before this one turned down: a later standing rejection gives way to this plugin's."""
    statuses = answer.statuses
    if asked.kept_after.isdisjoint(statuses.plugins):
        return feasible
    later = [True]
    for number in range(1, len(statuses)):
        status = statuses[number]
        later.append(status is not None and status.plugin in asked.kept_after)
    return np.array(later, dtype=np.bool_)[numbers]
