"""Decorators that turn a plain function into a plugin."""

import inspect
from collections.abc import Callable
from typing import TypeAlias, TypeVar, overload

import numpy as np

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.faults import InvalidReturn, definition, shown
from moorage.scheduler.framework.go_names import plain
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, ScorePlugin
from moorage.scheduler.framework.status import Status

T = TypeVar("T")


Accepts: TypeAlias = Callable[[Pod, NodeInfo], "bool | Status"]
Scores: TypeAlias = Callable[[Pod, NodeInfo], int]


@overload
def filter_function(reason: Accepts) -> type[FilterPlugin]: ...
@overload
def filter_function(reason: str = "") -> Callable[[Accepts], type[FilterPlugin]]: ...


def filter_function(reason: str | Accepts = "") -> type[FilterPlugin] | Callable[[Accepts], type[FilterPlugin]]:
    """Turn a function that returns whether a node is feasible into a Filter plugin. Users see ``reason``.

    The function may also return a Status. Without parentheses, the reason names the function.

    >>> @filter_function("node(s) were not spot capacity")
    ... def spot_only(pod: Pod, node: NodeInfo) -> bool:
    ...     return node.labels.get("capacity") == "spot"
    >>> spot_only.name
    'spot_only'
    """
    if callable(reason):
        return filter_function()(reason)

    def decorate(accepts: Accepts) -> type[FilterPlugin]:
        _check(accepts, "filter_function", "bool")
        rejected = Status.unresolvable(reason or f"node(s) were rejected by {accepts.__name__}")

        class FunctionFilter(FilterPlugin):
            """A function as a Filter plugin."""

            name = accepts.__name__
            _author_function = staticmethod(accepts)

            def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
                result = accepts(pod, node)
                if result is True or result is False or isinstance(result, np.bool_):
                    return None if result else rejected
                if isinstance(result, Status):
                    return result
                # Truth is ambiguous: None means success in classes, and the label value "false" is true.
                location = f"{accepts.__name__} ({definition(accepts)})"
                raise InvalidReturn(
                    f"{location} returned {shown(result)}: return True to accept the node, or False to reject it"
                )

        return _copy_name(FunctionFilter, accepts)

    return decorate


@overload
def score_function(function: Scores) -> type[ScorePlugin]: ...
@overload
def score_function() -> Callable[[Scores], type[ScorePlugin]]: ...


def score_function(function: Scores | None = None) -> type[ScorePlugin] | Callable[[Scores], type[ScorePlugin]]:
    """Turn a function that scores a node from 0 to 100 into a Score plugin."""
    return _scores if function is None else _scores(function)


def _scores(function: Scores) -> type[ScorePlugin]:
    _check(function, "score_function", "int")

    class FunctionScore(ScorePlugin):
        """A function as a Score plugin."""

        name = function.__name__
        _author_function = staticmethod(function)

        def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
            return function(pod, node)

    return _copy_name(FunctionScore, function)


def _check(function: Callable[..., object], decorator: str, result: str) -> None:
    """Raise TypeError for a function that cannot be called with a pod and a node."""
    name = getattr(function, "__name__", repr(function))
    hint = f"write @{decorator} above `def {name}(pod, node) -> {result}`"
    if not inspect.isfunction(function):
        raise TypeError(f"{name} is not a function: {hint}")
    if inspect.iscoroutinefunction(function) or inspect.isgeneratorfunction(function):
        raise TypeError(f"{name} is async or a generator, but is called inside the scheduling cycle: {hint}")
    names = [plain(parameter) for parameter in inspect.signature(function).parameters]
    try:
        inspect.signature(function).bind("pod", "node")
    except TypeError:
        problem = f"{name} takes ({', '.join(names)}), but is called with (pod, node)"
        raise TypeError(f"{problem}: {hint}") from None
    if names[:1] in (["node"], ["nodeinfo"]) or "nodename" in names or names[1:2] == ["pod"]:
        raise TypeError(f"{name} takes ({', '.join(names)}), but is called with (pod, node): {hint}")


def _copy_name(cls: type[T], function: Callable[..., object]) -> type[T]:
    """Make tracebacks and help show the author's function instead of the wrapper."""
    cls.__name__ = cls.__qualname__ = function.__name__
    cls.__doc__ = function.__doc__ or cls.__doc__
    cls.__module__ = function.__module__
    return cls
