"""Upstream's checks of the node affinity that a profile adds to every pod, in upstream's order and words."""

import re
from collections.abc import Iterator, Sequence

from moorage.common.errors import ConfigError
from moorage.kube.api.affinity import NodeAffinity
from moorage.kube.api.selectors import NODE_OPERATORS, NodeSelectorRequirement, NodeSelectorTerm
from moorage.scheduler.config.names import label_key_problems, label_value_problems
from moorage.scheduler.config.problems import invalid, unsupported


def node_affinity_problems(affinity: NodeAffinity, where: str) -> Iterator[ConfigError]:
    """Yield what keeps the required and the preferred terms from being parsed."""
    if affinity.required is not None:
        field_path = f"{where}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms"
        for index, term in enumerate(affinity.required.node_selector_terms):
            yield from _term(term, f"{field_path}[{index}]")
    for index, preferred in enumerate(affinity.preferred or ()):
        # A preference without weight has no effect.
        if preferred.weight != 0:
            field_path = f"{where}.preferredDuringSchedulingIgnoredDuringExecution[{index}]"
            yield from _term(preferred.preference, field_path)


def _term(term: NodeSelectorTerm, where: str) -> Iterator[ConfigError]:
    for index, expression in enumerate(term.match_expressions):
        yield from _expression(expression, f"{where}.matchExpressions[{index}]")
    for index, field in enumerate(term.match_fields):
        yield from _field(field, f"{where}.matchFields[{index}]")


def _expression(expression: NodeSelectorRequirement, where: str) -> Iterator[ConfigError]:
    key, operator, values = expression.key, expression.operator, expression.values
    if operator not in NODE_OPERATORS:
        yield unsupported(f"{where}.operator", operator, NODE_OPERATORS)
        return
    if problems := label_key_problems(key):
        yield invalid(f"{where}.key", key, "; ".join(problems))
    yield from _number_of_values(operator, values, f"{where}.values")
    for index, value in enumerate(values):
        if problems := label_value_problems(value):
            yield invalid(f"{where}.values[{index}][{key}]", value, "; ".join(problems))


def _number_of_values(operator: str, values: Sequence[str], where: str) -> Iterator[ConfigError]:
    if operator in ("In", "NotIn") and not values:
        yield invalid(where, None, "for 'in', 'notin' operators, values set can't be empty")
    if operator in ("Exists", "DoesNotExist") and values:
        yield invalid(where, list(values), "values set must be empty for exists and does not exist")
    if operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield invalid(where, list(values) or None, "for 'Gt', 'Lt' operators, exactly one value is required")
        for index, value in enumerate(values):
            if not _is_int64(value):
                text = "for 'Gt', 'Lt' operators, the value must be an integer"
                yield invalid(f"{where}[{index}]", value, text)


def _field(field: NodeSelectorRequirement, where: str) -> Iterator[ConfigError]:
    if field.operator not in ("In", "NotIn"):
        yield unsupported(f"{where}.operator", field.operator, ("In", "NotIn"))
    elif len(field.values) != 1:
        yield invalid(f"{where}.values", list(field.values) or None, "must have one element")


def _is_int64(text: str) -> bool:
    return bool(re.fullmatch(r"[+-]?\d+", text, re.ASCII)) and -(2**63) <= int(text) < 2**63
