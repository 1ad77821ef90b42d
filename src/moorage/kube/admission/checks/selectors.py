"""Selectors of labels and of nodes."""

from collections.abc import Iterator
from typing import Final

from moorage.kube.admission.checks.names import label_value, labels, qualified_name
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import FieldError, forbidden_field, invalid_value, invalid_values, required_value

_NO_OPERATOR: Final = "not a valid selector operator"
_NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def label_selector(selector: Data, path: str) -> Iterator[FieldError]:
    """Check a selector of labels."""
    yield from labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    for number, requirement in enumerate(selector.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{number}]"
        yield from _operator(requirement, where, numeric=False)
        yield from invalid_values(
            f"{where}.key", requirement.get("key", ""), qualified_name(requirement.get("key", ""))
        )
        yield from _values(requirement, where)


def node_selector(selector: Data, path: str) -> Iterator[FieldError]:
    """Check a selector of nodes."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield required_value(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for number, term in enumerate(terms):
        yield from node_term(term, f"{path}.nodeSelectorTerms[{number}]")


def node_term(term: Data, path: str) -> Iterator[FieldError]:
    """Check one term of a selector of nodes."""
    for number, requirement in enumerate(term.get("matchExpressions") or ()):
        where = f"{path}.matchExpressions[{number}]"
        yield from _operator(requirement, where, numeric=True)
        yield from invalid_values(
            f"{where}.key", requirement.get("key", ""), qualified_name(requirement.get("key", ""))
        )
        yield from _values(requirement, where)
    for number, requirement in enumerate(term.get("matchFields") or ()):
        yield from _field(requirement, f"{path}.matchFields[{number}]")


def _operator(requirement: Data, path: str, *, numeric: bool) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator in ("In", "NotIn"):
        if not values:
            yield required_value(f"{path}.values", _NEEDS_VALUES)
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            yield forbidden_field(f"{path}.values", _NO_VALUES)
    elif numeric and operator in ("Gt", "Lt"):
        if len(values) != 1:
            yield required_value(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
    else:
        yield invalid_value(f"{path}.operator", operator, _NO_OPERATOR)


def _values(requirement: Data, path: str) -> Iterator[FieldError]:
    for number, text in enumerate(requirement.get("values") or ()):
        yield from invalid_values(f"{path}.values[{number}]", text, label_value(text))


def _field(requirement: Data, path: str) -> Iterator[FieldError]:
    operator, values = requirement.get("operator", ""), requirement.get("values") or ()
    if operator not in ("In", "NotIn"):
        yield invalid_value(f"{path}.operator", operator, _NO_OPERATOR)
    elif len(values) != 1:
        why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        yield required_value(f"{path}.values", why)
    if requirement.get("key") != "metadata.name":
        yield invalid_value(f"{path}.key", requirement.get("key", ""), "not a valid field selector key")
