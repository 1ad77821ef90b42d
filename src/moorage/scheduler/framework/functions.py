"""Decorators that turn a plain function into a plugin."""

from collections.abc import Callable
from typing import TypeVar

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, ScorePlugin
from moorage.scheduler.framework.status import Status

T = TypeVar("T")


def filter_function(reason: str) -> Callable[[Callable[[Pod, NodeInfo], bool]], type[FilterPlugin]]:
    """Turn a function that returns whether a node is feasible into a Filter plugin; users see ``reason``.

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


def score_function(function: Callable[[Pod, NodeInfo], int]) -> type[ScorePlugin]:
    """Turn a function that scores a node from 0 to 100 into a Score plugin."""

    class FunctionScore(ScorePlugin):
        """A function as a Score plugin."""

        name = function.__name__

        def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
            return function(pod, node)

    return _named_after(FunctionScore, function)


def _named_after(cls: type[T], function: Callable[..., object]) -> type[T]:
    """Make tracebacks and help show the author's function instead of the wrapper."""
    cls.__name__ = cls.__qualname__ = function.__name__
    cls.__doc__ = function.__doc__ or cls.__doc__
    cls.__module__ = function.__module__
    return cls
