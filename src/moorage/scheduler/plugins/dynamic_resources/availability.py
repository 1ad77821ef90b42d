"""The nodes where allocated claims of a pod can be used."""

from typing import Final

import numpy as np

from moorage.kube.api.selectors import NODE_NAME_FIELD, NodeMatcher, NodeTermMatcher
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, Status
from moorage.scheduler.plugins.dynamic_resources.device_state import DeviceState
from moorage.scheduler.plugins.dynamic_resources.devices.pools import OPTIONAL_NODE_OPERATIONS

NOT_AVAILABLE: Final = Status.unresolvable("resourceclaim not available on the node")


def unprepared(state: DeviceState) -> Status | None:
    """Return the status of nodes without the feature that a pending allocation of the group requires."""
    if not state.pending_skips:
        return None
    claim = state.claims[state.pending_skips[0]]
    return Status.unresolvable(
        f"resource claim {claim.key} allocation requires {OPTIONAL_NODE_OPERATIONS} feature on the node"
    )


def unavailable_on(state: DeviceState, info: NodeInfo) -> set[int]:
    """Return the indexes of the claims that cannot be used on a node."""
    return unreachable_from(state, info) | state.stuck


def unreachable_from(state: DeviceState, info: NodeInfo) -> set[int]:
    """Return the indexes of the claims whose devices a node does not reach."""
    away = {index for index, matcher in state.matchers.items() if not matcher.matches(info.labels, info.name)}
    if state.skipping and OPTIONAL_NODE_OPERATIONS not in info.node.status.declared_features:
        away |= state.skipping
    return away


def unavailable_after(state: DeviceState, statuses: NodeStatuses, nodes: NodeTable) -> set[int]:
    """Return the indexes of the claims for which a node was rejected in the final statuses.

    This reads the final statuses instead of recording rejections in Filter: a node rejected for a claim does
    not count if kube-scheduler never checks the claim there, for example since a nominated pod fills the node.
    """
    candidates = state.stuck | state.skipping | state.matchers.keys()
    unavailable: set[int] = set()
    for name, status in statuses.explicit.items() if candidates else ():
        if status.reasons == NOT_AVAILABLE.reasons and (info := nodes.find(name)) is not None:
            unavailable |= unavailable_on(state, info)
            if unavailable == candidates:
                break
    return unavailable


def unavailable_on_nodes(state: DeviceState, nodes: NodeTable) -> dict[int, BoolArray]:
    """Return for each restricted claim the nodes where it cannot be used."""
    masks = {index: np.ones(len(nodes), dtype=np.bool_) for index in state.stuck}
    for index, matcher in state.matchers.items():
        if index not in masks:
            masks[index] = ~_matching(matcher, nodes)
    if state.skipping:
        lacking = nodes.declared_features.where(lambda declared: OPTIONAL_NODE_OPERATIONS not in declared)
        for index in state.skipping:
            masks[index] = masks[index] | lacking if index in masks else lacking
    return masks


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
        # Look up by name: an allocation of local devices names one node of thousands.
        rows = [info.row for name in requirement.values if (info := nodes.find(name)) is not None]
        has_name = np.isin(nodes.rows, rows)
        mask &= has_name if requirement.operator == "In" else ~has_name
    return mask
