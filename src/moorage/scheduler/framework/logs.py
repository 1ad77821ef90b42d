"""Logging of plugins, under their name and limited by -v and --vmodule."""

import fnmatch
from collections.abc import Mapping
from typing import Any, Final

import structlog


class Verbosity:
    """Verbosity; PUT /debug/flags/v changes it at run time."""

    def __init__(self, level: int = 0, modules: Mapping[str, int] | None = None) -> None:
        self.level = level
        self.modules = dict(modules or {})
        self._known: dict[str, int] = {}

    def set(self, level: int) -> None:
        """Write more or less from now on."""
        self.level = level
        self._known.clear()

    def of(self, module: str) -> int:
        """Return the level of a module: that of the first pattern it matches, by its last name or its path."""
        level = self._known.get(module)
        if level is None:
            names = (module.rpartition(".")[2], module.replace(".", "/"))
            matching = (
                pattern for pattern in self.modules if any(fnmatch.fnmatchcase(name, pattern) for name in names)
            )
            pattern = next(matching, None)
            level = self._known[module] = self.level if pattern is None else self.modules[pattern]
        return level


#: The process has one stream of logs, so it has one of these.
VERBOSITY: Final = Verbosity()


class PluginLog:
    """Logs messages with values, such as ``log.info("no measurement", node=name)``; adds the plugin and its profile.

    ``log.v(4).info(…)`` needs ``-v=4`` or more (or ``--vmodule=my_plugin=4``, by the module of the plugin's class);
    ``if log.v(4):`` avoids the cost of a message that is not written. Warnings and errors are always written.
    """

    def __init__(self, module: str, about: Mapping[str, Any], level: int = 0) -> None:
        self._module = module
        self._about = dict(about)
        self._level = level
        self._logger = structlog.get_logger(module, **about)
        self._details: dict[int, PluginLog] = {}

    def v(self, level: int) -> "PluginLog":
        """Return a log for details of a level, from 0 (always) to 10 (everything)."""
        child = self._details.get(level)
        if child is None:
            child = self._details[level] = PluginLog(self._module, self._about, level)
        return child

    def __bool__(self) -> bool:
        return self._level <= VERBOSITY.of(self._module)

    def info(self, message: str, **facts: Any) -> None:
        """Log a message if its level is enabled."""
        if self:
            self._logger.info(message, **({"v": self._level} if self._level else {}), **facts)

    def warning(self, message: str, **facts: Any) -> None:
        """Write that something is not as it should be."""
        self._logger.warning(message, **facts)

    def error(self, message: str, **facts: Any) -> None:
        """Write that something failed."""
        self._logger.error(message, **facts)

    def exception(self, message: str, **facts: Any) -> None:
        """Write that something failed, with the traceback of the error that is being handled."""
        self._logger.exception(message, **facts)
