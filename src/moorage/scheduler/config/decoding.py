"""Strict decoding of plain data into structs, which reports all problems instead of the first.

msgspec stops at the first error, so this walks structs, lists and optional values itself and leaves only single values
to msgspec. A null means "not written", as in Go.
"""

import json
from collections.abc import Mapping
from types import NoneType, UnionType
from typing import Annotated, Any, Final, TypeVar, Union, get_args, get_origin

import msgspec
from msgspec import Struct, field

from moorage.common.errors import ConfigError, comment_hint, describe_mismatch, did_you_mean
from moorage.scheduler.config.durations import Duration

T = TypeVar("T", bound=msgspec.Struct)

_MISSING: Final = object()
HIDDEN: Final = "(hidden)"
_IN_WORDS: Final = {
    bool: "true or false",
    int: "an integer",
    float: "a number",
    str: "a string",
    bytes: "base64 text",
}


class Decoder(Struct):
    """Decodes a document and collects its problems.

    `surplus` contains unknown fields. The rest of the document is still used. `mismatches` contains values of the wrong
    type, which are treated as absent: fields near them are not validated. `shortened` contains lists that lost such
    an element, which moves the following ones. `replaced` has hints for the paths of unknown fields. `later` contains
    names of fields that the release does not have yet.
    """

    surplus: list[ConfigError] = field(default_factory=list)
    mismatches: list[ConfigError] = field(default_factory=list)
    shortened: list[str] = field(default_factory=list)
    replaced: Mapping[str, str] = {}
    later: frozenset[str] = frozenset()

    def struct(self, kind: type[T], data: Any, location: str) -> T | None:
        """Decode a mapping; a field that cannot be decoded keeps its default. `None` when that leaves no struct."""
        values: dict[str, Any] = {}
        if not isinstance(data, dict):
            self._mismatch(location, "a mapping of fields", data)
            return None
        fields = {info.encode_name: info for info in msgspec.structs.fields(kind)}
        for name in self.later & fields.keys():
            del fields[name]
        for name, content in data.items():
            path = _field_path(location, str(name))
            if name not in fields:
                hint = self.replaced.get(path) or comment_hint(name) or did_you_mean(str(name), [*fields])
                hint = hint or f"the fields here are {', '.join(sorted(fields))}"
                self.surplus.append(ConfigError(path, "unknown field", hint=hint))
            elif content is not None:
                value = self._value(fields[name].type, content, path)
                if value is not _MISSING:
                    values[fields[name].name] = value
        return self._build(kind, values, location)

    def _build(self, kind: type[T], values: dict[str, Any], location: str) -> T | None:
        required = [info for info in msgspec.structs.fields(kind) if info.required]
        absent = [info.encode_name for info in required if info.name not in values]
        self.mismatches += [ConfigError(_field_path(location, name), "Required value") for name in absent]
        return None if absent else kind(**values)

    def _value(self, kind: Any, content: Any, location: str) -> Any:
        origin = get_origin(kind)
        if origin in (Union, UnionType):
            choices = [choice for choice in get_args(kind) if choice is not NoneType]
            return (
                self._value(choices[0], content, location)
                if len(choices) == 1
                else self._single(kind, content, location)
            )
        if origin in (tuple, list):
            return self._list(kind, content, location)
        if kind is Duration:
            if not isinstance(content, str):
                self._mismatch(location, 'a duration with its unit, such as "15s" or "1m30s"', content)
                return _MISSING
            try:
                return Duration.parse(content)
            except ValueError as error:
                self.mismatches.append(
                    ConfigError(location, str(error), hint='write a duration such as "15s" or "1m30s"')
                )
                return _MISSING
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
            return _MISSING if (decoded := self.struct(kind, content, location)) is None else decoded
        return self._single(kind, content, location)

    def _list(self, kind: Any, content: Any, location: str) -> Any:
        element, origin = get_args(kind)[0], get_origin(kind)
        if not isinstance(content, list):
            self._mismatch(location, "a list", content)
            return _MISSING
        # A null in a list of structs is an empty struct, as in Go.
        filled = [{} if item is None else item for item in content]
        values = [self._value(element, item, f"{location}[{index}]") for index, item in enumerate(filled)]
        valid = origin(value for value in values if value is not _MISSING)
        if len(valid) < len(values):
            self.shortened.append(location)
        return valid

    def _single(self, kind: Any, content: Any, location: str) -> Any:
        # YAML's 16.0 is JSON's 16 upstream, and an integer here too.
        if isinstance(content, float) and content.is_integer() and _bare(kind) is int:
            content = int(content)
        try:
            return msgspec.convert(content, kind)
        except msgspec.ValidationError as error:
            bare = _bare(kind)
            if bare in _IN_WORDS:
                # An invalid base64 value may be a key, so it is not shown.
                self._mismatch(location, _describe_type(kind), content if bare is not bytes else HIDDEN)
            else:
                inner, problem = describe_mismatch(error)
                separator = "." if inner and not inner.startswith("[") else ""
                self.mismatches.append(ConfigError(f"{location}{separator}{inner}", problem))
            return _MISSING

    def _mismatch(self, location: str, expected: str, content: Any) -> None:
        hint = "put it in quotes" if expected == _IN_WORDS[str] and isinstance(content, int | float) else ""
        hint = hint or comment_hint(content)
        field_path = location or "the document"
        self.mismatches.append(ConfigError(field_path, f"expected {expected}, found {_excerpt(content)}", hint=hint))


def _bare(kind: Any) -> Any:
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _describe_type(kind: Any) -> str:
    words = _IN_WORDS[_bare(kind)]
    bounds = next((meta for meta in get_args(kind)[1:] if isinstance(meta, msgspec.Meta)), None)
    return f"{words} from {bounds.ge} to {bounds.le}" if bounds and bounds.ge is not None else words


def _excerpt(content: Any) -> str:
    text = json.dumps(content, ensure_ascii=False, separators=(",", ":"))
    return text if len(text) <= 60 else f"{text[:57]}..."


def _field_path(parent: str, name: str) -> str:
    return f"{parent}.{name}" if parent else name
