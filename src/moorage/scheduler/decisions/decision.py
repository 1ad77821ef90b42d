"""The decision format: the result of each attempt and its reasons. The kube-scheduler oracle writes the same format.

Fields that equal their default are omitted.

>>> decision = Decision(pod="default/web-1", profile="default-scheduler", result=Result.SCHEDULED, node="n1")
>>> to_json([decision])
b'{"decisions":[{"pod":"default/web-1","profile":"default-scheduler","result":"scheduled","node":"n1"}]}'
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import yaml


class Result(StrEnum):
    """The result of an attempt."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"
    GATED = "gated"
    INCOMPLETE = "incomplete"


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A part of a decision: camelCase keys, defaults omitted."""


class PluginScore(msgspec.Struct, frozen=True, gc=False):
    """The scores of a plugin for one node. Zeros are written."""

    raw: int
    normalized: int
    weighted: int


class Rejection(_Part, frozen=True):
    """A status that rejected the pod or a node. ``plugin`` is empty where PreFilter narrowed the search."""

    plugin: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()


class NodeEntry(_Part, frozen=True):
    """The result for one node: a rejection or scores. It is empty for the only feasible node.

    ``extenders`` is the weighted score that extenders added to the total.
    """

    plugin: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()
    total: int | None = None
    scores: dict[str, PluginScore] | None = None
    extenders: int | None = None

    @property
    def is_rejected(self) -> bool:
        """Whether the node cannot run the pod."""
        return bool(self.code)


class Nomination(msgspec.Struct, frozen=True, rename="camel"):
    """The result of PostFilter: the node, and the pods to evict from it, sorted."""

    nominated_node: str
    victims: tuple[str, ...] = ()


class Decision(_Part, frozen=True, kw_only=True):
    """One pod's attempt, or the last of several.

    ``attempts``, ``evicted`` and ``nominated_node`` describe the final state. A dry run omits them.
    """

    pod: str
    profile: str
    result: Result
    node: str = ""
    tied: tuple[str, ...] = ()
    message: str = ""
    unschedulable_plugins: tuple[str, ...] = ()
    pre_filter: Rejection | None = None
    nodes: dict[str, NodeEntry] = {}
    post_filter: Nomination | None = None
    attempts: int = 0
    evicted: bool = False
    nominated_node: str = ""


def to_builtins(decisions: Iterable[Decision]) -> dict[str, Any]:
    """Convert decisions to plain data."""
    return {"decisions": [msgspec.to_builtins(decision) for decision in decisions]}


def to_json(decisions: Sequence[Decision]) -> bytes:
    """Write decisions as JSON on one line."""
    return msgspec.json.encode({"decisions": decisions})


def json_chunks(decisions: Iterable[Decision], more: Mapping[str, Any] | None = None) -> Iterator[bytes]:
    """Write decisions as indented JSON, one chunk each, followed by ``more``: the entire text may have gigabytes."""
    yield b'{\n  "decisions": ['
    separator = b"\n    "
    for decision in decisions:
        # Strings in JSON contain no line breaks, so each one begins a line.
        yield separator + _indent(decision).replace(b"\n", b"\n    ")
        separator = b",\n    "
    yield b"]" if separator == b"\n    " else b"\n  ]"
    for key, value in (more or {}).items():
        yield b",\n  " + msgspec.json.encode(key) + b": " + _indent(value).replace(b"\n", b"\n  ")
    yield b"\n}\n"


def yaml_chunks(decisions: Iterable[Decision], more: Mapping[str, Any] | None = None) -> Iterator[bytes]:
    """Write decisions as YAML, keys in the order of the format, one chunk each, followed by ``more``."""
    is_empty = True
    for decision in decisions:
        yield (b"decisions:\n" if is_empty else b"") + _yaml([msgspec.to_builtins(decision)])
        is_empty = False
    if is_empty:
        yield b"decisions: []\n"
    if more:
        yield _yaml(msgspec.to_builtins(more))


def _indent(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2)


def _yaml(data: object) -> bytes:
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    return yaml.dump(data, Dumper=dumper, sort_keys=False, encoding="utf-8", allow_unicode=True, width=10_000)
