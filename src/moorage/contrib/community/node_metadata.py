"""NodeMetadata: prefer nodes by a number or a time in a label or an annotation."""

from collections.abc import Hashable
from typing import Final

import numpy as np

from moorage.contrib.community.scaling import spread
from moorage.kube.api.pod import Pod
from moorage.scheduler.config.contrib_args import HIGHEST, LABEL, NEWEST, NUMBER, NodeMetadataArgs
from moorage.scheduler.config.durations import GoLayout
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.plugin import DependsOn, ScorePlugin
from moorage.scheduler.framework.status import MIN_NODE_SCORE, IntArray

UNKNOWN: Final = int(np.iinfo(np.int64).min)
"""The raw score of a node without a valid value."""
_STEPS: Final = 1000
"""Numbers count to the thousandth, and times to the millisecond."""
_LIMIT: Final = 2**53


class NodeMetadata(ScorePlugin):
    """Score the value of a node: the best feasible node has 100, the worst 1, a node without a value 0."""

    Args = NodeMetadataArgs
    depends_on = DependsOn.NODE
    _signs_template = True
    _normalizes_by_value = True

    def __init__(self, *, args: NodeMetadataArgs) -> None:
        self._key = args.metadata_key
        self._by_label = args.metadata_source == LABEL
        self._layout = None if args.metadata_type == NUMBER else GoLayout.parse(args.timestamp_format)
        self._sign = 1 if args.scoring_strategy in (HIGHEST, NEWEST) else -1
        self._default = self._worth(args.default_value or None, UNKNOWN)

    def sign(self, pod: Pod) -> Hashable:
        return ()

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        meta = node.node.metadata
        metadata = meta.labels if self._by_label else meta.annotations
        return self._worth((metadata or {}).get(self._key), self._default)

    def score_nodes(self, cycle: CycleState, pod: Pod, nodes: NodeTable) -> IntArray:
        if self._by_label:
            return nodes.label(self._key).map(lambda text: self._worth(text, self._default))
        return super().score_nodes(cycle, pod, nodes)

    def normalize_scores(self, cycle: CycleState, pod: Pod, nodes: NodeTable, scores: IntArray) -> IntArray:
        valid_scores = scores[scores != UNKNOWN]
        if not len(valid_scores):
            return np.full_like(scores, MIN_NODE_SCORE)
        lowest, highest = int(valid_scores.min()), int(valid_scores.max())
        scaled = spread(np.maximum(scores, lowest), lowest, highest, onto=MIN_NODE_SCORE + 1)
        return np.where(scores == UNKNOWN, MIN_NODE_SCORE, scaled)

    def _worth(self, text: str | None, otherwise: int) -> int:
        """Return the value of a text; 0 if it is invalid, the default if it is missing."""
        if text is None:
            return otherwise
        try:
            value = float(text) if self._layout is None else self._layout.seconds(text)
        except ValueError:
            return UNKNOWN
        # Neither NaN nor an out-of-range number may become a score.
        return self._sign * int(value * _STEPS) if abs(value) * _STEPS < _LIMIT else UNKNOWN
