"""Checks of plugin classes at registration: names of methods, whether they are async, parameters and annotations."""

import inspect
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import CodeType, UnionType
from typing import Annotated, Any, Final, Union, get_args, get_origin, get_type_hints

from moorage.common.errors import did_you_mean
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework import group_plugins as group_points
from moorage.scheduler.framework import plugin as points
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.go_names import REMOVED, RENAMED, plain
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.nodetable import NodeTable
from moorage.scheduler.framework.status import Status

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
    "placementFeasible": group_points.PlacementFeasiblePlugin,
}
"""The extension points by their name in the configuration."""

_NAME: Final = re.compile(r"\w([\w./-]*\w)?")
_FUNCTIONS: Final = (staticmethod, classmethod)
_AWAITABLE: Final = ("Coroutine", "Awaitable", "Future", "Task")
_BASES: Final[tuple[type[points.Plugin], ...]] = (
    points.Plugin,
    *EXTENSION_POINTS.values(),
    points.PreFilterExtensions,
    group_points.GroupSourcePlugin,
)
_OWNERS: Final = {
    name: base
    for base in _BASES
    for name, method in vars(base).items()
    if inspect.isfunction(method) and not name.startswith("_")
}
"""The base class of each method that the scheduler calls."""
_FITS: Final[Mapping[str, frozenset[str]]] = {
    "ctx": frozenset(),
    "context": frozenset(),
    "cycle": frozenset({"cycle"}),
    "state": frozenset({"cycle"}),
    "cyclestate": frozenset({"cycle"}),
    "pod": frozenset({"pod", "added", "removed", "queued", "left", "right"}),
    "node": frozenset({"node", "node_name"}),
    "nodeinfo": frozenset({"node"}),
    "nodename": frozenset({"node_name"}),
    "nodes": frozenset({"nodes"}),
    "nodeinfos": frozenset({"nodes"}),
    "scores": frozenset({"scores"}),
    "handle": frozenset(),
}
"""The parameters for which an author's name of a parameter is right. Other names may mean anything."""
_OLD_POST_FILTER: Final = "; v1alpha1's PostFilter is `def pre_score(self, cycle, pod, nodes)` of PreScorePlugin"
_CLASSES: Final = {kind.__name__: kind for kind in (CycleState, Pod, NodeInfo, NodeTable, Status, points.QueuedPod)}


def broken_contract(plugin: type[points.Plugin]) -> tuple[str, str] | None:
    """Find the first method that cannot be called as it will be: the problem, and what to write instead."""
    if not isinstance(plugin.name, str) or not plugin.name:
        return f"the name of {plugin.__name__} is {plugin.name!r}", f'write `name = "{plugin.__name__}"`, not a method'
    if not _NAME.fullmatch(plugin.name):
        hint = f'write `name = "{plugin.__name__}"`: letters, digits, and _ . / - between them'
        return f"the name of {plugin.__name__} is {plugin.name!r}", hint
    if not isinstance(plugin.depends_on, points.DependsOn):
        hint = "write `depends_on = DependsOn.NODE`, or another DependsOn"
        return f"{plugin.name}.depends_on is {plugin.depends_on!r}", hint
    for name in ("call_timeout", "valid_for"):
        if (broken := broken_timeout(plugin, name)) is not None:
            return broken
    for base in _BASES:
        if issubclass(plugin, base):
            for name, contract in _methods(base):
                if getattr(plugin, name) is not contract and (problem := _compare(plugin, name, contract)) is not None:
                    return problem
    return next(_find_renamed(plugin), None)


def broken_timeout(plugin: points.Plugin | type[points.Plugin], name: str) -> tuple[str, str] | None:
    """Return the problem of a number of seconds, and what to write instead, or ``None`` if it is valid."""
    seconds = getattr(plugin, name)
    if seconds is None or (isinstance(seconds, int | float) and seconds > 0):
        return None
    return f"{plugin.name}.{name} is {seconds!r}", "write a number of seconds above 0, or None"


def _find_renamed(plugin: type[points.Plugin]) -> Iterator[tuple[str, str]]:
    """Find methods that have another name in Python than in Go, or had in an older version."""
    in_python = {plain(method): method for method in _OWNERS}
    for name in _find_uncalled(plugin):
        if name in _OWNERS:
            continue
        if (method := in_python.get(plain(name)) or RENAMED.get(plain(name))) is not None:
            owner = _OWNERS[method]
            inherit = "" if issubclass(plugin, owner) else f" and inherit from {owner.__name__}"
            hint = f"write `{heading(owner, method)}`{inherit}{_OLD_POST_FILTER if method == 'post_filter' else ''}"
            yield f"{plugin.name}.{name} is never called", hint
        elif plain(name) in REMOVED:
            yield f"{plugin.name}.{name} is never called", REMOVED[plain(name)]


def never_called(plugin: type[points.Plugin]) -> list[tuple[str, str]]:
    """Return methods that look like extension points but are not called, each with a hint."""
    warnings = []
    for name in _find_uncalled(plugin):
        if name in _OWNERS:
            if not issubclass(plugin, _OWNERS[name]):
                warnings.append((name, f"inherit from {_OWNERS[name].__name__} as well"))
        elif near := did_you_mean(name, [point for point in _OWNERS if not _defines(plugin, point)], cutoff=0.8):
            warnings.append((name, near))
    return warnings


def _find_uncalled(plugin: type[points.Plugin]) -> Iterator[str]:
    """Yield the author's public methods that no other code of the class and its bases uses."""
    own = [
        kind for kind in plugin.__mro__ if str(kind.__module__).partition(".")[0] != "moorage" and kind is not object
    ]
    members = [_unwrap_function(member) for kind in own for member in vars(kind).values()]
    referenced = {name for member in members for name in _collect_names(getattr(member, "__code__", None))}
    for kind in own:
        for name, method in vars(kind).items():
            if not name.startswith("_") and inspect.isfunction(inspect.unwrap(method)) and name not in referenced:
                yield name


def _unwrap_function(member: Any) -> Any:
    """Return the function of a method, class method, static method, property or decorated method."""
    member = member.fget if isinstance(member, property) else member
    return inspect.unwrap(getattr(member, "__func__", member))


def _collect_names(code: CodeType | None) -> Iterator[str]:
    if code is not None:
        yield from code.co_names
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from _collect_names(constant)


def _defines(plugin: type[points.Plugin], method: str) -> bool:
    owner = _OWNERS[method]
    return issubclass(plugin, owner) and getattr(plugin, method) is not getattr(owner, method)


def _methods(base: type[points.Plugin]) -> Iterator[tuple[str, Any]]:
    return ((name, method) for name, method in vars(base).items() if inspect.isfunction(method) and name[0] != "_")


def _compare(plugin: type[points.Plugin], name: str, contract: Any) -> tuple[str, str] | None:
    method, location = getattr(plugin, name), f"{plugin.name}.{name}"
    if not callable(method):
        return f"{location} is {method!r}, which cannot be called", f"write `{_heading(name, contract)}`"
    inner = inspect.unwrap(method)
    waits = inspect.iscoroutinefunction(method) or inspect.iscoroutinefunction(inner)
    hints = _hints(method)
    # A decorated function or a callable object may return an awaitable. A plain `def` does not unless annotated.
    is_plain = inner is method and (inspect.isfunction(method) or inspect.ismethod(method))
    is_plain = is_plain and not any(word in str(hints.get("return", "")) for word in _AWAITABLE)
    if inspect.isgeneratorfunction(inner) or inspect.isasyncgenfunction(inner):
        return f"{location} has a `yield`, so that calling it does nothing", "return the result instead"
    if inspect.iscoroutinefunction(contract) and not waits and is_plain:
        return f"{location} must be `async def`: it is awaited", _instead(name, method)
    if not inspect.iscoroutinefunction(contract) and waits:
        hint = f"write `{_heading(name, contract)}`, and move waiting code to start, pre_bind or handle.in_background"
        return f"{location} must not be `async def`: it runs in the scheduling cycle, which cannot wait", hint
    called_with = list(inspect.signature(contract).parameters)
    is_bound = isinstance(inspect.getattr_static(plugin, name), _FUNCTIONS)
    try:
        signature = read_signature(method)
    except (TypeError, ValueError):
        return None
    try:
        signature.bind(*(called_with[1:] if is_bound else called_with))
    except TypeError:
        # Annotations are texts, which Python quotes from 3.14 on.
        signature_text = str(signature).replace("'", "")
        problem = f"{location} takes {signature_text}, but is called with ({', '.join(called_with)})"
        return problem, _instead(name, method)
    expected = _hints(contract)
    arguments = called_with[1:] if is_bound else called_with
    parameters = [each for each in signature.parameters.values() if each.kind <= each.POSITIONAL_OR_KEYWORD]
    for parameter, argument in zip(parameters, arguments, strict=False):
        if problem := _mismatch(parameter.name, hints.get(parameter.name), argument, expected.get(argument)):
            return f"{location} {problem}", _instead(name, method)
    if "return" in hints and is_plain | waits and _conflicts(hints["return"], expected["return"]):
        legal = _format_hint(expected["return"])
        problem = f"{location} returns {_format_hint(hints['return'])}, but must return {legal}"
        return problem, f"write `{heading(_OWNERS[name], name)} -> {legal}`"
    return None


def _mismatch(name: str, hint: Any, argument: str, expected: Any) -> str:
    """Describe a parameter with a wrong annotation or name. Return an empty string if there is none."""
    gets = f"is called with {'' if expected is None else f'a {_format_hint(expected)} as '}{argument!r}"
    if hint is not None and expected is not None and _is_concrete(hint):
        return f"declares `{name}: {_format_hint(hint)}`, but {gets}" if _conflicts(hint, expected) else ""
    fits = None if name.startswith("_") else _FITS.get(plain(name))  # an underscore marks unused parameters
    return f"has the parameter {name!r}, but {gets}" if fits is not None and argument not in fits else ""


def _is_concrete(hint: Any) -> bool:
    return all(kind is not object and kind is not Any for kind in _members(hint))


def _conflicts(hint: Any, expected: Any) -> bool:
    """Return whether no value can have both types, as far as this is known for classes of Python, NumPy and Moorage."""
    return not any(_overlap(left, right) for left in _members(hint) for right in _members(expected))


def _overlap(left: Any, right: Any) -> bool:
    for kind in (left, right):
        if not isinstance(kind, type) or str(kind.__module__).partition(".")[0] not in ("builtins", "numpy", "moorage"):
            return True
    return left in right.__mro__ or right in left.__mro__


def _members(hint: Any) -> list[Any]:
    if get_origin(hint) in (Union, UnionType):
        return [member for argument in get_args(hint) for member in _members(argument)]
    if get_origin(hint) is Annotated:
        return _members(get_args(hint)[0])
    return [type(None) if hint is None else get_origin(hint) or hint]


def _hints(method: Any) -> dict[str, Any]:
    """Return the annotations of a method. Invalid annotations are omitted."""
    function = inspect.unwrap(method)
    function = getattr(function, "__func__", function)
    try:
        return get_type_hints(function)
    except Exception as error:  # a name that is imported for type checkers only, or no function
        if not isinstance(error, NameError):
            return {}
    hints = {}
    for name, annotation in _annotations(function).items():
        with suppress(Exception):
            scope = {**_CLASSES, **function.__globals__}
            hints[name] = eval(annotation, scope) if isinstance(annotation, str) else annotation
    return hints


def _annotations(function: Any) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        from annotationlib import Format, get_annotations

        return get_annotations(function, format=Format.STRING)
    return dict(function.__annotations__)


def read_signature(function: Callable[..., Any]) -> inspect.Signature:
    """Return the signature of a function; names that only type checkers import do not matter."""
    if sys.version_info >= (3, 14):
        from annotationlib import Format

        return inspect.signature(function, annotation_format=Format.STRING)
    return inspect.signature(function)


def _format_hint(hint: Any) -> str:
    return " | ".join("None" if kind is type(None) else getattr(kind, "__name__", str(kind)) for kind in _members(hint))


def _instead(name: str, method: Any) -> str:
    is_old = name == "post_filter" and any("node" in parameter for parameter in read_signature(method).parameters)
    return f"write `{heading(_OWNERS[name], name)}`{_OLD_POST_FILTER if is_old else ''}"


def heading(plugin: type[points.Plugin], name: str) -> str:
    """Return the first line of a method that a plugin class owes to one of its bases."""
    method = getattr(plugin, name)
    waits = "async " if inspect.iscoroutinefunction(method) else ""
    return f"{waits}{_heading(name, method)}"


def _heading(name: str, method: Any) -> str:
    return f"def {name}({', '.join(inspect.signature(method).parameters)})"
