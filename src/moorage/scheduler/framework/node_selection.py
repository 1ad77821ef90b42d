"""Node selectors on columns, evaluated once per distinct label value instead of once per node; and their masks.

A mask of ``None`` is constant, and nothing is computed for it.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from moorage.kube.api.selectors import NODE_NAME_FIELD, NodeMatcher, NodeTermMatcher, Requirement
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray

ABSENT: Final = (None,)


def matching_nodes(matcher: NodeMatcher, nodes: NodeTable) -> BoolArray:
    """Find the nodes of a window that a node selector selects."""
    if len(matcher.terms) == 1:
        return nodes_matching_term(matcher.terms[0], nodes)
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for term in matcher.terms:
        mask |= nodes_matching_term(term, nodes)
    return mask


def nodes_matching_term(term: NodeTermMatcher, nodes: NodeTable) -> BoolArray:
    """Find the nodes of a window that satisfy one term of a node selector."""
    if term.matches_nothing:
        return np.zeros(len(nodes), dtype=np.bool_)
    masks = [nodes_meeting(requirement, nodes) for requirement in term.expressions]
    masks += [_nodes_named(requirement, nodes) for requirement in term.fields]
    combined = all_of(masks)
    return np.ones(len(nodes), dtype=np.bool_) if combined is None else combined


def nodes_meeting(requirement: Requirement, nodes: NodeTable) -> BoolArray:
    """Find the nodes of a window whose label satisfies one expression."""
    column = nodes.label(requirement.key)
    # Four operators need no walk over the distinct values, which for host names are as many as there are nodes.
    match requirement.operator:
        case "In":
            return column.is_in(requirement.values)
        case "NotIn":
            return ~column.is_in(requirement.values)
        case "Exists":
            return ~column.is_in(ABSENT)
        case "DoesNotExist":
            return column.is_in(ABSENT)
        case _:
            return column.where(requirement.accepts)


def _nodes_named(requirement: Requirement, nodes: NodeTable) -> BoolArray:
    """Find the nodes whose name satisfies an expression; every other field is absent."""
    if requirement.key != NODE_NAME_FIELD:
        return np.full(len(nodes), requirement.accepts(None))
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for name in requirement.values:
        info = nodes.find(name)
        if info is not None:
            mask |= nodes.rows == info.row
    return ~mask if requirement.operator == "NotIn" else mask


def all_of(masks: Iterable[BoolArray | None]) -> BoolArray | None:
    """Return where all masks are true; ``None`` is true everywhere."""
    combined: BoolArray | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


def any_of(masks: Iterable[BoolArray | None]) -> BoolArray | None:
    """Return where any mask is true; ``None`` is true nowhere."""
    combined: BoolArray | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined | mask
    return combined


def but_not(mask: BoolArray, without: BoolArray | None) -> BoolArray:
    """Return where the first mask is true and the second is not; ``None`` is true nowhere."""
    return mask if without is None else mask & ~without
