"""An extender as the engine asks it: a web service that has a say in filtering, scoring, preempting and binding."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.filtered import Filtered
from moorage.scheduler.framework.handle import PreemptionExtender
from moorage.scheduler.framework.nodeinfo import NodeInfo


class Extender(PreemptionExtender, Protocol):
    """One service. What it does not do it is not asked; ExtenderError says that it failed."""

    @property
    def weight(self) -> int:
        """What its scores count."""
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
        """Return whether it wants to be asked about a pod."""
        ...

    async def filter(self, pod: Pod, nodes: Sequence[NodeInfo]) -> Filtered:
        """Say which nodes will do."""
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
