"""Selectors of devices, in claims and device classes: correct the conditions that no device meets."""

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from moorage.insight.explain.fixes.devices import list_capacities, list_device_claims, list_devices, list_requests
from moorage.insight.explain.spelling import find_intended
from moorage.insight.explain.subject import Draft, ProposedChange, Subject, fix
from moorage.insight.whatif.edits import CreateObject, ObjectId
from moorage.kube.api.devices import ResourceSlice
from moorage.kube.api.kinds import BY_NAME
from moorage.kube.api.quantity import format_nanos, nano_value
from moorage.scheduler.plugins.dynamic_resources.cel.program import (
    CelCompileError,
    CelRuntimeError,
    Facts,
    compile_selector,
    device_facts,
)

MAX_TRIED: Final = 8
DRIVER: Final = re.compile(r"""device\.driver\s*==\s*(["'])([^"']*)\1""")
ATTRIBUTE: Final = re.compile(r"""attributes\[[^]]+\]\.(\w+)\s*==\s*(["'])([^"']*)\2""")
"""Selectors that compare an attribute: ``device.attributes["x"].model == "a100"``."""
CAPACITY: Final = re.compile(r"""capacity\[[^]]+\]\.(\w+)\D*?quantity\((["'])([^"']+)\2\)""")
"""Selectors that compare a capacity of a device: ``device.capacity["x"].memory.compareTo(quantity("80Gi"))``."""
DOMAIN: Final = re.compile(r"""(?:attributes|capacity)\[(["'])([^"']*)\1\]""")
TOKEN: Final = re.compile(r""""(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|&&|\|\||[()\[\]{}?]""")
Path = tuple[str | int, ...]


class Selector(NamedTuple):
    """An expression in a claim or a device class."""

    target: ObjectId
    path: Path
    expression: str
    location: str


class Constant(NamedTuple):
    """A constant in an expression that no device has, and the values that devices have instead."""

    start: int
    end: int
    text: str
    name: str
    values: list[str]


@fix(limit=2)
def correct_selectors(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Replace constants that no device has by those that devices have; or else remove the condition."""
    facts = _list_facts(subject)
    for selector in _list_selectors(subject):
        unmet = [
            part for part in split_conditions(selector.expression) if not _is_met(selector.expression, part, facts)
        ]
        constants = [item for item in _constants(subject, selector.expression) if _is_within(item, unmet)]
        if len(constants) == 1:
            yield from (
                _replace(subject, selector, [(constants[0], value)]) for value in constants[0].values[:MAX_TRIED]
            )
        elif constants:
            yield _replace(subject, selector, [(item, item.values[0]) for item in constants])
        if unmet and facts:
            yield _remove(subject, selector, unmet)


@fix()
def install_driver(subject: Subject, _rows: list[int]) -> Iterator[ProposedChange]:
    """Install the driver that selectors require, on a node. No node publishes devices of it."""
    drivers = sorted({str(spec.get("driver")) for spec in _slices(subject)})
    for selector in _list_selectors(subject):
        match = DRIVER.search(selector.expression)
        if match is None or match[2] in drivers or find_intended(match[2], drivers):
            continue
        have = f" (devices have the driver {', '.join(drivers)})" if drivers else ""
        for info in list(subject.nodes)[:MAX_TRIED]:
            pool = {"name": info.name, "generation": 1, "resourceSliceCount": 1}
            spec = {"driver": match[2], "nodeName": info.name, "pool": pool, "devices": [{"name": "device-0"}]}
            head = {"apiVersion": BY_NAME["ResourceSlice"].api_version, "kind": "ResourceSlice"}
            content = {**head, "metadata": {"name": f"{info.name}-{match[2]}"}, "spec": spec}
            text = f"Install the driver {match[2]} on node {info.name}: no node publishes devices of it{have}"
            yield ProposedChange("claim", text, [CreateObject(content)], 1)


def split_conditions(expression: str) -> list[tuple[int, int]]:
    """Return the places of the conditions that all have to be met.

    >>> text = 'a && (b || c) && d == "&&"'
    >>> [text[start:end] for start, end in split_conditions(text)]
    ['a', '(b || c)', 'd == "&&"']
    >>> split_conditions("a || b && c")
    [(0, 11)]
    """
    starts, ends, depth = [0], list[int](), 0
    for match in TOKEN.finditer(expression):
        depth += (match[0] in "([{") - (match[0] in ")]}")
        if depth == 0 and match[0] in ("||", "?"):
            return [(0, len(expression))]
        if depth == 0 and match[0] == "&&":
            ends.append(match.start())
            starts.append(match.end())
    ends.append(len(expression))
    return [_trim(expression, *place) for place in zip(starts, ends, strict=True)]


def _trim(text: str, start: int, end: int) -> tuple[int, int]:
    part = text[start:end]
    return start + len(part) - len(part.lstrip()), end - len(part) + len(part.rstrip())


def _is_within(constant: Constant, conditions: Sequence[tuple[int, int]]) -> bool:
    return any(start <= constant.start and constant.end <= end for start, end in conditions)


def _is_met(expression: str, place: tuple[int, int], facts: Sequence[Facts]) -> bool:
    """Return whether a device meets a condition."""
    try:
        program = compile_selector(expression[slice(*place)])
    except CelCompileError:
        return False

    def matches(device: Facts) -> bool:
        try:
            return program.matches(device)
        except CelRuntimeError:
            return False

    return any(map(matches, facts))


def _list_facts(subject: Subject) -> list[Facts]:
    slices = subject.session.scheduler.objects[ResourceSlice].list()
    return [device_facts(item.spec.driver, device) for item in slices for device in item.spec.devices]


def _slices(subject: Subject) -> Iterator[dict[str, Any]]:
    objects = subject.session.objects
    return (objects.content(target).get("spec") or {} for target in objects.known("ResourceSlice"))


def _list_selectors(subject: Subject) -> Iterator[Selector]:
    """List the selectors of the pod's claims and of their device classes."""
    objects, classes = subject.session.objects, dict[str, None]()
    for target in list_device_claims(subject):
        for path, request, label in list_requests(objects.content(target)):
            location = f"the selector of request {label} of the claim {target.name}"
            yield from _expressions(target, path, request, location)
            classes[str(request.get("deviceClassName") or "")] = None
    for name in classes:
        target = ObjectId("DeviceClass", "", name)
        if target in objects:
            yield from _expressions(target, ("spec",), objects.content(target)["spec"], f"the device class {name}")


def _expressions(target: ObjectId, path: Path, content: dict[str, Any], location: str) -> Iterator[Selector]:
    for number, selector in enumerate(content.get("selectors") or ()):
        expression = str((selector.get("cel") or {}).get("expression", ""))
        yield Selector(target, (*path, "selectors", number, "cel", "expression"), expression, location)


def _draft(subject: Subject, selector: Selector) -> Draft:
    # The spec of a claim is immutable, that of a class is not.
    must_replace = selector.target.kind != "DeviceClass"
    return Draft(selector.target, subject.session.objects.content(selector.target), must_replace=must_replace)


def _replace(subject: Subject, selector: Selector, changes: Sequence[tuple[Constant, str]]) -> ProposedChange:
    new, texts = selector.expression, list[str]()
    for item, value in sorted(changes, reverse=True):
        new = f"{new[: item.start]}{value}{new[item.end :]}"
        have = f" (devices have {', '.join(item.values[:MAX_TRIED])})"
        texts.insert(0, f"{item.name} from {item.text} to {value} in {selector.location}{have}")
    is_typo = all(find_intended(item.text, item.values) for item, _ in changes)
    edit = _draft(subject, selector).put(selector.path, new).edit()
    return ProposedChange("claim", f"Change {' and '.join(texts)}", [edit], -1 if is_typo else 1)


def _remove(subject: Subject, selector: Selector, unmet: Sequence[tuple[int, int]]) -> ProposedChange:
    """Remove conditions that no device meets. A selector without other conditions is removed."""
    kept = [place for place in split_conditions(selector.expression) if place not in unmet]
    draft = _draft(subject, selector)
    if kept:
        draft.put(selector.path, " && ".join(selector.expression[slice(*place)] for place in kept))
    else:
        draft.remove(*selector.path[:-2])
    names = " and ".join(selector.expression[slice(*place)] for place in unmet)
    text = f"Remove the condition {names} from {selector.location}: no device meets it"
    return ProposedChange("claim", text, [draft.edit()], 2)


def _constants(subject: Subject, expression: str) -> Iterator[Constant]:
    """Find constants that no device has: drivers, domains, attributes, and capacities."""
    drivers = sorted({str(spec.get("driver")) for spec in _slices(subject)})
    for match in DRIVER.finditer(expression):
        if (intended := find_intended(match[2], drivers)) and match[2] not in drivers:
            yield Constant(*match.span(2), match[2], "driver", [intended])
    devices = [device for device, _ in list_devices(subject.session.objects)]
    domains = {
        key.rpartition("/")[0]
        for device in devices
        for part in ("attributes", "capacity")
        for key in device.get(part) or ()
    }
    for match in DOMAIN.finditer(expression):
        if intended := find_intended(match[2], {*drivers, *domains} - {""}):
            yield Constant(*match.span(2), match[2], "the domain", [intended])
    for match in ATTRIBUTE.finditer(expression):
        values = sorted(
            {
                str(item["string"])
                for device in devices
                for key, item in (device.get("attributes") or {}).items()
                if key.rpartition("/")[2] == match[1] and "string" in item
            }
        )
        if values and match[3] not in values:
            intended = find_intended(match[3], values)
            ranked = sorted(values, key=lambda value: value != intended)
            yield Constant(*match.span(3), match[3], match[1], ranked)
    for match in CAPACITY.finditer(expression):
        sizes = list_capacities(subject.session.objects, match[1])
        if sizes and sizes[0][0] < nano_value(match[3]):
            amounts = list(dict.fromkeys(format_nanos(size, is_binary=True) for size, _, _ in sizes))
            yield Constant(*match.span(3), match[3], match[1], amounts)
