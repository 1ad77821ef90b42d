"""Node selectors on columns, evaluated once per distinct label value instead of once per node, and their masks.

A mask of ``None`` is constant, and nothing is computed for it.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final

import numpy as np

from moorage.kube.api.selectors import (
    MANY,
    NODE_NAME_FIELD,
    NodeMatcher,
    NodeTermMatcher,
    Requirement,
    merge_requirements,
)
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import BoolArray, IntArray

ABSENT: Final = (None,)


def matching_nodes(matcher: NodeMatcher, nodes: NodeTable) -> BoolArray:
    """Find the nodes of a window that a node selector selects."""
    if len(matcher.terms) == 1:
        return nodes_matching_term(matcher.terms[0], nodes)
    if len(matcher.terms) > MANY:
        return weigh_nodes(((term, 1) for term in dict.fromkeys(matcher.terms)), nodes) > 0
    mask = np.zeros(len(nodes), dtype=np.bool_)
    for term in matcher.terms:
        mask |= nodes_matching_term(term, nodes)
    return mask


def weigh_nodes(terms: Iterable[tuple[NodeTermMatcher, int]], nodes: NodeTable) -> IntArray:
    """Add up the weights of the terms that each node of a window satisfies."""
    total = np.zeros(len(nodes), dtype=np.int64)
    everywhere = 0
    by_value: dict[tuple[str, bool], dict[str | None, int]] = {}
    for term, weight in terms:
        requirements = (*term.expressions, *term.fields)
        if len(requirements) == 1 and requirements[0].operator == "In":
            # The terms that name a value of a key are evaluated together: there may be tens of thousands.
            weights = by_value.setdefault((requirements[0].key, bool(term.fields)), {})
            for value in requirements[0].values:
                weights[value] = weights.get(value, 0) + weight
            continue
        if len(requirements) == 1 and not term.fields and not nodes.may_have_label(requirements[0].key):
            # Without an array over all nodes for each of tens of thousands of keys that no node has.
            everywhere += weight if requirements[0].accepts(None) else 0
            continue
        mask = None if term.matches_nothing else _nodes_satisfying(term, nodes)
        if mask is not None:
            total += weight * mask
        elif not term.matches_nothing:
            everywhere += weight
    for (key, is_field), weights in by_value.items():
        if not is_field:
            if nodes.may_have_label(key):
                total += nodes.label(key).map(partial(_weight, weights))
        elif key == NODE_NAME_FIELD:
            total += np.array([weights.get(name, 0) for name in nodes.names], dtype=np.int64)
    return total + everywhere if everywhere else total


def _weight(weights: Mapping[str | None, int], value: str | None) -> int:
    return weights.get(value, 0)


def nodes_matching_term(term: NodeTermMatcher, nodes: NodeTable) -> BoolArray:
    """Find the nodes of a window that satisfy one term of a node selector."""
    if term.matches_nothing:
        return np.zeros(len(nodes), dtype=np.bool_)
    mask = _nodes_satisfying(term, nodes)
    return np.ones(len(nodes), dtype=np.bool_) if mask is None else mask


def _nodes_satisfying(term: NodeTermMatcher, nodes: NodeTable) -> BoolArray | None:
    field_masks = [_nodes_named(item, nodes) for item in _distinct(term.fields)]
    return all_of((nodes_meeting_all(term.expressions, nodes), *field_masks))


def nodes_meeting_all(requirements: tuple[Requirement, ...], nodes: NodeTable) -> BoolArray | None:
    """Find the nodes of a window with labels that satisfy all expressions. ``None`` means all nodes."""
    combined: BoolArray | None = None
    for requirement in _distinct(requirements):
        if not nodes.may_have_label(requirement.key):
            if requirement.accepts(None):
                continue
            return np.zeros(len(nodes), dtype=np.bool_)
        if combined is None:
            combined = nodes_meeting(requirement, nodes)
        elif combined.any():
            combined = combined & nodes_meeting(requirement, nodes)
    return combined


def _distinct(requirements: tuple[Requirement, ...]) -> Iterable[Requirement]:
    return merge_requirements(requirements) if len(requirements) > MANY else requirements


def nodes_meeting(requirement: Requirement, nodes: NodeTable) -> BoolArray:
    """Find the nodes of a window with a label that satisfies one expression."""
    column = nodes.label(requirement.key)
    # No operator walks over the distinct values, which for host names are as many as there are nodes.
    match requirement.operator:
        case "In":
            return column.is_in(requirement.values)
        case "NotIn":
            return ~column.is_in(requirement.values)
        case "Exists":
            return ~column.is_in(ABSENT)
        case "DoesNotExist":
            return column.is_in(ABSENT)
        case "Gt":
            return column.is_number(lambda numbers: numbers > requirement.bound)
        case _:
            return column.is_number(lambda numbers: numbers < requirement.bound)


def _nodes_named(requirement: Requirement, nodes: NodeTable) -> BoolArray:
    """Find the nodes with a name that satisfies an expression. Every other field is absent."""
    if requirement.key != NODE_NAME_FIELD:
        return np.full(len(nodes), requirement.accepts(None))
    rows = [info.row for name in requirement.values if (info := nodes.find(name)) is not None]
    mask: BoolArray = np.equal(nodes.rows, rows[0]) if len(rows) == 1 else np.isin(nodes.rows, rows)
    return ~mask if requirement.operator == "NotIn" else mask


def all_of(masks: Iterable[BoolArray | None]) -> BoolArray | None:
    """Return where all masks are true. ``None`` is true everywhere."""
    combined: BoolArray | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined & mask
    return combined


def any_of(masks: Iterable[BoolArray | None]) -> BoolArray | None:
    """Return where any mask is true. ``None`` is true nowhere."""
    combined: BoolArray | None = None
    for mask in masks:
        if mask is not None:
            combined = mask if combined is None else combined | mask
    return combined


def but_not(mask: BoolArray, without: BoolArray | None) -> BoolArray:
    """Return where the first mask is true and the second is not. ``None`` is true nowhere."""
    return mask if without is None else mask & ~without
