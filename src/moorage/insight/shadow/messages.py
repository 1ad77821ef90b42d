"""The messages between the scheduler and its shadow."""

from typing import Final, TypeAlias

import msgspec
from msgspec import Struct

from moorage.insight.explain.explain_events import ExplainRequest
from moorage.kube.api.kinds import find_kind
from moorage.kube.api.meta import KubeObject
from moorage.scheduler.decisions.decision import NodeEntry

AGREES: Final = "agrees"
DIFFERS: Final = "differs"
UNSURE: Final = "unsure"
ERROR: Final = "error"


class _Message(Struct, frozen=True, array_like=True, gc=False):
    """A message; one byte names its kind."""


class ObjectState(_Message, frozen=True, tag="k"):
    """The current state of an object."""

    kind: str
    json: bytes


class Removed(_Message, frozen=True, tag="g"):
    """A deleted object."""

    kind: str
    key: str
    is_final: bool = True


class Assumed(_Message, frozen=True, tag="a"):
    """An assumed pod."""

    key: str
    node: str


class Forgotten(_Message, frozen=True, tag="f"):
    """A pod that is no longer assumed."""

    key: str


class InitialObjectsSent(_Message, frozen=True, tag="w"):
    """The end of the initial objects, with the assumed pods and their nodes."""

    assumed: list[tuple[str, str]]


class DecisionRequest(_Message, frozen=True, tag="q"):
    """A decision of the scheduler, before it has effects. Without a node, the pod is infeasible."""

    number: int
    key: str
    node: str
    time: str


Message: TypeAlias = ObjectState | Removed | Assumed | Forgotten | InitialObjectsSent | DecisionRequest


class ShadowSetup(Struct, frozen=True):
    """The setup of both configurations, and the kinds that the scheduler sends. The shadow reads other kinds itself."""

    in_charge: ExplainRequest
    file: str
    plugins: tuple[str, ...]
    kinds: tuple[str, ...]


class ShadowSynced(Struct, frozen=True, tag="synced"):
    """The shadow has the initial objects and accepts requests."""


class ShadowBroken(Struct, frozen=True, tag="broken"):
    """The shadow cannot be used."""

    problem: str


class Comparison(Struct, frozen=True, omit_defaults=True, rename="camel", tag="compared"):
    """Both decisions for one pod; also a line of `--shadow-log`.

    ``node`` is the choice of the active configuration, ``shadow_node`` that of the shadow, or empty without a feasible
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


ShadowMessage: TypeAlias = ShadowSynced | ShadowBroken | Comparison


def encode_object(obj: KubeObject) -> ObjectState:
    """Encode an object to be sent; as JSON, since some structs hold fields that are still JSON."""
    return ObjectState(find_kind(type(obj)).full_name, msgspec.json.encode(obj))
