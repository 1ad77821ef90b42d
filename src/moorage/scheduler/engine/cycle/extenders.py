"""Calls of extenders during a cycle: they filter and score the feasible nodes."""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np
import structlog

from moorage.common.errors import ExtenderError
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode, OneNode, SearchResult, SeveralNodes
from moorage.scheduler.engine.extender import Extender, Filtered
from moorage.scheduler.engine.statuses import RowStatuses
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import MAX_NODE_SCORE, Status
from moorage.scheduler.queue.hints import EXTENDER
from moorage.scheduler.state.cache import Cache

MAX_EXTENDER_SCORE: Final = 10

log = structlog.get_logger(__name__)


class Extending:
    """Runs the extenders of a scheduler on its cache."""

    def __init__(self, extenders: Sequence[Extender], cache: Cache) -> None:
        self._extenders = extenders
        self._cache = cache

    async def narrow(self, result: SearchResult) -> SearchResult | ExtendedNodes:
        """Filter by every interested extender, in the order of the last one; ExtenderError if a required one fails."""
        interested = [e for e in self._extenders if e.is_filter and e.is_interested_in(result.pod)]
        if not interested or isinstance(result, NoNode):
            return result
        nodes = before = self.in_order(result)
        earlier_statuses, statuses = result.diagnosis.statuses, dict[str, Status]()
        for extender in interested:
            if not nodes:
                break
            try:
                answer = await extender.filter(result.pod, nodes)
                nodes = keep_nodes(extender, nodes, answer)
            except ExtenderError as error:
                if not extender.is_ignorable:
                    raise
                pod = result.pod.key
                log.warning("extender ignored in filtering", extender=extender.name, pod=pod, error=str(error))
            else:
                # Unresolvable rejections take precedence.
                statuses |= {name: Status.unschedulable(reason) for name, reason in answer.failed.items()}
                statuses |= {name: Status.unresolvable(reason) for name, reason in answer.unresolvable.items()}
        if len(nodes) != len(before):
            result.diagnosis.unschedulable_plugins.add(EXTENDER)
        if statuses:
            result.diagnosis.statuses = NodeStatuses({**earlier_statuses.explicit, **statuses}, earlier_statuses.absent)
        if not nodes:
            for status in earlier_statuses.counts() if isinstance(earlier_statuses, RowStatuses) else ():
                result.diagnosis.add_rejection(status)
            return NoNode(result.pod, result.cycle, result.diagnosis)
        if len(nodes) == 1 or isinstance(result, OneNode):
            is_nominated = isinstance(result, OneNode) and result.is_nominated
            return OneNode(result.pod, result.cycle, result.diagnosis, nodes[0], is_nominated)
        rows = np.array([info.row for info in nodes], dtype=np.int64)
        result.feasible, result.feasible_version = np.zeros_like(result.feasible), None
        result.feasible[rows] = True
        result.count = len(nodes)
        # Returned node objects have no pods, as in upstream. Extenders that return names keep the pods of the nodes.
        stand_ins = {info.row: info for info in nodes if info is not self._cache.nodes[info.row]}
        if not stand_ins:
            return ExtendedNodes(result, rows)
        return ExtendedNodes(result, rows, NodeTable.of(*(stand_ins.get(info.row, info) for info in self._cache.nodes)))

    def in_order(self, result: OneNode | SeveralNodes) -> list[NodeInfo]:
        """Return the feasible nodes in search order."""
        if isinstance(result, OneNode):
            return [result.node]
        order = np.roll(self._cache.order, -result.start) if result.order is None else result.order
        return [self._cache.nodes[int(row)] for row in order[result.feasible[order]]]

    async def score(self, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int] | None:
        """Return the weighted scores of extenders by node name, or ``None`` if no extender is interested.

        Extenders that fail are ignored. A node without a score has no entry.
        """
        interested = [e for e in self._extenders if e.is_interested_in(pod)]
        if not interested:
            return None
        totals: dict[str, int] = {}
        for scores in await asyncio.gather(*(self._prioritize(e, pod, nodes) for e in interested)):
            for name, score in scores.items():
                totals[name] = totals.get(name, 0) + score
        return totals

    @staticmethod
    async def _prioritize(extender: Extender, pod: Pod, nodes: Sequence[NodeInfo]) -> dict[str, int]:
        if not extender.is_prioritizer:
            return dict.fromkeys((node.name for node in nodes), 0)
        try:
            scores = await extender.prioritize(pod, nodes)
        except ExtenderError as error:
            log.warning("extender ignored in scoring", extender=extender.name, pod=pod.key, error=str(error))
            return {}
        scale = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
        return {name: score * scale for name, score in scores.items()}


def keep_nodes(extender: Extender, nodes: Sequence[NodeInfo], answer: Filtered) -> list[NodeInfo]:
    """Return the nodes an extender kept, in its order; returned node objects replace the cached ones."""
    by_name = {info.name: info for info in nodes}
    feasible = []
    for name in answer.names:
        info = by_name.get(name)
        if info is None:
            raise ExtenderError(
                f'extender "{extender.name}" claims a filtered node "{name}" which is not found in the input node list'
            )
        if (node := answer.stand_ins.get(name)) is not None:
            row, info = info.row, NodeInfo(node)
            info.move_to(row)
        feasible.append(info)
    return feasible
