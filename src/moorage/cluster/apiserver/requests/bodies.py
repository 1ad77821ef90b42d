"""Reading request bodies: JSON, YAML and Kubernetes' protobuf, into plain data without nulls."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from moorage.cluster.apiserver.requests.request import JSON, ApiRequest
from moorage.common.errors import InputError
from moorage.common.text import describe_type
from moorage.kube.api.codec import without_nulls
from moorage.kube.api.documents import parse_documents, read_documents
from moorage.kube.status_errors import bad_request, unsupported_media_type

YAML: Final = "application/yaml"
PROTOBUF: Final = "application/vnd.kubernetes.protobuf"
JSON_PATCH: Final = "application/json-patch+json"
MERGE_PATCH: Final = "application/merge-patch+json"
STRATEGIC_PATCH: Final = "application/strategic-merge-patch+json"
APPLY_PATCH: Final = "application/apply-patch+yaml"
PATCHES: Final = (JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, APPLY_PATCH)
MAX_DEPTH: Final = 200

_LONG_NUMBER: Final = re.compile(rb"[0-9]{19}").search
_decode_any: Final = msgspec.json.Decoder().decode


def media_type(header: str) -> str:
    """Return a content type without its parameters."""
    return header.partition(";")[0].strip().lower()


def read_object(request: ApiRequest, drop_nulls: Callable[[Any], Any] = without_nulls) -> dict[str, Any]:
    """Decode the object in a body; 400 if it is missing, 415 for unsupported formats."""
    kind = media_type(request.content_type)
    if kind == PROTOBUF:
        # Imported on demand: only kubectl and kube-scheduler send it, and the library is large.
        from moorage.cluster.apiserver.requests.protobuf import decode_protobuf

        data: Any = decode_protobuf(request.body)
    elif kind in (JSON, ""):
        data = read_json(request.body)
    elif kind == YAML:
        data = read_yaml(request.body)
    else:
        raise unsupported_media_type((JSON, YAML, PROTOBUF))
    return _check(drop_nulls(data) if kind == YAML or b"null" in request.body else data)


def read_patch(request: ApiRequest) -> tuple[str, Any]:
    """Read a patch and which kind of patch it is."""
    kind = media_type(request.content_type)
    if kind not in PATCHES:
        raise unsupported_media_type(PATCHES)
    patch = read_yaml(request.body, is_strict=True) if kind == APPLY_PATCH else read_json(request.body)
    if kind == JSON_PATCH:
        return kind, patch
    if not isinstance(patch, dict):
        raise bad_request(f"a patch is an object, found {describe_type(patch)}")
    return kind, _check(without_nulls(patch)) if kind == APPLY_PATCH else patch


def read_options(request: ApiRequest, kind: str) -> dict[str, Any]:
    """Read the options in a body. The body may be empty."""
    if not request.body:
        return {}
    options = read_object(request)
    if options.get("kind", kind) != kind:
        raise bad_request(f"expected {kind}, found {options['kind']!r}")
    return options


def read_json(body: bytes) -> Any:
    """Decode JSON. A 400 error reports the position of a syntax error."""
    if not body:
        raise bad_request("the request has no body")
    try:
        data = _decode_any(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad_request(f"couldn't get version/kind; json parse error: {error}") from error
    # Counting brackets is cheap. Only data with many brackets can be nested too deeply.
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        _check_depth(data)
    return _with_words(data) if _LONG_NUMBER(body) else data


class _Mapping(dict[str, Any]):
    """A mapping with its duplicate keys."""

    repeated: tuple[str, ...] = ()


def repeated_fields(body: bytes) -> list[str]:
    """Return the paths of duplicate fields in valid JSON.

    >>> repeated_fields(b'{"spec": {"paused": true, "paused": false}}')
    ['spec.paused']
    """
    has_duplicates = False

    def paired(pairs: list[tuple[str, Any]]) -> _Mapping:
        nonlocal has_duplicates
        mapping = _Mapping(pairs)
        if len(mapping) < len(pairs):
            has_duplicates = True
            mapping.repeated = tuple(name for name, times in Counter(name for name, _ in pairs).items() if times > 1)
        return mapping

    data = json.loads(body, object_pairs_hook=paired, parse_int=str, parse_float=str)
    return list(_find_repeated(data, "")) if has_duplicates else []


def _find_repeated(data: Any, path: str) -> Iterator[str]:
    if isinstance(data, _Mapping):
        for name, below in data.items():
            field_path = f"{path}.{name}" if path else name
            if name in data.repeated:
                yield field_path
            yield from _find_repeated(below, field_path)
    elif isinstance(data, list):
        for number, item in enumerate(data):
            yield from _find_repeated(item, f"{path}[{number}]")


def _with_words(data: Any) -> Any:
    """Convert integers beyond 64 bits to floats, as Go's decoder does."""
    if isinstance(data, dict):
        return {key: _with_words(item) for key, item in data.items()}
    if isinstance(data, list):
        return [_with_words(item) for item in data]
    if isinstance(data, int) and not -(2**63) <= data < 2**64:
        try:
            return float(data)
        except OverflowError as error:
            raise bad_request(f"json: cannot unmarshal number {data} into Go value of type float64") from error
    return data


def read_yaml(body: bytes, *, is_strict: bool = False) -> Any:
    """Decode YAML or JSON. A strict reader rejects duplicate fields."""
    if body[:1] == b"{":
        return read_json(body)
    try:
        documents = list(read_documents(body.decode(), source="the body"))
        parsed = parse_documents(body.decode()) if is_strict else ()
        repeated = [(item.line, item.path.rpartition(".")[2]) for document in parsed for item in document.repeated]
    except (InputError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise bad_request(str(error)) from error
    if repeated:
        lines = "\n".join(f'  line {line}: key "{key}" already set in map' for line, key in repeated)
        raise bad_request(f"error decoding YAML: yaml: unmarshal errors:\n{lines}")
    if len(documents) != 1:
        raise bad_request(f"a request has one object, found {len(documents)}")
    try:
        # Convert through JSON: types that JSON lacks (dates, non-string keys) are rejected or become strings here.
        data = _decode_any(msgspec.json.encode(documents[0]))
    except (TypeError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise bad_request(f"this YAML cannot be written as JSON: {error}") from error
    _check_depth(data)
    return data


def _check_depth(data: Any) -> None:
    level = [data]
    for _ in range(MAX_DEPTH):
        below: list[Any] = []
        for item in level:
            if isinstance(item, dict):
                below += [part for part in item.values() if isinstance(part, dict | list)]
            elif isinstance(item, list):
                below += [part for part in item if isinstance(part, dict | list)]
        if not below:
            return
        level = below
    raise bad_request(f"the body is nested more than {MAX_DEPTH} levels deep")


def _check(cleaned: Any) -> dict[str, Any]:
    if not isinstance(cleaned, dict):
        raise bad_request(f"an object is expected, found {describe_type(cleaned)}")
    metadata = cleaned.setdefault("metadata", {})
    if not isinstance(metadata, dict):
        raise bad_request(f"metadata: an object is expected, found {describe_type(metadata)}")
    for name in ("apiVersion", "kind"):
        if not isinstance(cleaned.get(name, ""), str):
            raise bad_request(f"{name}: a string is expected, found {describe_type(cleaned[name])}")
    return cleaned
