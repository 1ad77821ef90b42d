"""Checks of plugin classes at registration: methods that must be async or not, and their parameters."""

import inspect
from collections.abc import Iterator
from typing import Any, Final

from moorage.scheduler.framework import group_plugins as group_points
from moorage.scheduler.framework import plugin as points

EXTENSION_POINTS: Final[dict[str, type[points.Plugin]]] = {
    "preEnqueue": points.PreEnqueuePlugin,
    "queueSort": points.QueueSortPlugin,
    "preFilter": points.PreFilterPlugin,
    "filter": points.FilterPlugin,
    "postFilter": points.PostFilterPlugin,
    "preScore": points.PreScorePlugin,
    "score": points.ScorePlugin,
    "reserve": points.ReservePlugin,
    "permit": points.PermitPlugin,
    "preBind": points.PreBindPlugin,
    "bind": points.BindPlugin,
    "postBind": points.PostBindPlugin,
    "placementGenerate": group_points.PlacementGeneratePlugin,
    "placementScore": group_points.PlacementScorePlugin,
    "podGroupPostFilter": group_points.PodGroupPostFilterPlugin,
}
"""The extension points by their name in the configuration."""

_FUNCTIONS: Final = (staticmethod, classmethod)
_AWAITABLE: Final = ("Coroutine", "Awaitable", "Future", "Task")
_BASES: Final[tuple[type[points.Plugin], ...]] = (points.Plugin, *EXTENSION_POINTS.values(), points.PreFilterExtensions)


def broken_contract(plugin: type[points.Plugin]) -> tuple[str, str] | None:
    """Find the first method that cannot be called as it will be: the problem, and what to write instead."""
    for name in ("call_timeout", "valid_for"):
        seconds = getattr(plugin, name)
        if seconds is not None and not (isinstance(seconds, int | float) and seconds > 0):
            return f"{plugin.name}.{name} is {seconds!r}", "write a number of seconds above 0, or None"
    for base in _BASES:
        if issubclass(plugin, base):
            for name, promised in _methods(base):
                if getattr(plugin, name) is not promised and (problem := _compare(plugin, name, promised)) is not None:
                    return problem
    return None


def never_called(plugin: type[points.Plugin]) -> list[tuple[str, str]]:
    """Return methods that belong to extension points which the class does not inherit from, with their base classes."""
    return [
        (name, base.__name__)
        for base in EXTENSION_POINTS.values()
        if not issubclass(plugin, base)
        for name, _ in _methods(base)
        if inspect.isfunction(getattr(plugin, name, None))
    ]


def _methods(base: type[points.Plugin]) -> Iterator[tuple[str, Any]]:
    return ((name, method) for name, method in vars(base).items() if inspect.isfunction(method) and name[0] != "_")


def _compare(plugin: type[points.Plugin], name: str, promised: Any) -> tuple[str, str] | None:
    method, where = getattr(plugin, name), f"{plugin.name}.{name}"
    if not callable(method):
        return f"{where} is {method!r}, which cannot be called", f"write `{_heading(name, promised)}`"
    inner = inspect.unwrap(method)
    waits = inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(inner)
    # A decorated function or a callable object may return an awaitable; a plain `def` does not unless annotated.
    is_plain = inner is method and (inspect.isfunction(method) or inspect.ismethod(method))
    returns = str(getattr(method, "__annotations__", {}).get("return", ""))
    is_plain = is_plain and not any(word in returns for word in _AWAITABLE)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        return f"{where} has a `yield`, so that calling it does nothing", "return the result instead"
    if inspect.iscoroutinefunction(promised) and not waits and is_plain:
        return f"{where} is awaited, but is no `async def`", f"write `async {_heading(name, promised)}`"
    if not inspect.iscoroutinefunction(promised) and waits:
        hint = f"write `{_heading(name, promised)}`; what has to wait goes into start, pre_bind or handle.in_background"
        return f"{where} is `async def`, but is called inside the scheduling cycle, and must not wait", hint
    called_with = list(inspect.signature(promised).parameters)
    is_bound = isinstance(inspect.getattr_static(plugin, name), _FUNCTIONS)
    try:
        signature = inspect.signature(method)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*(called_with[1:] if is_bound else called_with))
    except TypeError:
        problem = f"{where} takes {signature}, but is called with ({', '.join(called_with)})"
        return problem, f"write `{_heading(name, promised)}`"
    return None


def heading(plugin: type[points.Plugin], name: str) -> str:
    """Return the first line of a method that a plugin class owes to one of its bases."""
    promised = getattr(plugin, name)
    waits = "async " if inspect.iscoroutinefunction(promised) else ""
    return f"{waits}{_heading(name, promised)}"


def _heading(name: str, promised: Any) -> str:
    return f"def {name}({', '.join(inspect.signature(promised).parameters)})"
