"""Files of Kubernetes objects as plain data, each with the place it came from."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from json import JSONDecoder
from typing import Any, Final, TextIO

import msgspec

from moorage.common.errors import InputError, comment_hint, did_you_mean
from moorage.common.text import describe_type
from moorage.common.user_files import MAX_OBJECTS, read_text
from moorage.kube.api.documents import read_documents
from moorage.kube.schema import find_kind_schema, locate_unknown_fields

STDIN: Final = "-"
_SCHEDULER_GROUP: Final = "kubescheduler.config.k8s.io/"
_MAX_UNKNOWN: Final = 5
_ESCAPE: Final = re.compile(r"\\(?:u[dD][89abAB]\w\w\\u[dD][c-fC-F]\w\w|(u[dD][89a-fA-F]\w\w)|.)", re.DOTALL)
"""An escape of JSON. The group is a surrogate without its pair."""


@dataclass(frozen=True, slots=True)
class Document:
    """One object as plain data. ``source`` is its file and position, for messages."""

    content: Mapping[str, Any]
    source: str

    @property
    def kind(self) -> str:
        """Return ``kind``, or empty if it is not a string."""
        return _text(self.content.get("kind"))

    @property
    def api_version(self) -> str:
        """Return ``apiVersion``, or empty if it is not a string."""
        return _text(self.content.get("apiVersion"))

    @property
    def title(self) -> str:
        """The source, kind and name of the object, for messages."""
        metadata = self.content.get("metadata")
        fields = metadata if isinstance(metadata, dict) else {}
        name = "/".join(part for part in (_text(fields.get("namespace")), _text(fields.get("name"))) if part)
        title = " ".join(part for part in (self.kind, name) if part)
        return f"{self.source} ({title})" if title not in {"", self.source} else self.source


def read_files(paths: Sequence[str], *, stdin: TextIO | None = None) -> Iterator[Document]:
    """Read every object of some files, in order of appearance. ``-`` is standard input."""
    for path in paths:
        text, source = read_manifest(path, stdin)
        is_empty = True
        for number, content in enumerate(_parse(text, source), start=1):
            is_empty = False
            for document in flatten(content, f"{source}, document {number}"):
                if document.api_version.startswith(_SCHEDULER_GROUP):
                    problem = "a scheduler configuration is not an object of the cluster"
                    raise InputError(document.title, problem, hint="pass it with --config")
                yield document
        if is_empty:
            raise InputError(source, "no objects", hint="write objects with apiVersion, kind and metadata")


def describe_unknown_fields(documents: Iterable[Document]) -> str:
    """Return a note on fields that a kind does not have, such as misspelled ones, or an empty text."""
    unknown = []
    for document in documents:
        schema = find_kind_schema(document.api_version, document.kind)
        if schema is not None:
            for path, key, owner in locate_unknown_fields(document.content, schema):
                hint = did_you_mean(key, owner.structs)
                unknown.append(f"{document.title}, {path}{f' ({hint})' if hint else ''}")
    more = f" and {len(unknown) - _MAX_UNKNOWN} more" if len(unknown) > _MAX_UNKNOWN else ""
    return f"unknown fields are ignored: {'; '.join(unknown[:_MAX_UNKNOWN])}{more}" if unknown else ""


def to_documents(contents: Iterable[Any], *, source: str) -> Iterator[Document]:
    """Return the documents of parsed objects."""
    for number, content in enumerate(contents, start=1):
        yield from flatten(content, f"{source}, object {number}")


def flatten(content: Any, source: str) -> Iterator[Document]:
    """Flatten lists at any depth. Items of a typed list need no kind."""
    if not isinstance(content, dict):
        raise InputError(
            source,
            f"expected a Kubernetes object, found {describe_type(content)}",
            hint=comment_hint(content) or "every document needs apiVersion, kind and metadata",
        )
    kind = _text(content.get("kind"))
    if not kind.endswith("List") or "items" not in content:
        yield Document(content, source)
        return
    items = content["items"] or []
    if not isinstance(items, list):
        raise InputError(f"{source}, items", f"expected a list of objects, found {describe_type(items)}")
    item_kind = kind.removesuffix("List")
    for index, item in enumerate(items):
        if isinstance(item, dict) and item_kind and "kind" not in item:
            item = {"apiVersion": content.get("apiVersion"), "kind": item_kind, **item}  # noqa: PLW2901
        yield from flatten(item, f"{source}, items[{index}]")


def read_manifest(path: str, stdin: TextIO | None = None) -> tuple[str, str]:
    """Return the text of a file and its name for messages. ``-`` is standard input."""
    if path != STDIN:
        hint = "pass a file of Kubernetes objects, or - for standard input"
        return read_text(path, limit=MAX_OBJECTS, hint=hint), path
    try:
        return (stdin or sys.stdin).read(), "standard input"
    except UnicodeDecodeError as error:
        raise InputError("standard input", "this is not UTF-8 text") from error


def _parse(text: str, source: str) -> Iterator[Any]:
    # JSON first where it looks like it: a snapshot of a big cluster parses a hundred times faster than as YAML.
    if text.lstrip().startswith("{"):
        try:
            yield from _json_documents(text)
        except (ValueError, RecursionError):
            # Not JSON, or too many digits or levels: the YAML reader reports the problem and its position.
            yield from read_documents(text, source=source)
    else:
        yield from read_documents(text, source=source)


def _json_documents(text: str) -> list[Any]:
    if "\\ud" in text or "\\uD" in text:
        # A lone surrogate cannot be encoded; Go replaces it by this character.
        text = _ESCAPE.sub(lambda escape: "\\ufffd" if escape[1] else escape[0], text)
    try:
        return [msgspec.json.decode(text)]
    except (msgspec.MsgspecError, UnicodeEncodeError):
        pass  # several documents, or numbers like NaN: the slower decoder of Python accepts these
    decoder = JSONDecoder()
    documents: list[Any] = []
    at = 0
    while True:
        while at < len(text) and text[at].isspace():
            at += 1
        if at == len(text):
            return documents
        content, at = decoder.raw_decode(text, at)
        documents.append(content)


def _text(content: Any) -> str:
    return content if isinstance(content, str) else ""
