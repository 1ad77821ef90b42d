"""The first step of the author's ladder: a plugin that is a plain function."""

from collections.abc import Callable
from typing import TypeVar

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, ScorePlugin
from moorage.scheduler.framework.status import Status

T = TypeVar("T")


def filter_function(reason: str) -> Callable[[Callable[[Pod, NodeInfo], bool]], type[FilterPlugin]]:
    """Make a Filter plugin of a function that tells whether a node will do; ``reason`` is what users read if not.

    >>> @filter_function("node(s) were not spot capacity")
    ... def spot_only(pod: Pod, node: NodeInfo) -> bool:
    ...     return node.labels.get("capacity") == "spot"
    >>> spot_only.name
    'spot_only'
    """
    rejected = Status.unresolvable(reason)

    def decorate(accepts: Callable[[Pod, NodeInfo], bool]) -> type[FilterPlugin]:
        class FunctionFilter(FilterPlugin):
            """A function as a Filter plugin."""

            name = accepts.__name__

            def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
                return None if accepts(pod, node) else rejected

        return _named_after(FunctionFilter, accepts)

    return decorate


def score_function(score_of: Callable[[Pod, NodeInfo], int]) -> type[ScorePlugin]:
    """Make a Score plugin of a function that scores a node from 0 to 100."""

    class FunctionScore(ScorePlugin):
        """A function as a Score plugin."""

        name = score_of.__name__

        def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
            return score_of(pod, node)

    return _named_after(FunctionScore, score_of)


def _named_after(cls: type[T], function: Callable[..., object]) -> type[T]:
    """Let tracebacks and help show the author's function, not our wrapper."""
    cls.__name__ = cls.__qualname__ = function.__name__
    cls.__doc__ = function.__doc__ or cls.__doc__
    cls.__module__ = function.__module__
    return cls
