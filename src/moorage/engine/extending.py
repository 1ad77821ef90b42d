"""Asking extenders during a cycle: which of the feasible nodes will do, and which is the best."""

import asyncio
from collections.abc import Sequence
from typing import Final

import numpy as np
import structlog

from moorage.api.pod import Pod
from moorage.engine.extenders import Extender
from moorage.engine.feasibility import Extended, Found
from moorage.engine.statuses import RowStatuses
from moorage.errors import ExtenderError
from moorage.framework.filtered import Filtered
from moorage.framework.node_statuses import NodeStatuses
from moorage.framework.nodeinfo import NodeInfo
from moorage.framework.nodetable import NodeTable
from moorage.framework.status import MAX_NODE_SCORE, Status
from moorage.queue.hints import EXTENDER
from moorage.state.cache import Cache

MAX_EXTENDER_SCORE: Final = 10

log = structlog.get_logger(__name__)


class Extending:
    """The extenders of a scheduler at work on its cache."""

    def __init__(self, extenders: Sequence[Extender], cache: Cache) -> None:
        self._extenders = extenders
        self._cache = cache

    def __bool__(self) -> bool:
        return bool(self._extenders)

    async def narrow(self, found: Found) -> None:
        """Leave of the feasible nodes those that every interested extender agrees with.

        ExtenderError if one that may not be ignored fails.
        """
        interested = [e for e in self._extenders if e.is_filter and e.is_interested_in(found.pod)]
        if not interested or not found.count:
            return
        nodes = before = self._in_found_order(found)
        statuses: dict[str, Status] = {}
        for extender in interested:
            if not nodes:
                break
            nodes, refused = await self._filter(extender, found.pod, nodes)
            statuses |= refused
        self._settle(found, before, nodes, statuses)

    async def _filter(
        self, extender: Extender, pod: Pod, nodes: list[NodeInfo]
    ) -> tuple[list[NodeInfo], dict[str, Status]]:
        try:
            answer = await extender.filter(pod, nodes)
            return kept(extender, nodes, answer), refusals(answer)
        except ExtenderError as error:
            if not extender.is_ignorable:
                raise
            log.warning("extender left out of filtering", extender=extender.name, pod=pod.key, error=str(error))
            return nodes, {}

    def _in_found_order(self, found: Found) -> list[NodeInfo]:
        order = np.roll(self._cache.order, -found.start)
        return [self._cache.nodes[int(row)] for row in order[found.feasible[order]]]

    def _as_extenders_left_them(self, found: Found) -> list[NodeInfo]:
        if found.extended is None:
            return self._in_found_order(found)
        table = found.extended.scored or self._cache.nodes
        return [table[int(row)] for row in found.extended.rows]

    def _settle(self, found: Found, before: list[NodeInfo], nodes: list[NodeInfo], statuses: dict[str, Status]) -> None:
        rows = np.array([info.row for info in nodes], dtype=np.int64)
        found.feasible = np.zeros_like(found.feasible)
        found.feasible[rows] = True
        found.count = len(nodes)
        found.extended = Extended(rows, self._as_scored(nodes))
        known = found.diagnosis.statuses
        if statuses:
            found.diagnosis.statuses = NodeStatuses({**known.explicit, **statuses}, known.absent)
        if len(nodes) != len(before):
            found.diagnosis.unschedulable_plugins.add(EXTENDER)
        if not nodes and isinstance(known, RowStatuses):
            for status in known.distinct():
                found.diagnosis.blame(status)

    def _as_scored(self, nodes: list[NodeInfo]) -> NodeTable | None:
        """Return the cluster as score plugins see it, if extenders sent nodes back: those are without their pods.

        Upstream's quirk, and kept: whoever wants nodes rated by what runs on them lets the extender answer by name.
        """
        stand_ins = {info.row: info for info in nodes if info is not self._cache.nodes[info.row]}
        if not stand_ins:
            return None
        return NodeTable.of(*(stand_ins.get(info.row, info) for info in self._cache.nodes))

    async def rate(self, found: Found) -> dict[str, int] | None:
        """Return what extenders add to the nodes' totals, by name; ``None`` if none of them is interested.

        One that fails is left out. A node that no extender mentions has no entry.
        """
        interested = [e for e in self._extenders if e.is_interested_in(found.pod)]
        if not interested:
            return None
        nodes = self._as_extenders_left_them(found)
        totals: dict[str, int] = {}
        for scores in await asyncio.gather(*(self._prioritize(e, found.pod, nodes) for e in interested)):
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
            log.warning("extender left out of rating", extender=extender.name, pod=pod.key, error=str(error))
            return {}
        scale = extender.weight * (MAX_NODE_SCORE // MAX_EXTENDER_SCORE)
        return {name: score * scale for name, score in scores.items()}


def kept(extender: Extender, nodes: Sequence[NodeInfo], answer: Filtered) -> list[NodeInfo]:
    """Return the nodes an extender kept, in its order; those it sent back stand in for ours."""
    known = {info.name: info for info in nodes}
    left = []
    for name in answer.names:
        info = known.get(name)
        if info is None:
            raise ExtenderError(
                f'extender "{extender.name}" claims a filtered node "{name}" which is not found in the input node list'
            )
        if (node := answer.stand_ins.get(name)) is not None:
            row, info = info.row, NodeInfo(node)
            info.row = row
        left.append(info)
    return left


def refusals(answer: Filtered) -> dict[str, Status]:
    """Return what an extender said of the nodes it turned down; what cannot be resolved wins."""
    failed = {name: Status.unschedulable(reason) for name, reason in answer.failed.items()}
    return failed | {name: Status.unresolvable(reason) for name, reason in answer.unresolvable.items()}
