"""The one place where a plugin's exception becomes an error of the attempt, named after the plugin."""

from asyncio import CancelledError
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

from moorage.errors import PluginError
from moorage.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt
from moorage.framework.plugin import Plugin
from moorage.framework.status import Code, Status

T = TypeVar("T")
P = TypeVar("P", bound=Plugin)

_WORDINGS: Final = {
    "Filter": 'running "{plugin}" filter plugin: {problem}',
    "Score": 'running Score plugins: plugin "{plugin}" failed with: {problem}',
    "NormalizeScore": 'running Normalize on Score plugins: plugin "{plugin}" failed with: {problem}',
    "PreBindPreFlight": 'running PreBindPreFlight "{plugin}": {problem}',
}
"""What upstream says where it departs from its usual ``running <point> plugin "<name>": …``."""
_USUAL: Final = 'running {point} plugin "{plugin}": {problem}'


def ask(point: str, plugin: Plugin, method: Callable[..., T], *arguments: Any) -> T:
    """Call a plugin; what it raises fails the attempt, worded after the extension point and the plugin."""
    try:
        return method(*arguments)
    except PluginError:
        raise
    except (*PLUGIN_FAULTS, CancelledError) as error:
        pass_on_interrupt(error)
        raise failure(point, plugin.name, error) from error


def failure(point: str, plugin: str, error: BaseException | str) -> PluginError:
    """Word an error as upstream does."""
    problem = error if isinstance(error, str) else described(error)
    return PluginError(plugin, _WORDINGS.get(point, _USUAL).format(point=point, plugin=plugin, problem=problem))


def ask_each(point: str, plugins: Sequence[P], method: Callable[[P], T]) -> tuple[T, ...]:
    """Ask plugins one short question each, too often for a boundary around every call.

    Only when one raises are they asked again, to learn which.
    """
    try:
        return tuple(map(method, plugins))
    except PLUGIN_FAULTS:  # raised again by the boundary, unless it was a passing fit
        return tuple([ask(point, plugin, method, plugin) for plugin in plugins])


def require_status(point: str, plugin: Plugin, answer: object) -> Status | None:
    """Refuse an answer that is neither a Status nor ``None``; success is ``None``."""
    if answer is None:
        return None
    if not isinstance(answer, Status):
        raise failure(point, plugin.name, f"it answered {answer!r}, which is neither a Status nor None")
    return None if answer.code == Code.SUCCESS else answer
