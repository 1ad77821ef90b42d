"""The engine's interface of an extender: a web service for filtering, scoring, preempting and binding."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct, field

from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.handle import PreemptionExtender
from moorage.scheduler.framework.nodeinfo import NodeInfo


class Filtered(Struct, frozen=True):
    """The feasible nodes in the extender's order, and reasons for other nodes. Nodes may be missing without a reason.

    ``stand_ins`` contains the nodes as the extender returned them, if it returned objects instead of names.
    """

    names: tuple[str, ...]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)
    stand_ins: Mapping[str, Node] = field(default_factory=dict)


class Extender(PreemptionExtender, Protocol):
    """One service. The engine calls only the supported verbs. A failed call raises ExtenderError."""

    weight: int
    """The weight of its scores."""
    is_filter: bool
    """Whether it rejects nodes."""
    is_prioritizer: bool
    """Whether it scores nodes."""
    is_binder: bool
    """Whether it binds pods itself."""

    def is_interested_in(self, pod: Pod) -> bool:
        """Return whether the extender handles a pod."""
        ...

    async def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Filtered:
        """Return the feasible nodes."""
        ...

    async def prioritize(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Mapping[str, int]:
        """Score nodes from 0 to 10, by name."""
        ...

    async def bind(self, pod: Pod, node_name: str) -> None:
        """Bind a pod to a node."""
        ...


def in_order(extenders: Iterable[Extender]) -> tuple[Extender, ...]:
    """Put the extenders that may be ignored last, as upstream does."""
    return tuple(sorted(extenders, key=lambda extender: extender.is_ignorable))
