"""Validation of typed objects where it affects scheduling: quantities, selectors and enumerations.

The walk visits every struct of an object and reports problems with the path of the field in JSON.
"""

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, Final, NamedTuple, TypeVar, get_args, get_type_hints

import msgspec

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

EFFECTS: Final = ("NoSchedule", "PreferNoSchedule", "NoExecute")
TOLERATION_OPERATORS: Final = ("Exists", "Equal", "Lt", "Gt")
POLICIES: Final = ("Honor", "Ignore")
BINDING_MODES: Final = ("Immediate", "WaitForFirstConsumer")
T = TypeVar("T")


class Problem(NamedTuple):
    """A problem of an object: the field, the value and a correction."""

    path: str
    text: str
    hint: str = ""


Check = Callable[[Any], Iterable[Problem]]


def find_problems(obj: KubeObject) -> Iterator[Problem]:
    """Yield the problems of a typed object, in the order of its fields."""
    return _walk(obj, "")


def _walk(part: msgspec.Struct, path: str) -> Iterator[Problem]:
    plan = _plan(type(part))
    for field in plan.fields:
        content = getattr(part, field.attribute)
        if not content:
            continue
        here = f"{path}.{field.name}" if path else field.name
        for where, item in _items(content, here):
            if field.holds_quantities:
                yield from _parse(where, item, nano_value)
            elif isinstance(item, msgspec.Struct):
                yield from _walk(item, where)
    if plan.check is not None:
        for problem in plan.check(part):
            yield problem._replace(path=f"{path}.{problem.path}" if path else problem.path)


def _items(content: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(content, dict):
        return ((f"{path}.{key}", item) for key, item in content.items())
    if isinstance(content, tuple):
        return ((f"{path}[{index}]", item) for index, item in enumerate(content))
    return iter(((path, content),))


def _parse(field: str, content: T, parse: Callable[[T], object]) -> Iterator[Problem]:
    """Report the error of a parser, whose message has the correction after a semicolon."""
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
    check: Check | None


@cache
def _plan(kind: type[msgspec.Struct]) -> _Plan:
    """Work out once per struct which fields can hold a quantity or another struct, and how the struct is checked."""
    hints = get_type_hints(kind)
    fields = tuple(
        _Field(field.name, field.encode_name, _mentions_quantity(hints[field.name]))
        for field in msgspec.structs.fields(kind)
        if _mentions_quantity(hints[field.name]) or _mentions_struct(hints[field.name])
    )
    return _Plan(fields, CHECKS.get(kind))


def _mentions_quantity(hint: Any) -> bool:
    return set(get_args(Quantity)) <= set(get_args(hint)) or any(map(_mentions_quantity, get_args(hint)))


def _mentions_struct(hint: Any) -> bool:
    is_struct = isinstance(hint, type) and issubclass(hint, msgspec.Struct)
    return is_struct or any(map(_mentions_struct, get_args(hint)))


def _one_of(field: str, value: str | None, supported: tuple[str, ...]) -> Iterator[Problem]:
    if value and value not in supported:
        hint = did_you_mean(value, supported) or f"write {' or '.join(supported)}"
        yield Problem(field, f"{value!r} is unknown", hint)


def _within(field: str, value: int, least: int, most: int) -> Iterator[Problem]:
    if not least <= value <= most:
        yield Problem(field, f"{value} is out of range", f"write a number from {least} to {most}")


def _check_node_requirement(requirement: NodeSelectorRequirement) -> Iterator[Problem]:
    if requirement.operator not in NODE_OPERATORS:
        hint = did_you_mean(requirement.operator, NODE_OPERATORS) or f"write one of {', '.join(NODE_OPERATORS)}"
        yield Problem("operator", f"{requirement.operator!r} is unknown", hint)


def _check_taint(taint: Taint) -> Iterator[Problem]:
    if not taint.key:
        yield Problem("key", "a taint needs a key")
    yield from _one_of("effect", taint.effect or "(none)", EFFECTS)


def _check_toleration(toleration: Toleration) -> Iterator[Problem]:
    yield from _one_of("operator", toleration.operator, TOLERATION_OPERATORS)
    yield from _one_of("effect", toleration.effect, EFFECTS)


def _check_spread(constraint: TopologySpreadConstraint) -> Iterator[Problem]:
    if constraint.max_skew < 1:
        yield Problem("maxSkew", f"found {constraint.max_skew}", "write a number of at least 1")
    if not constraint.topology_key:
        yield Problem("topologyKey", "a spread constraint needs a topology key", "kubernetes.io/hostname, for one")
    supported = ("DoNotSchedule", "ScheduleAnyway")
    yield from _one_of("whenUnsatisfiable", constraint.when_unsatisfiable or "(none)", supported)
    yield from _one_of("nodeAffinityPolicy", constraint.node_affinity_policy, POLICIES)
    yield from _one_of("nodeTaintsPolicy", constraint.node_taints_policy, POLICIES)
    if constraint.min_domains is not None and constraint.min_domains < 1:
        yield Problem("minDomains", f"found {constraint.min_domains}", "write a number of at least 1")


def _check_affinity_term(term: PodAffinityTerm) -> Iterator[Problem]:
    if not term.topology_key:
        yield Problem("topologyKey", "an affinity term needs a topology key", "kubernetes.io/hostname, for one")


def _check_port(port: ContainerPort) -> Iterator[Problem]:
    yield from _one_of("protocol", port.protocol, ("TCP", "UDP", "SCTP"))
    yield from _within("hostPort", port.host_port, 0, 65535)


def _check_requirements(resources: ResourceRequirements) -> Iterator[Problem]:
    for field, amounts in (("requests", resources.requests), ("limits", resources.limits)):
        for name, quantity in amounts.items():
            if str(quantity).startswith("-"):
                yield Problem(f"{field}.{name}", f"{quantity!r} is negative", "write 0 or more")


def _check_metadata(metadata: ObjectMeta) -> Iterator[Problem]:
    yield from _time("creationTimestamp", metadata.creation_timestamp)
    yield from _time("deletionTimestamp", metadata.deletion_timestamp)


def _time(field: str, value: str | None) -> Iterable[Problem]:
    return () if value is None else _parse(field, value, parse_time)


def _check_policy(obj: PodSpec | PriorityClass) -> Iterator[Problem]:
    return _one_of("preemptionPolicy", obj.preemption_policy, ("PreemptLowerPriority", "Never"))


CHECKS: Final[dict[type[msgspec.Struct], Check]] = {
    ContainerPort: _check_port,
    LabelSelector: lambda selector: _parse("matchExpressions", selector, label_matcher),
    NodeSelectorRequirement: _check_node_requirement,
    ObjectMeta: _check_metadata,
    PodAffinityTerm: _check_affinity_term,
    PodSpec: _check_policy,
    PodStatus: lambda status: _time("startTime", status.start_time),
    PreferredSchedulingTerm: lambda term: _within("weight", term.weight, 1, 100),
    PriorityClass: _check_policy,
    ResourceRequirements: _check_requirements,
    StorageClass: lambda obj: _one_of("volumeBindingMode", obj.volume_binding_mode, BINDING_MODES),
    Taint: _check_taint,
    Toleration: _check_toleration,
    TopologySpreadConstraint: _check_spread,
    WeightedPodAffinityTerm: lambda term: _within("weight", term.weight, 1, 100),
}
