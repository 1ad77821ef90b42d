"""Label and field selectors of a query, and the fields that they can select."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from moorage.cluster.apiserver.storage.store import Entry, SelectableFields
from moorage.common.caches import cached
from moorage.common.errors import SelectorError
from moorage.kube.api.selectors import EVERYTHING, LabelMatcher, Requirement, parse_requirement
from moorage.kube.plain_data import find
from moorage.kube.resources import ServedResource
from moorage.kube.status_errors import bad_request

_OBJECT: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
FIELDS: Final[Mapping[str, tuple[str, ...]]] = {
    "pods": (
        *("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork"),
        *("status.phase", "status.podIP", "status.podIPs", "status.nominatedNodeName"),
    ),
    "nodes": ("spec.unschedulable",),
    "namespaces": ("status.phase",),
    "secrets": ("type",),
    "replicationcontrollers": ("status.replicas",),
    "replicasets.apps": ("status.replicas",),
    "jobs.batch": ("status.successful",),
    "resourceslices.resource.k8s.io": ("spec.nodeName", "spec.driver"),
    "events": (
        *(f"involvedObject.{part}" for part in _OBJECT),
        *("reason", "reportingComponent", "source", "type"),
    ),
}
"""Selectable fields of a resource in addition to name and namespace."""

_CORE_NAMES: Final = {"regarding": "involvedObject", "reportingController": "reportingComponent"}
_SET: Final = re.compile(r"\s*([^\s,()=!<>]+)\s+(in|notin)\s*\(([^()]*)\)\s*\Z")
_COMPARISON: Final = re.compile(r"\s*([^\s,()=!<>]+)\s*(==|=|!=|>|<)\s*([^\s,()=!<>]*)\s*\Z")
_PRESENCE: Final = re.compile(r"\s*(!?)\s*([^\s,()=!<>]+)\s*\Z")
_OPERATORS: Final = {"=": "In", "==": "In", "!=": "NotIn", ">": "Gt", "<": "Lt", "in": "In", "notin": "NotIn"}
_SUPPORTED: Final = ("In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt")
_FIELD: Final = re.compile(r"([^=!]+)(==|=|!=)(.*)\Z", re.DOTALL)
_VALUE: Final = re.compile(r"(?:[^\\=]|\\[\\,=])*\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Selection:
    """Selected objects. ``fields`` are tuples (path, value, whether equal)."""

    labels: LabelMatcher = EVERYTHING
    fields: tuple[tuple[str, str, bool], ...] = ()

    @property
    def is_everything(self) -> bool:
        """Whether nothing is omitted."""
        return not self.fields and self.labels.is_everything

    def matches(self, resource: ServedResource, entry: Entry) -> bool:
        """Return whether an object is selected."""
        facts = entry.facts
        if facts is None:
            facts = entry.facts = find_fields(resource.storage, entry)
        for path, value, is_equal in self.fields:
            if (facts.fields.get(path, "") == value) is not is_equal:
                return False
        return self.labels.matches(facts.labels)


def selection(resource: ServedResource, query: Mapping[str, str], *, name: str = "") -> Selection:
    """Parse the selectors of a query; 400 for invalid syntax or unsupported fields."""
    selectable = ("metadata.name", "metadata.namespace", *FIELDS.get(resource.storage, ()))
    # Events are stored in the form of the core group.
    names = _CORE_NAMES if resource.storage == "events" and resource.group else {}
    fields = [("metadata.name", name, True)] if name else []
    for path, value, is_equal in parse_fields(query.get("fieldSelector", "")):
        head, dot, tail = path.partition(".")
        stored_path = f"{names.get(head, head)}{dot}{tail}"
        if stored_path not in selectable:
            raise bad_request(f"field label not supported: {stored_path}")
        fields.append((stored_path, value, is_equal))
    return Selection(parse_labels(query.get("labelSelector", "")), tuple(fields))


@cached(1024)
def parse_labels(text: str) -> LabelMatcher:
    """Parse a label selector such as ``app=web,tier in (a,b),!old``."""
    try:
        return LabelMatcher(tuple(_requirement(part) for part in _split_terms(text)))
    except SelectorError as error:
        raise bad_request(f"unable to parse requirement: {error}") from error


def _split_terms(text: str) -> Iterator[str]:
    """Cut at the commas that are not inside parentheses."""
    depth = start = 0
    for position, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            yield text[start:position]
            start = position + 1
    if text.strip():
        yield text[start:]


def _requirement(part: str) -> Requirement:
    if match := _SET.match(part):
        operands = [operand.strip() for operand in match[3].split(",")]
        return parse_requirement(match[1], _OPERATORS[match[2]], operands, operators=_SUPPORTED)
    if match := _COMPARISON.match(part):
        return parse_requirement(match[1], _OPERATORS[match[2]], [match[3]], operators=_SUPPORTED)
    if match := _PRESENCE.match(part):
        return parse_requirement(match[2], "DoesNotExist" if match[1] else "Exists", [], operators=_SUPPORTED)
    raise SelectorError(f"{part!r} is not a label selector; write key=value, key!=value, key in (a,b), key or !key")


@cached(1024)
def parse_fields(text: str) -> tuple[tuple[str, str, bool], ...]:
    """Parse a field selector such as ``status.phase!=Failed,spec.nodeName=a``."""
    fields = []
    for part in filter(None, re.split(r"(?<!\\),", text)):
        match = _FIELD.match(part)
        if match is None:
            hint = "can't understand it: write field=value or field!=value"
            raise bad_request(f"invalid field selector: {part!r}; {hint}")
        if _VALUE.match(match[3]) is None:
            raise bad_request(f"invalid field selector: {part!r}; special characters in values need a backslash")
        fields.append((match[1].strip(), re.sub(r"\\([\\,=])", r"\1", match[3]), match[2] != "!="))
    return tuple(fields)


def find_fields(storage: str, entry: Entry) -> SelectableFields:
    """Return the labels and selectable fields of an object."""
    data = entry.data
    metadata = data["metadata"]
    fields = {"metadata.name": metadata.get("name", ""), "metadata.namespace": metadata.get("namespace", "")}
    for path in FIELDS.get(storage, ()):
        default = "false" if path in ("spec.unschedulable", "spec.hostNetwork") else ""
        value = find(data, "source.component" if path == "source" else path, default)
        fields[path] = str(value).lower() if isinstance(value, bool) else str(value)
    return SelectableFields(metadata.get("labels") or {}, fields)
