"""PodGroupPodsCount: prefer placements that fit more pods of a group."""

from collections.abc import Sequence

import numpy as np

from moorage.common.errors import MoorageError
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.group_plugins import PlacementScorePlugin
from moorage.scheduler.framework.groups import GroupTree, Placement
from moorage.scheduler.framework.status import MAX_NODE_SCORE, IntArray


class PodGroupPodsCount(PlacementScorePlugin):
    """Count the scheduled pods and the pods that a placement fits."""

    uses_nodes = False

    def score_placements(self, cycle: CycleState, group: GroupTree, placements: Sequence[Placement]) -> IntArray:
        scheduled_count = sum(1 for _ in group.all_scheduled)
        return np.array([scheduled_count + len(placement.proposals) for placement in placements], dtype=np.int64)

    def normalize_placement_scores(
        self, cycle: CycleState, group: GroupTree, placements: Sequence[Placement], scores: IntArray
    ) -> IntArray:
        top = int(scores.max(initial=0))
        if top == 0:
            raise MoorageError("no pods from pod group are assigned to any of the candidate placements")
        return scores * MAX_NODE_SCORE // top
