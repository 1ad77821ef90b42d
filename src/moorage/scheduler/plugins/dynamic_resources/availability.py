"""Where the claims of a pod that have their devices already can be used."""

from typing import Final

import numpy as np

from moorage.kube.api.selectors import NODE_NAME_FIELD, NodeMatcher, NodeTermMatcher
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, Status
from moorage.scheduler.plugins.dynamic_resources.device_state import DeviceState
from moorage.scheduler.plugins.dynamic_resources.devices.pools import SKIPPING

NOT_AVAILABLE: Final = Status.unresolvable("resourceclaim not available on the node")


def unprepared(state: DeviceState) -> Status | None:
    """Return the status of nodes that have to do work for devices which another pod of the group was just given."""
    if not state.pending_skips:
        return None
    claim = state.claims[state.pending_skips[0]]
    return Status.unresolvable(f"resource claim {claim.key} allocation requires {SKIPPING} feature on the node")


def unavailable_on(state: DeviceState, info: NodeInfo) -> set[int]:
    """Return the places of the claims that cannot be used on a node."""
    return unreachable_from(state, info) | state.stuck


def unreachable_from(state: DeviceState, info: NodeInfo) -> set[int]:
    """Return the places of the claims whose devices a node does not reach."""
    away = {place for place, matcher in state.matchers.items() if not matcher.matches(info.labels, info.name)}
    if state.skipping and SKIPPING not in info.node.status.declared_features:
        away |= state.skipping
    return away


def unavailable_after(state: DeviceState, statuses: NodeStatuses, nodes: NodeTable) -> set[int]:
    """Return the places of the claims for which some node was rejected at the end of an attempt.

    Read from the final statuses and not noted while filtering: a node that would have been rejected for a claim does
    not count when kube-scheduler never asks about the claim there, as where a nominated pod leaves no room.
    """
    candidates = state.stuck | state.skipping | state.matchers.keys()
    found: set[int] = set()
    for name, status in statuses.explicit.items() if candidates else ():
        if status.reasons == NOT_AVAILABLE.reasons and (info := nodes.find(name)) is not None:
            found |= unavailable_on(state, info)
            if found == candidates:
                break
    return found


def unavailable_on_nodes(state: DeviceState, nodes: NodeTable) -> dict[int, BoolArray]:
    """Return for each claim that matters the nodes on which it cannot be used."""
    found = {place: np.ones(len(nodes), dtype=np.bool_) for place in state.stuck}
    for place, matcher in state.matchers.items():
        if place not in found:
            found[place] = ~_matching(matcher, nodes)
    if state.skipping:
        lacking = nodes.declared_features.where(lambda declared: SKIPPING not in declared)
        for place in state.skipping:
            found[place] = found[place] | lacking if place in found else lacking
    return found


def _matching(matcher: NodeMatcher, nodes: NodeTable) -> BoolArray:
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for term in matcher.terms:
        if not term.matches_nothing:
            mask |= _satisfying(term, nodes)
    return mask


def _satisfying(term: NodeTermMatcher, nodes: NodeTable) -> BoolArray:
    mask = np.ones(len(nodes), dtype=np.bool_)
    for requirement in term.expressions:
        mask &= nodes.label(requirement.key).where(requirement.accepts)
    for requirement in term.fields:
        if requirement.key != NODE_NAME_FIELD:
            mask &= requirement.accepts(None)
            continue
        # A look-up by name: an allocation of local devices names one node of thousands.
        rows = [info.row for name in requirement.values if (info := nodes.find(name)) is not None]
        named = np.isin(nodes.rows, rows)
        mask &= named if requirement.operator == "In" else ~named
    return mask
