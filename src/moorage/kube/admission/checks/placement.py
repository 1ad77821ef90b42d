"""Scheduling constraints: affinity, selectors, spread constraints and tolerations; and the taints of nodes."""

from collections.abc import Callable, Iterator
from typing import Final

from moorage.kube.admission.checks.names import POSITIVE, label_value, labels, qualified_name
from moorage.kube.api.affinity import COMPARISONS, whole_number
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import (
    FieldError,
    duplicate_value,
    forbidden_field,
    invalid_value,
    invalid_values,
    required_value,
    unsupported_value,
)

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_SHOWN: Final = 100
_NO_OPERATOR: Final = "not a valid selector operator"
_NEEDS_VALUES: Final = "must be specified when `operator` is 'In' or 'NotIn'"
_NO_VALUES: Final = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def placement(spec: Data, path: str) -> Iterator[FieldError]:
    """Check all scheduling constraints of a pod."""
    affinity = spec.get("affinity") or {}
    terms = affinity.get("nodeAffinity") or {}
    if REQUIRED in terms:
        yield from node_selector(terms[REQUIRED], f"{path}.affinity.nodeAffinity.{REQUIRED}")
    yield from _check_preferred(terms, f"{path}.affinity.nodeAffinity", "preference", node_term)
    for kind in ("podAffinity", "podAntiAffinity"):
        terms, location = affinity.get(kind) or {}, f"{path}.affinity.{kind}"
        for number, term in enumerate(terms.get(REQUIRED) or ()):
            yield from _pod_term(term, f"{location}.{REQUIRED}[{number}]")
        yield from _check_preferred(terms, location, "podAffinityTerm", _pod_term)
    for number, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{number}]")
    yield from _check_spread(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")


def _check_preferred(
    affinity: Data, path: str, name: str, check: Callable[[Data, str], Iterator[FieldError]]
) -> Iterator[FieldError]:
    for number, preference in enumerate(affinity.get(PREFERRED) or ()):
        location, weight = f"{path}.{PREFERRED}[{number}]", preference.get("weight", 0)
        if not 1 <= weight <= 100:
            yield invalid_value(f"{location}.weight", weight, "must be in the range 1-100")
        yield from check(preference.get(name) or {}, f"{location}.{name}")


def _pod_term(term: Data, path: str) -> Iterator[FieldError]:
    for name in ("labelSelector", "namespaceSelector"):
        yield from label_selector(term.get(name) or {}, f"{path}.{name}")
    key = term.get("topologyKey", "")
    if not key:
        yield required_value(f"{path}.topologyKey", "can not be empty")
    yield from invalid_values(f"{path}.topologyKey", key, qualified_name(key))


def _toleration(toleration: Data, path: str) -> Iterator[FieldError]:
    key, operator, value = (toleration.get(name, "") for name in ("key", "operator", "value"))
    effect = toleration.get("effect", "")
    if key:
        yield from invalid_values(f"{path}.key", key, qualified_name(key))
    elif operator != "Exists":
        reason = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid_value(f"{path}.operator", operator, reason)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid_value(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        yield from invalid_values(f"{path}.operator", value, label_value(value))
    elif operator == "Exists":
        if value:
            yield invalid_value(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in COMPARISONS:
        yield from _check_comparison(value, f"{path}.value")
    else:
        yield unsupported_value(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        yield unsupported_value(f"{path}.effect", effect, EFFECTS)


def _check_comparison(value: str, path: str) -> Iterator[FieldError]:
    """Check a number that taints are compared with. The words are those of Go's parser."""
    is_digits = value.removeprefix("-").isascii() and value.removeprefix("-").isdecimal()
    if not value:
        yield invalid_value(path, value, "must be non-empty")
    elif not is_digits or (whole_number(value) is None and str(int(value[:MAX_SHOWN])) != value[:MAX_SHOWN]):
        yield invalid_value(path, value, "must be a valid decimal integer in canonical form")
    if not is_digits:
        yield invalid_value(path, value, f'strconv.ParseInt: parsing "{value}": invalid syntax')
    elif not -(1 << 63) <= int(value[:MAX_SHOWN]) < 1 << 63:
        yield invalid_value(path, value, f'strconv.ParseInt: parsing "{value}": value out of range')


def comparisons(spec: Data, path: str) -> Iterator[FieldError]:
    """Reject tolerations that compare numbers while the feature is disabled."""
    for number, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("operator") in COMPARISONS:
            yield unsupported_value(
                f"{path}.tolerations[{number}].operator", toleration["operator"], ("Equal", "Exists")
            )


def _check_spread(constraints: list[Data], path: str) -> Iterator[FieldError]:
    pairs = [(item.get("topologyKey"), item.get("whenUnsatisfiable")) for item in constraints]
    for number, constraint in enumerate(constraints):
        location, skew, fewest = f"{path}[{number}]", constraint.get("maxSkew", 0), constraint.get("minDomains")
        policy = constraint.get("whenUnsatisfiable", "")
        if skew <= 0:
            yield invalid_value(f"{location}.maxSkew", skew, POSITIVE)
        if not constraint.get("topologyKey"):
            yield required_value(f"{location}.topologyKey", "can not be empty")
        if policy not in ("DoNotSchedule", "ScheduleAnyway"):
            yield unsupported_value(f"{location}.whenUnsatisfiable", policy, ("DoNotSchedule", "ScheduleAnyway"))
        if fewest is not None and fewest <= 0:
            yield invalid_value(f"{location}.minDomains", fewest, POSITIVE)
        if fewest is not None and policy != "DoNotSchedule":
            reason = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {policy}"
            yield invalid_value(f"{location}.minDomains", fewest, reason)
        for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if name in constraint and constraint[name] not in ("Honor", "Ignore"):
                yield unsupported_value(f"{location}.{name}", constraint[name], ("Honor", "Ignore"))
        yield from label_selector(constraint.get("labelSelector") or {}, f"{location}.labelSelector")
        if (pair := pairs[number]) in pairs[number + 1 :]:
            yield duplicate_value(f"{location}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")


def taints(items: list[Data], path: str) -> Iterator[FieldError]:
    """Check the taints of a node."""
    unique_pairs: set[tuple[str, str]] = set()
    for number, taint in enumerate(items):
        location = f"{path}[{number}]"
        key, value, effect = (taint.get(name, "") for name in ("key", "value", "effect"))
        yield from invalid_values(f"{location}.key", key, qualified_name(key))
        yield from invalid_values(f"{location}.value", value, label_value(value))
        if not effect:
            yield required_value(f"{location}.effect")
        elif effect not in EFFECTS:
            yield unsupported_value(f"{location}.effect", effect, EFFECTS)
        if (key, effect) in unique_pairs:
            go_value = {"Key": key, "Value": value, "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            yield duplicate_value(location, go_value, "taints must be unique by key and effect pair")
        unique_pairs.add((key, effect))


def label_selector(selector: Data, path: str) -> Iterator[FieldError]:
    """Check a selector of labels."""
    yield from labels(selector.get("matchLabels") or {}, f"{path}.matchLabels")
    yield from _expressions(selector, path, numeric=False)


def node_selector(selector: Data, path: str) -> Iterator[FieldError]:
    """Check a selector of nodes."""
    terms = selector.get("nodeSelectorTerms") or ()
    if not terms:
        yield required_value(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for number, term in enumerate(terms):
        yield from node_term(term, f"{path}.nodeSelectorTerms[{number}]")


def node_term(term: Data, path: str) -> Iterator[FieldError]:
    """Check one term of a selector of nodes."""
    yield from _expressions(term, path, numeric=True)
    for number, requirement in enumerate(term.get("matchFields") or ()):
        location, operator = f"{path}.matchFields[{number}]", requirement.get("operator", "")
        if operator not in ("In", "NotIn"):
            yield invalid_value(f"{location}.operator", operator, _NO_OPERATOR)
        elif len(requirement.get("values") or ()) != 1:
            reason = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
            yield required_value(f"{location}.values", reason)
        if requirement.get("key") != "metadata.name":
            yield invalid_value(f"{location}.key", requirement.get("key", ""), "not a valid field selector key")


def _expressions(selector: Data, path: str, *, numeric: bool) -> Iterator[FieldError]:
    for number, requirement in enumerate(selector.get("matchExpressions") or ()):
        location = f"{path}.matchExpressions[{number}]"
        key, operator, values = (requirement.get(name) or "" for name in ("key", "operator", "values"))
        if operator in ("In", "NotIn"):
            if not values:
                yield required_value(f"{location}.values", _NEEDS_VALUES)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                yield forbidden_field(f"{location}.values", _NO_VALUES)
        elif numeric and operator in ("Gt", "Lt"):
            if len(values) != 1:
                reason = "must be specified single value when `operator` is 'Lt' or 'Gt'"
                yield required_value(f"{location}.values", reason)
        else:
            yield invalid_value(f"{location}.operator", operator, _NO_OPERATOR)
        yield from invalid_values(f"{location}.key", key, qualified_name(key))
        for index, text in enumerate(values):
            yield from invalid_values(f"{location}.values[{index}]", text, label_value(text))
