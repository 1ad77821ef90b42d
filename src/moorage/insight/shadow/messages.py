"""The messages between the scheduler and its shadow."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Raw, Struct

from moorage.insight.explain.in_scheduler import ExplainRequest
from moorage.scheduler.decisions.decision import NodeEntry

AGREES: Final = "agrees"
DIFFERS: Final = "differs"
UNSURE: Final = "unsure"
ERROR: Final = "error"


class _Message(Struct, frozen=True, array_like=True, gc=False):
    """A message; one byte names its kind."""


class Known(_Message, frozen=True, tag="k"):
    """The current state of an object."""

    kind: str
    obj: Raw


class Removed(_Message, frozen=True, tag="g"):
    """An object that is no more."""

    kind: str
    key: str
    is_final: bool = True


class Assumed(_Message, frozen=True, tag="a"):
    """A pod that was given a node."""

    key: str
    node: str


class Forgotten(_Message, frozen=True, tag="f"):
    """A pod from which its node was taken back."""

    key: str


class Whole(_Message, frozen=True, tag="w"):
    """All that there was has been sent; these pods are on their way to their nodes."""

    assumed: list[tuple[str, str]]


class Question(_Message, frozen=True, tag="q"):
    """A pod on which the scheduler has decided just now, before that changed anything; no node: it fits nowhere."""

    number: int
    key: str
    node: str
    time: str


Message: TypeAlias = Known | Removed | Assumed | Forgotten | Whole | Question


class ShadowSetup(Struct, frozen=True):
    """How both are set up, and which kinds the scheduler follows: what else the shadow needs it reads itself."""

    in_charge: ExplainRequest
    file: str
    plugins: tuple[str, ...]
    kinds: tuple[str, ...]


class ShadowReady(Struct, frozen=True, tag="ready"):
    """The shadow has been put together."""


class ShadowWhole(Struct, frozen=True, tag="whole"):
    """The shadow knows all that there was; questions may come."""


class ShadowBroken(Struct, frozen=True, tag="broken"):
    """The shadow cannot be used."""

    problem: str


class Comparison(Struct, frozen=True, omit_defaults=True, rename="camel", tag="compared"):
    """Both decisions for one pod; also a line of `--shadow-log`.

    ``node`` is the choice of the active configuration, ``shadow_node`` that of the shadow; empty without a feasible
    node. ``because`` is the plugin that caused the difference. ``in_charge`` and ``shadow`` are the verdicts on both
    nodes.
    """

    number: int
    time: str
    pod: str
    profile: str
    result: str
    node: str = ""
    shadow_node: str = ""
    because: str = ""
    message: str = ""
    in_charge: dict[str, NodeEntry] = {}
    shadow: dict[str, NodeEntry] = {}


Answer: TypeAlias = ShadowReady | ShadowWhole | ShadowBroken | Comparison

_encode = msgspec.msgpack.Encoder().encode


def as_raw(obj: Struct) -> Raw:
    """Encode an object to be sent."""
    return Raw(_encode(obj))
