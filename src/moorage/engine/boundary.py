"""The one place where a plugin's exception becomes an error of the attempt, named after the plugin."""

from collections.abc import Callable
from typing import Any, TypeVar

from moorage.errors import PluginError
from moorage.framework.plugin import Plugin
from moorage.framework.status import Code, Status

T = TypeVar("T")


def ask(what: str, plugin: Plugin, method: Callable[..., T], *arguments: Any) -> T:
    """Call a plugin; what it raises fails the attempt with ``running <what> plugin "<name>": …``."""
    try:
        return method(*arguments)
    except PluginError:
        raise
    except Exception as error:
        raise failure(what, plugin.name, error) from error


def failure(what: str, plugin: str, error: BaseException | str) -> PluginError:
    """Word an error as upstream does."""
    text = error if isinstance(error, str) else (str(error) or type(error).__name__)
    return PluginError(plugin, f'running {what} plugin "{plugin}": {text}')


def require_status(what: str, plugin: Plugin, answer: object) -> Status | None:
    """Refuse an answer that is neither a Status nor ``None``; success is ``None``."""
    if answer is None:
        return None
    if not isinstance(answer, Status):
        raise failure(what, plugin.name, f"it answered {answer!r}, which is neither a Status nor None")
    return None if answer.code == Code.SUCCESS else answer
