"""The engine's interface of an extender: a web service for filtering, scoring, preempting and binding."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.filtered import Filtered
from moorage.scheduler.framework.handle import PreemptionExtender
from moorage.scheduler.framework.nodeinfo import NodeInfo


class Extender(PreemptionExtender, Protocol):
    """One service. The engine calls only the supported verbs; a failed call raises ExtenderError."""

    @property
    def weight(self) -> int:
        """The weight of its scores."""
        ...

    @property
    def is_filter(self) -> bool:
        """Whether it rejects nodes."""
        ...

    @property
    def is_prioritizer(self) -> bool:
        """Whether it scores nodes."""
        ...

    @property
    def is_binder(self) -> bool:
        """Whether it binds pods itself."""
        ...

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
    """Put the extenders that may be ignored behind the others, as upstream does."""
    return tuple(sorted(extenders, key=lambda extender: extender.is_ignorable))
