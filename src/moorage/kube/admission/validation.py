"""Validation of typed objects where it affects scheduling: quantities, selectors and enumerations.

The walk visits every struct of an object and reports problems with the path of the field in JSON.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

from moorage.common.caches import LRU
from moorage.common.errors import did_you_mean
from moorage.kube.api.affinity import (
    PodAffinityTerm,
    PreferredSchedulingTerm,
    Taint,
    Toleration,
    TopologySpreadConstraint,
    WeightedPodAffinityTerm,
)
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.container import ContainerPort, ResourceRequirements
from moorage.kube.api.meta import KubeObject, ObjectMeta, parse_time
from moorage.kube.api.pod import PodSpec, PodStatus
from moorage.kube.api.quantity import Quantity, nano_value
from moorage.kube.api.selectors import NODE_OPERATORS, LabelSelector, NodeSelectorRequirement, label_matcher
from moorage.kube.api.storage import StorageClass

_EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_EXAMPLE_KEY: Final = "kubernetes.io/hostname, for one"
T = TypeVar("T")


class Problem(NamedTuple):
    """A problem of an object: the field, the value and a correction."""

    path: str
    text: str
    hint: str = ""


Check = Callable[[Any], Iterable[Problem]]


def find_problems(obj: KubeObject) -> Iterator[Problem]:
    """Yield the problems of a typed object, in the order of its fields."""
    problems: list[Problem] = []
    _walk(obj, "", problems)
    return iter(problems)


_latest_valid: LRU[type[msgspec.Struct], msgspec.Struct] = LRU("latest valid parts", 256)
"""The latest valid part of each type: pods of a template have equal containers, and comparing is fast."""


def _walk(part: msgspec.Struct, path: str, problems: list[Problem]) -> None:
    if _latest_valid.find(type(part)) == part:
        return
    count = len(problems)
    plan = _plan(type(part))
    for attribute, name, holds_quantities in plan.fields:
        content = getattr(part, attribute)
        if not content:
            continue
        field_path = f"{path}.{name}" if path else name
        if isinstance(content, msgspec.Struct):
            _walk(content, field_path, problems)
            continue
        for location, item in _items(content, field_path):
            if holds_quantities:
                problems += _parse(location, item, nano_value)
            elif isinstance(item, msgspec.Struct):
                _walk(item, location, problems)
    for check in plan.checks:
        for problem in check(part):
            problems.append(problem._replace(path=f"{path}.{problem.path}" if path else problem.path))
    if path and len(problems) == count:
        _latest_valid.put(type(part), part)


def _items(content: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        return ((f"{path}.{key}", item) for key, item in content.items())
    if isinstance(content, tuple):
        return ((f"{path}[{index}]", item) for index, item in enumerate(content))
    return iter(((path, content),))


def _parse(field: str, content: T, parse: Callable[[T], object]) -> Iterator[Problem]:
    """Report the error of a parser. Its message contains the correction after a semicolon."""
    try:
        parse(content)
    except ValueError as error:
        message, _, hint = str(error).partition("; ")
        yield Problem(field, message, hint)


class _Field(NamedTuple):
    attribute: str
    name: str
    holds_quantities: bool


class _Plan(NamedTuple):
    fields: tuple[_Field, ...]
    checks: tuple[Check, ...]


@cache
def _plan(kind: type[msgspec.Struct]) -> _Plan:
    """Work out once per struct which fields can hold a quantity or another struct, and how the struct is checked."""
    hints = get_type_hints(kind)
    fields = tuple(
        _Field(field.name, field.encode_name, _mentions_quantity(hints[field.name]))
        for field in msgspec.structs.fields(kind)
        if _mentions_quantity(hints[field.name]) or _mentions_struct(hints[field.name])
    )
    return _Plan(fields, _CHECKS.get(kind, ()))


def _mentions_quantity(hint: Any) -> bool:
    return set(get_args(Quantity)) <= set(get_args(hint)) or any(map(_mentions_quantity, get_args(hint)))


def _mentions_struct(hint: Any) -> bool:
    is_struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return is_struct or any(map(_mentions_struct, get_args(hint)))


def _json_name(attribute: str) -> str:
    return re.sub("_(.)", lambda match: match[1].upper(), attribute)


def _make_choice_check(attribute: str, *supported: str, is_required: bool = False) -> Check:
    def check(part: msgspec.Struct) -> Iterator[Problem]:
        value = getattr(part, attribute) or ("(none)" if is_required else "")
        if value and value not in supported:
            choices = " or ".join(supported) if len(supported) < 4 else f"one of {', '.join(supported)}"
            hint = did_you_mean(value, supported) or f"write {choices}"
            yield Problem(_json_name(attribute), f"{value!r} is unknown", hint)

    return check


def _make_range_check(attribute: str, least: int, most: int) -> Check:
    def check(part: msgspec.Struct) -> Iterator[Problem]:
        if not least <= (value := getattr(part, attribute)) <= most:
            yield Problem(_json_name(attribute), f"{value} is out of range", f"write a number from {least} to {most}")

    return check


def _positive(attribute: str) -> Check:
    def check(part: msgspec.Struct) -> Iterator[Problem]:
        value = getattr(part, attribute)
        if value is not None and value < 1:
            yield Problem(_json_name(attribute), f"found {value}", "write a number of at least 1")

    return check


def _make_required_check(attribute: str, problem: str, hint: str = "") -> Check:
    return lambda part: () if getattr(part, attribute) else (Problem(_json_name(attribute), problem, hint),)


def _time(attribute: str) -> Check:
    name = _json_name(attribute)

    def check(part: msgspec.Struct) -> Iterable[Problem]:
        value = getattr(part, attribute)
        return () if value is None else _parse(name, value, parse_time)

    return check


def _check_requirements(resources: ResourceRequirements) -> Iterator[Problem]:
    for field, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for name, quantity in amounts.items():
            if str(quantity).startswith("-"):
                yield Problem(f"{field}.{name}", f"{quantity!r} is negative", "write 0 or more")


_PREEMPTION: Final = _make_choice_check("preemption_policy", "PreemptLowerPriority", "Never")
_CHECKS: Final[dict[type[msgspec.Struct], tuple[Check, ...]]] = {
    ContainerPort: (_make_choice_check("protocol", "TCP", "UDP", "SCTP"), _make_range_check("host_port", 0, 65535)),
    LabelSelector: (lambda selector: _parse("matchExpressions", selector, label_matcher),),
    NodeSelectorRequirement: (_make_choice_check("operator", *NODE_OPERATORS, is_required=True),),
    ObjectMeta: (_time("creation_timestamp"), _time("deletion_timestamp")),
    PodAffinityTerm: (_make_required_check("topology_key", "an affinity term needs a topology key", _EXAMPLE_KEY),),
    PodSpec: (_PREEMPTION,),
    PodStatus: (_time("start_time"),),
    PreferredSchedulingTerm: (_make_range_check("weight", 1, 100),),
    PriorityClass: (_PREEMPTION,),
    ResourceRequirements: (_check_requirements,),
    StorageClass: (_make_choice_check("volume_binding_mode", "Immediate", "WaitForFirstConsumer"),),
    Taint: (
        _make_required_check("key", "a taint needs a key"),
        _make_choice_check("effect", *_EFFECTS, is_required=True),
    ),
    Toleration: (
        _make_choice_check("operator", "Exists", "Equal", "Lt", "Gt"),
        _make_choice_check("effect", *_EFFECTS),
    ),
    TopologySpreadConstraint: (
        _positive("max_skew"),
        _make_required_check("topology_key", "a spread constraint needs a topology key", _EXAMPLE_KEY),
        _make_choice_check("when_unsatisfiable", "DoNotSchedule", "ScheduleAnyway", is_required=True),
        _make_choice_check("node_affinity_policy", "Honor", "Ignore"),
        _make_choice_check("node_taints_policy", "Honor", "Ignore"),
        _positive("min_domains"),
    ),
    WeightedPodAffinityTerm: (_make_range_check("weight", 1, 100),),
}
