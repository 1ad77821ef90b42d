"""What a decision tells about each node: why it was turned down, or how it was rated, plugin by plugin."""

import numpy as np

from moorage.engine.diagnosis import NOT_EXAMINED
from moorage.engine.evaluation import cycle_before_scoring, rate_nodes
from moorage.engine.feasibility import Found
from moorage.engine.placement import Placement
from moorage.framework.status import Status
from moorage.simulator.decisions import NodeEntry, PluginScore, Rejection
from moorage.state.cache import Cache


def node_entries(placement: Placement, cache: Cache, found: Found) -> dict[str, NodeEntry]:
    """Describe every node of the cluster, in visiting order; one that the search did not come to is left out."""
    if found.promised is not None:
        return {found.promised.name: NodeEntry()}
    scored = _scores(placement, cache, found)
    statuses = found.diagnosis.statuses
    entries: dict[str, NodeEntry] = {}
    for row in cache.order:
        name = cache.nodes[int(row)].name
        if name in scored:
            entries[name] = scored[name]
        elif (status := statuses[name]) is not NOT_EXAMINED:
            entries[name] = _rejected(status)
    return entries


def rejection(status: Status) -> Rejection:
    """Describe the status with which a pre-filter ended the attempt."""
    return Rejection(plugin=status.plugin, code=status.code.label, reasons=status.reasons)


def _rejected(status: Status) -> NodeEntry:
    return NodeEntry(plugin=status.plugin, code=status.code.label, reasons=status.reasons)


def _scores(placement: Placement, cache: Cache, found: Found) -> dict[str, NodeEntry]:
    """Rate the feasible nodes from nothing, so that what is shown does not lean on what stood."""
    rows = np.roll(cache.order, -found.start)
    rows = rows[found.feasible[rows]]
    if len(rows) == 0:
        return {}
    window = cache.nodes.take(rows)
    if len(rows) == 1:
        return {window[0].name: NodeEntry()}
    cycle = cycle_before_scoring(placement.profile, found.pod, cache.nodes, window)
    ratings = rate_nodes(placement.profile, cycle, found.pod, window)
    return {
        name: NodeEntry(
            total=int(ratings.totals[place]),
            scores={
                item.plugin: PluginScore(
                    int(item.raw[place]), int(item.normalized[place]), int(item.weight * item.normalized[place])
                )
                for item in ratings.by_plugin
            },
        )
        for place, name in enumerate(window.names)
    }
