"""YAML (and JSON, which is a subset) as plain data, with a cost that is bounded by the length of the text.

Nested aliases in a few hundred bytes of YAML can expand to gigabytes or to a thousand levels. So the data is built from
the parser's events, and its size is counted. Scalars are resolved as Kubernetes does: a date remains text, ``y`` is a
bool, and a number that exceeds a machine word becomes a float or, if that overflows too, text.
"""

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from math import isinf
from typing import Any, Final, NamedTuple

import yaml

from moorage.common.errors import InputError, comment_hint

MAX_DEPTH: Final = 200
MAX_ALIASED: Final = 4 * 1024 * 1024
"""Maximum expansion by aliases, in characters and nodes. Each use of an alias counts."""
SHORT_BOOLS: Final = {"y": True, "Y": True, "n": False, "N": False}
"""One letter is a bool, as in YAML 1.1; PyYAML, which we write with, knows only the longer spellings."""

_Loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_TAG: Final = "tag:yaml.org,2002:"
_MERGE: Final = "<<"
_NULLS: Final = frozenset(("", "~", "null", "Null", "NULL"))
_BOOLS: Final = SHORT_BOOLS | {
    spelling: word in ("true", "yes", "on")
    for word in ("true", "false", "yes", "no", "on", "off")
    for spelling in (word, word.capitalize(), word.upper())
}
_INT: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|[0-9][0-9_]*)\Z").match
_OCTAL: Final = re.compile(r"[0-7]+\Z").match
_FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?\Z").match
_NOT_FINITE: Final = re.compile(r"[-+]?\.(?:inf|Inf|INF)\Z|\.(?:nan|NaN|NAN)\Z").match
_STARTS_NUMBER: Final = frozenset("0123456789+-.")
_MAX_DIGITS: Final = 400  # more than any float has


class RepeatedField(NamedTuple):
    """A field that occurs twice in a mapping, and its location."""

    path: str
    line: int


class ParsedDocument(NamedTuple):
    """One document of a text; of a repeated field, the last one counts."""

    data: Any
    repeated: list[RepeatedField]


def read_documents(text: str, *, source: str) -> Iterator[Any]:
    """Read every document that is not empty. An error names the source and the line."""
    try:
        yield from (document.data for document in parse_documents(text) if document.data is not None)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        location = f"{source}, line {mark.line + 1}, column {mark.column + 1}" if mark else source
        problem = getattr(error, "problem", None) or str(error)
        raise InputError(location, f"invalid YAML: {problem}", hint=comment_hint(text)) from error


def parse_documents(text: str) -> Iterator[ParsedDocument]:
    """Yield documents one by one. Raise YAMLError with the position of an error."""
    events = yaml.parse(text, Loader=_Loader)
    for event in events:
        if isinstance(event, yaml.DocumentStartEvent):
            reader = _Reader(events)
            yield ParsedDocument(reader.read(next(events), "")[0], reader.repeated)


class _Reader:
    """Builds the data of a document. Every node has a size: its number of characters and nodes."""

    def __init__(self, events: Iterator[Any]) -> None:
        self.repeated: list[RepeatedField] = []
        self._events = events
        self._anchors: dict[str, tuple[Any, int] | None] = {}
        self._aliased = 0
        self._depth = 0

    def read(self, event: Any, path: str) -> tuple[Any, int]:
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event)
        anchor = event.anchor
        if isinstance(event, yaml.ScalarEvent):
            node: tuple[Any, int] = _scalar(event), 1 + len(event.value)
        else:
            if anchor:
                self._anchors[anchor] = None  # incomplete
            self._depth += 1
            if self._depth > MAX_DEPTH:
                raise _error(event, f"exceeded max depth of {MAX_DEPTH}")
            is_sequence = isinstance(event, yaml.SequenceStartEvent)
            if event.tag not in (None, "!", f"{_TAG}{'seq' if is_sequence else 'map'}"):
                raise _error(event, f"could not determine a constructor for the tag {event.tag!r}")
            node = self._sequence(path) if is_sequence else self._mapping(path)
            self._depth -= 1
        if anchor:
            self._anchors[anchor] = node
        return node

    def _alias(self, event: yaml.AliasEvent) -> tuple[Any, int]:
        if event.anchor not in self._anchors:
            raise _error(event, f"unknown anchor '{event.anchor}' referenced")
        node = self._anchors[event.anchor]
        if node is None:
            raise _error(event, f"anchor '{event.anchor}' value contains itself")
        self._aliased += node[1]
        if self._aliased > MAX_ALIASED:
            raise _error(event, "document contains excessive aliasing")
        return node

    def _sequence(self, path: str) -> tuple[list[Any], int]:
        items: list[Any] = []
        size = 1
        for event in self._events:
            if isinstance(event, yaml.SequenceEndEvent):
                break
            item, its_size = self.read(event, f"{path}[{len(items)}]")
            items.append(item)
            size += its_size
        return items, size

    def _mapping(self, path: str) -> tuple[dict[Any, Any], int]:
        own: dict[Any, Any] = {}
        merged_mapping: dict[Any, Any] = {}
        seen_keys: set[str] = set()
        size = 1
        for event in self._events:
            if isinstance(event, yaml.MappingEndEvent):
                break
            key, key_size = self.read(event, path)
            if isinstance(key, dict | list):
                raise _error(event, "found unhashable key", "while constructing a mapping")
            text = event.value if isinstance(event, yaml.ScalarEvent) else str(key)
            below = f"{path}.{text}" if path else text
            after = next(self._events)
            content, content_size = self.read(after, below)
            size += key_size + content_size
            if _is_merge(event):
                merged_mapping = {**_to_merge(content, after), **merged_mapping}
                continue
            if text in seen_keys:
                self.repeated.append(RepeatedField(below, event.start_mark.line + 1))
            seen_keys.add(text)
            own[key] = content
        return merged_mapping | own if merged_mapping else own, size


def _is_merge(event: Any) -> bool:
    if not isinstance(event, yaml.ScalarEvent) or event.value != _MERGE:
        return False
    return event.tag == f"{_TAG}merge" or (event.tag is None and event.implicit[0])


def _to_merge(content: Any, event: Any) -> dict[Any, Any]:
    """Return the entries of a merge key. The first of several mappings takes precedence."""
    merged_mapping: dict[Any, Any] = {}
    for mapping in content if isinstance(content, list) else [content]:
        if not isinstance(mapping, dict):
            raise _error(event, "map merge requires map or sequence of maps as the value")
        merged_mapping = {**mapping, **merged_mapping}
    return merged_mapping


def _scalar(event: yaml.ScalarEvent) -> Any:
    text, tag = event.value, event.tag
    if tag is None or tag == "!":
        return _plain(text, event) if event.implicit[0] and tag is None else text
    construct = _TAGGED.get(tag.removeprefix(_TAG))
    if construct is None or not tag.startswith(_TAG):
        raise _error(event, f"could not determine a constructor for the tag {tag!r}")
    try:
        return construct(text)
    except (ValueError, KeyError) as error:
        problem = f"cannot decode !!str `{text[:40]}` as a !!{tag.removeprefix(_TAG)}"
        raise _error(event, problem) from error


def _plain(text: str, event: yaml.ScalarEvent) -> Any:
    """Read a scalar without quotes or tag: by how it looks."""
    if text in _NULLS:
        return None
    if text in _BOOLS:
        return _BOOLS[text]
    if text[0] not in _STARTS_NUMBER:
        return text
    if _NOT_FINITE(text):
        raise _error(event, f"json: unsupported value: {text}")
    try:
        return _number(text)
    except ValueError:
        return text


def _number(text: str) -> int | float:
    """Read a number as Go does: a machine word, else a float; ValueError if it is neither."""
    if _INT(text) and len(text) <= _MAX_DIGITS:
        plain = text.replace("_", "")
        digits = plain.lstrip("+-")
        # A leading zero means base 8, which Python writes otherwise; what has an 8 or 9 in it is a float, then.
        is_octal = len(digits) > 1 and digits[0] == "0" and digits[1] not in "bx"
        number = None if is_octal and not _OCTAL(digits) else int(plain, 8 if is_octal else 0)
        if number is not None and -(2**63) <= number < 2**64:
            return number
    if not _FLOAT(text) or len(text) > _MAX_DIGITS or isinf(value := float(text)):
        raise ValueError(text[:40])
    return value


def _integer(text: str) -> int | float:
    if not _INT(text):
        raise ValueError(text[:40])
    return _number(text)


_TAGGED: Final[dict[str, Callable[[str], Any]]] = {
    "str": str,
    "timestamp": str,
    "null": dict.fromkeys(_NULLS).__getitem__,
    "bool": _BOOLS.__getitem__,
    "int": _integer,
    "float": lambda text: float(_number(text)),
    "binary": lambda text: b64decode(text, validate=True).decode(),
}
"""Constructors of tagged scalars. They raise ValueError or KeyError for texts that do not fit."""


def _error(event: Any, problem: str, context: str | None = None) -> yaml.MarkedYAMLError:
    return yaml.MarkedYAMLError(context, None, problem, event.start_mark)
