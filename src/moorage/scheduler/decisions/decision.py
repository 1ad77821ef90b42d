"""What a scheduler decided and why, in the format that kube-scheduler's side of a comparison speaks too.

Keys that do not apply are absent: a struct leaves out what equals its default.

>>> placed = Decision(pod="default/web-1", profile="default-scheduler", result=Result.SCHEDULED, node="n1")
>>> to_json([placed])
b'{"decisions":[{"pod":"default/web-1","profile":"default-scheduler","result":"scheduled","node":"n1"}]}'
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Any

import msgspec
import yaml


class Result(StrEnum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"
    GATED = "gated"
    INCOMPLETE = "incomplete"


class _Part(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A piece of a decision: camelCase on the wire, what does not apply left out."""


class PluginScore(msgspec.Struct, frozen=True, gc=False):
    """What one score plugin said of one node; zeros are said, not left out."""

    raw: int
    normalized: int
    weighted: int


class Rejection(_Part, frozen=True):
    """A status that said no to the pod, or to a node; without ``plugin`` where PreFilter narrowed the search."""

    plugin: str = ""
    code: str = ""
    reasons: tuple[str, ...] = ()


class NodeEntry(_Part, frozen=True):
    """What was found out about one node: a rejection, or scores; nothing at all for the only feasible one.

    ``extenders`` is what they added to the total, as weighed.
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
    """What PostFilter found: the node, and the pods that would have to leave it, sorted."""

    nominated_node: str
    victims: tuple[str, ...] = ()


class Decision(_Part, frozen=True, kw_only=True):
    """One pod's attempt, or the last of several.

    ``attempts``, ``evicted`` and ``nominated_node`` say what happened in the end; a single pass leaves them out.
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
    """Turn decisions into plain data."""
    return {"decisions": [msgspec.to_builtins(decision) for decision in decisions]}


def to_json(
    decisions: Sequence[Decision], *, indent: int | None = None, more: Mapping[str, Any] | None = None
) -> bytes:
    """Write decisions as JSON, on one line or indented, and ``more`` after them."""
    line = msgspec.json.encode({"decisions": decisions, **(more or {})})
    return line if indent is None else msgspec.json.format(line, indent=indent)


def to_yaml(decisions: Iterable[Decision], *, more: Mapping[str, Any] | None = None) -> str:
    """Write decisions as YAML, keys in the order of the format, and ``more`` after them."""
    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    whole = {**to_builtins(decisions), **msgspec.to_builtins(more or {})}
    return yaml.dump(whole, Dumper=dumper, sort_keys=False, allow_unicode=True, width=10_000)
