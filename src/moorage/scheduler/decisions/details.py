"""What a decision says about each node: why it was rejected, or how it was scored, plugin by plugin."""

import numpy as np

from moorage.scheduler.decisions.decision import NodeEntry, PluginScore, Rejection
from moorage.scheduler.engine.cycle.profile_cycle import ProfileCycle
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode, OneNode, SearchResult, SeveralNodes
from moorage.scheduler.engine.outcomes import NOT_EXAMINED
from moorage.scheduler.engine.reference import score_all
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Status


def node_entries(cycle: ProfileCycle, found: SearchResult | ExtendedNodes) -> dict[str, NodeEntry]:
    """Describe every node of the cluster, in visiting order; one that the search did not come to is left out."""
    table = None
    if isinstance(found, ExtendedNodes):
        table, found = found.table, found.result
    if found.diagnosis.pre_filter is not None:
        return {}
    if isinstance(found, OneNode):
        scored = {found.node.name: NodeEntry()}
        if found.is_nominated:
            return scored
    else:
        scored = {} if isinstance(found, NoNode) else _scores(cycle, found, table or cycle.cache.nodes)
    statuses, nodes = found.diagnosis.statuses, cycle.cache.nodes
    entries: dict[str, NodeEntry] = {}
    scope = found.diagnosis.scope
    for row in cycle.cache.order:
        if scope is not None and not scope.mask[row]:
            continue
        name = nodes[int(row)].name
        if name in scored:
            entries[name] = scored[name]
        elif (status := statuses[name]) is not NOT_EXAMINED:
            entries[name] = NodeEntry(plugin=status.plugin, code=status.code.label, reasons=status.reasons)
    return entries


def rejection(status: Status) -> Rejection:
    """Describe the status with which a pre-filter ended the attempt."""
    return Rejection(plugin=status.plugin, code=status.code.label, reasons=status.reasons)


def _scores(cycle: ProfileCycle, found: SeveralNodes, nodes: NodeTable) -> dict[str, NodeEntry]:
    """Score the feasible nodes from nothing, so that what is shown does not lean on what stood."""
    rows = np.roll(cycle.cache.order, -found.start)
    window = nodes.take(rows[found.feasible[rows]])
    scores = score_all(cycle.profile, found.cycle.clone(), found.pod, window)
    return {
        name: NodeEntry(
            total=int(scores.totals[place]),
            scores={
                item.plugin: PluginScore(
                    int(item.raw[place]), int(item.normalized[place]), int(item.weight * item.normalized[place])
                )
                for item in scores.by_plugin
            },
        )
        for place, name in enumerate(window.names)
    }
