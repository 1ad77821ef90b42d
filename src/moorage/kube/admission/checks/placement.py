"""Where a pod wants to be: affinity, spread constraints and tolerations; and the taints of nodes."""

from collections.abc import Iterator
from typing import Final

from moorage.kube.admission.checks.names import POSITIVE, label_value, qualified_name
from moorage.kube.admission.checks.selectors import label_selector, node_selector, node_term
from moorage.kube.api.affinity import COMPARISONS, whole_number
from moorage.kube.api.struct import Data
from moorage.kube.field_errors import (
    FieldError,
    duplicate_value,
    invalid_value,
    invalid_values,
    required_value,
    unsupported_value,
)

REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
MAX_SHOWN: Final = 100


def placement(spec: Data, path: str) -> Iterator[FieldError]:
    """Check all scheduling constraints of a pod."""
    affinity = spec.get("affinity") or {}
    yield from _node_affinity(affinity.get("nodeAffinity") or {}, f"{path}.affinity.nodeAffinity")
    for kind in ("podAffinity", "podAntiAffinity"):
        yield from _pod_affinity(affinity.get(kind) or {}, f"{path}.affinity.{kind}")
    for number, toleration in enumerate(spec.get("tolerations") or ()):
        yield from _toleration(toleration, f"{path}.tolerations[{number}]")
    yield from _spread(spec.get("topologySpreadConstraints") or [], f"{path}.topologySpreadConstraints")


def _node_affinity(affinity: Data, path: str) -> Iterator[FieldError]:
    if REQUIRED in affinity:
        yield from node_selector(affinity[REQUIRED], f"{path}.{REQUIRED}")
    for number, preference in enumerate(affinity.get(PREFERRED) or ()):
        where = f"{path}.{PREFERRED}[{number}]"
        yield from _weight(preference, where)
        yield from node_term(preference.get("preference") or {}, f"{where}.preference")


def _pod_affinity(affinity: Data, path: str) -> Iterator[FieldError]:
    for number, term in enumerate(affinity.get(REQUIRED) or ()):
        yield from _pod_term(term, f"{path}.{REQUIRED}[{number}]")
    for number, preference in enumerate(affinity.get(PREFERRED) or ()):
        where = f"{path}.{PREFERRED}[{number}]"
        yield from _weight(preference, where)
        yield from _pod_term(preference.get("podAffinityTerm") or {}, f"{where}.podAffinityTerm")


def _weight(preference: Data, path: str) -> Iterator[FieldError]:
    if not 1 <= preference.get("weight", 0) <= 100:
        yield invalid_value(f"{path}.weight", preference.get("weight", 0), "must be in the range 1-100")


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
        why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
        yield invalid_value(f"{path}.operator", operator, why)
    if "tolerationSeconds" in toleration and effect != "NoExecute":
        yield invalid_value(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        yield from invalid_values(f"{path}.operator", value, label_value(value))
    elif operator == "Exists":
        if value:
            yield invalid_value(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in COMPARISONS:
        yield from _compared(value, f"{path}.value")
    else:
        yield unsupported_value(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in EFFECTS:
        yield unsupported_value(f"{path}.effect", effect, EFFECTS)


def _compared(value: str, path: str) -> Iterator[FieldError]:
    """Check a number that taints are compared with; the words are those of Go's parser."""
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


def _spread(constraints: list[Data], path: str) -> Iterator[FieldError]:
    for number, constraint in enumerate(constraints):
        where = f"{path}[{number}]"
        yield from _constraint(constraint, where)
        pair = (constraint.get("topologyKey"), constraint.get("whenUnsatisfiable"))
        later = ((item.get("topologyKey"), item.get("whenUnsatisfiable")) for item in constraints[number + 1 :])
        if pair in later:
            yield duplicate_value(f"{where}.{{topologyKey, whenUnsatisfiable}}", f"{{{pair[0]}, {pair[1]}}}")


def _constraint(constraint: Data, path: str) -> Iterator[FieldError]:
    when, fewest = constraint.get("whenUnsatisfiable", ""), constraint.get("minDomains")
    if constraint.get("maxSkew", 0) <= 0:
        yield invalid_value(f"{path}.maxSkew", constraint.get("maxSkew", 0), POSITIVE)
    if not constraint.get("topologyKey"):
        yield required_value(f"{path}.topologyKey", "can not be empty")
    if when not in ("DoNotSchedule", "ScheduleAnyway"):
        yield unsupported_value(f"{path}.whenUnsatisfiable", when, ("DoNotSchedule", "ScheduleAnyway"))
    if fewest is not None and fewest <= 0:
        yield invalid_value(f"{path}.minDomains", fewest, POSITIVE)
    if fewest is not None and when != "DoNotSchedule":
        why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}"
        yield invalid_value(f"{path}.minDomains", fewest, why)
    for name in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        if name in constraint and constraint[name] not in ("Honor", "Ignore"):
            yield unsupported_value(f"{path}.{name}", constraint[name], ("Honor", "Ignore"))
    yield from label_selector(constraint.get("labelSelector") or {}, f"{path}.labelSelector")


def taints(items: list[Data], path: str) -> Iterator[FieldError]:
    """Check the taints of a node."""
    unique_pairs: set[tuple[str, str]] = set()
    for number, taint in enumerate(items):
        where, key, effect = f"{path}[{number}]", taint.get("key", ""), taint.get("effect", "")
        yield from invalid_values(f"{where}.key", key, qualified_name(key))
        yield from invalid_values(f"{where}.value", taint.get("value", ""), label_value(taint.get("value", "")))
        if not effect:
            yield required_value(f"{where}.effect")
        elif effect not in EFFECTS:
            yield unsupported_value(f"{where}.effect", effect, EFFECTS)
        if (key, effect) in unique_pairs:
            go_value = {
                "Key": key,
                "Value": taint.get("value", ""),
                "Effect": effect,
                "TimeAdded": taint.get("timeAdded"),
            }
            yield duplicate_value(where, go_value, "taints must be unique by key and effect pair")
        unique_pairs.add((key, effect))
