"""Plugins by name: in-tree ones, those other packages offer, and those named on the command line."""

import importlib
import inspect
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import msgspec
import structlog

from moorage.common.errors import ConfigError, PluginError, did_you_mean
from moorage.scheduler.framework.contracts import (
    EXTENSION_POINTS,
    broken_contract,
    broken_timeout,
    heading,
    never_called,
)
from moorage.scheduler.framework.faults import PLUGIN_FAULTS, described, pass_on_interrupt, shown
from moorage.scheduler.framework.go_names import python_import
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.plugin import Plugin

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP: Final = "moorage.scheduler.plugins"
IMPORT_SECONDS: Final = 60.0
_INJECTED: Final = ("args", "handle")
_CANNOT_IMPORT: Final = re.compile(r"cannot import name '(\w+)' from '([\w.]+)'")

log = structlog.get_logger(__name__)


def installed_entry_points() -> "Sequence[EntryPoint]":
    """Return the entry points of installed packages. Packages with invalid metadata are skipped and reported."""
    from importlib.metadata import distributions, entry_points  # slow to import: it reads the metadata of all packages

    try:
        return tuple(entry_points(group=ENTRY_POINT_GROUP))
    except (OSError, TypeError, ValueError):
        pass  # the exception does not name the package
    entries: list[EntryPoint] = []
    for package in distributions():
        try:
            entries += package.entry_points.select(group=ENTRY_POINT_GROUP)
        except (OSError, TypeError, ValueError) as error:
            file = str(package.locate_file(""))
            log.warning("installed package with invalid entry points skipped", directory=file, error=str(error))
    return entries


class Registry(Mapping[str, type[Plugin]]):
    """Plugin classes by configuration name. Each is checked when it is registered, never when it is called."""

    def __init__(self, plugins: Iterable[type[Plugin]] = ()) -> None:
        self.call_timeout: float | None = Plugin.call_timeout
        """The timeout of awaited calls of plugins that do not set their own."""
        self._plugins: dict[str, type[Plugin]] = {}
        self._offers: dict[str, str] = {}
        self._entries: dict[str, str] = {}
        """Descriptions of entry points by the names that they offer."""
        self._unnamed: dict[str, str] = {}
        """Descriptions of entry points by path, until an unknown name is searched in them."""
        for plugin in plugins:
            self.register(plugin)

    @classmethod
    def of_checked(cls, plugins: Iterable[type[Plugin]]) -> "Registry":
        """Take in classes that a test has registered: looking at every signature would cost each start 20 ms."""
        registry = cls()
        registry._plugins.update({plugin.name: plugin for plugin in plugins})
        return registry

    def __getitem__(self, name: str) -> type[Plugin]:
        if name not in self._plugins and name in self._offers:
            location = self._entries.get(name, "")
            plugin = self.register_path(self._offers[name], where=location)
            if plugin.name != name:
                problem = f"it provides the plugin {plugin.name}, not {name}"
                raise ConfigError(location, problem, hint=f"write {plugin.name} in the configuration")
        return self._plugins[name]

    def __contains__(self, name: object) -> bool:
        return name in self._plugins or name in self._offers or (bool(self._unnamed) and self._is_installed(name))

    def _is_installed(self, name: object) -> bool:
        """Import all installed packages, to find a plugin that is named like neither its entry point nor its class."""
        unnamed, self._unnamed = self._unnamed, {}
        for path, location in unnamed.items():
            try:
                self.register_path(path, where=location)
            except ConfigError as error:
                log.warning("cannot import an installed plugin", error=str(error))
        return name in self._plugins

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys((*self._plugins, *self._offers)))

    def __len__(self) -> int:
        return len(self._plugins.keys() | self._offers.keys())

    def offer(self, offers: Mapping[str, str]) -> None:
        """Add plugins by name as ``module:Class``, imported on demand. Registered classes take precedence."""
        self._offers.update({name: path for name, path in offers.items() if name not in self._plugins})

    def is_offered(self, name: str) -> bool:
        """Return whether the name refers to a plugin of Moorage that is imported on demand."""
        return name in self._offers and name not in self._entries

    def register(self, plugin: type[Plugin], *, where: str = "") -> None:
        """Register a plugin class. Raise ConfigError if it is invalid."""
        where = where or getattr(plugin, "__qualname__", repr(plugin))
        if not (isinstance(plugin, type) and issubclass(plugin, Plugin)):
            raise ConfigError(where, f"{shown(plugin)} is not a plugin class", hint=_how_to_make_one(plugin))
        if not extension_points(plugin):
            base_names = ", ".join(base.__name__ for base in EXTENSION_POINTS.values())
            raise ConfigError(
                where, f"{plugin.name} extends no extension point", hint=f"inherit from one of {base_names}"
            )
        if plugin.Args is not None and not (isinstance(plugin.Args, type) and issubclass(plugin.Args, msgspec.Struct)):
            problem = f"Args of {plugin.name} is {plugin.Args!r}, which is not a msgspec.Struct"
            raise ConfigError(where, problem, hint="class Args(msgspec.Struct, frozen=True): label: str = 'capacity'")
        if missing_methods := sorted(getattr(plugin, "__abstractmethods__", ())) or _find_undefined(plugin):
            hint = "; ".join(f"write `{heading(plugin, name)}`" for name in missing_methods)
            raise ConfigError(where, f"{plugin.name} does not define {', '.join(missing_methods)}", hint=hint)
        if unknown := [name for name in _required_parameters(plugin) if name not in _INJECTED]:
            problem = f"the constructor of {plugin.name} has unknown parameters: {', '.join(unknown)}"
            raise ConfigError(where, problem, hint="only `args` and `handle` are passed, as keywords")
        if (broken := broken_contract(plugin)) is not None:
            raise ConfigError(where, broken[0], hint=broken[1])
        offer = self._offers.get(plugin.name)
        if offer is not None and offer != f"{plugin.__module__}:{plugin.__qualname__}":
            del self._offers[plugin.name]
        if self._plugins.get(plugin.name, plugin) is not plugin:
            hint = f'set another name in the class: `name = "My{plugin.name}"`'
            raise ConfigError(where, f"a plugin named {plugin.name!r} is already registered", hint=hint)
        for method, hint in never_called(plugin):
            log.warning("method is never called", plugin=plugin.name, method=method, hint=hint)
        self._plugins[plugin.name] = plugin

    def register_entry_points(self) -> None:
        """Offer the plugins of installed packages. A package is imported when a configuration names its plugin.

        The name is that of the entry point, or that of the class. For another name, all packages are imported.
        """
        for entry in installed_entry_points():
            path = entry.value.partition("[")[0].strip()
            location = self._unnamed[path] = f"entry point {entry.name} of {entry.value}"
            for name in (path.rpartition(":")[2], entry.name):
                if name not in self._plugins:
                    self._offers[name] = path
                    self._entries[name] = location

    def register_path(self, path: str, *, where: str = "") -> type[Plugin]:
        """Register a plugin given as ``module:Class``, as ``--plugin`` does, and return it."""
        where = where or f"--plugin {path}"
        module_name, _, attribute = path.partition(":")
        if not module_name or not attribute:
            package, _, name = path.rpartition(".")
            suggestion = f"did you mean {package}:{name}?" if package and name and ":" not in path else ""
            raise ConfigError(where, "expected module:Class", hint=suggestion or "e.g. my_package.spot:SpotOnly")
        module = _import(lambda: importlib.import_module(module_name), where, module_name)
        if not hasattr(module, attribute):
            hint = did_you_mean(attribute, [name for name in vars(module) if not name.startswith("_")])
            raise ConfigError(where, f"the module {module_name!r} has no {attribute!r}", hint=hint)
        plugin: type[Plugin] = getattr(module, attribute)
        self.register(plugin, where=where)
        return plugin

    def build(self, name: str, *, args: Any, handle: Handle) -> Plugin:
        """Construct an instance for a profile, with the configured args and the handle."""
        plugin = self._plugins[name]
        offered = {"args": args, "handle": handle}
        # For a class without a constructor inspect would parse the text of a signature, and needs a tokenizer for it.
        has_own = plugin.__init__ is not object.__init__ or plugin.__new__ is not object.__new__
        names = inspect.signature(plugin).parameters if has_own else ()
        arguments = {name: offered[name] for name in names if name in offered}
        try:
            instance = plugin(**arguments)
        except PLUGIN_FAULTS as error:  # the author's code: its exceptions are reported under the plugin's name
            pass_on_interrupt(error)
            problem = described(error, f"{name}.__init__")
            if plugin.Args is None and arguments.get("args", handle) is None and isinstance(error, AttributeError):
                problem += (
                    "; args is None, because the class does not set Args: write `Args = MyArgs`, a msgspec.Struct"
                )
            raise PluginError(name, f"initializing plugin {name!r}: {problem}") from error
        if instance.call_timeout is Plugin.call_timeout:
            instance.call_timeout = self.call_timeout
        elif (broken := broken_timeout(instance, "call_timeout")) is not None:  # the constructor may have set it
            raise PluginError(name, f"initializing plugin {name!r}: {broken[0]}: {broken[1]}")
        return instance


def extension_points(plugin: type[Plugin]) -> frozenset[str]:
    """Return the configuration names of the extension points of a plugin class."""
    return frozenset(point for point, base in EXTENSION_POINTS.items() if issubclass(plugin, base))


def _import(load: Callable[[], Any], location: str, module: str) -> Any:
    """Import an author's code. Its exceptions are reported with their line in the author's file."""
    try:
        with _import_deadline():
            return load()
    except ModuleNotFoundError as error:
        problem, hint, missing_module = str(error), "is it installed, or on PYTHONPATH?", str(error.name)
        if not f"{module}.".startswith(f"{missing_module}."):  # the module exists, but one that it imports does not
            problem = described(error)
            hint = f"install it in the environment of this Python: {sys.executable}"
        if missing_module.startswith("moorage."):
            hint = "all names for plugins are in the package itself: from moorage import FilterPlugin, Status"
        raise ConfigError(location, f"cannot be imported: {problem}", hint=hint) from error
    except PLUGIN_FAULTS as error:  # the author's code may raise anything
        pass_on_interrupt(error)
        problem, hint = f"the module {module} cannot be imported: {described(error)}", ""
        if isinstance(error, ImportError) and (match := _CANNOT_IMPORT.match(str(error))) is not None:
            names = dir(sys.modules.get(match[2]))
            hint = python_import(match[1], [name for name in names if not name.startswith("_")])
        raise ConfigError(location, problem, hint=hint) from error


@contextmanager
def _import_deadline() -> Iterator[None]:
    """Raise TimeoutError in an import that does not end. Only the main thread can be interrupted."""
    if threading.current_thread() is not threading.main_thread() or signal.getsignal(signal.SIGALRM) != signal.SIG_DFL:
        yield
        return

    def expire(_number: int, _frame: object) -> None:
        raise TimeoutError(f"the import did not end within {IMPORT_SECONDS:g} s")

    signal.signal(signal.SIGALRM, expire)
    signal.setitimer(signal.ITIMER_REAL, IMPORT_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _how_to_make_one(candidate: object) -> str:
    if inspect.isfunction(candidate):
        return 'write @filter_function("why not") or @score_function above it: from moorage import filter_function'
    if isinstance(candidate, Plugin):
        return f"name the class, {type(candidate).__name__}, and not an instance of it"
    return "inherit from FilterPlugin or another plugin base class"


def _required_parameters(plugin: type[Plugin]) -> list[str]:
    return [
        name
        for name, parameter in inspect.signature(plugin).parameters.items()
        if parameter.default is parameter.empty
        and parameter.kind not in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
    ]


def _find_undefined(plugin: type[Plugin]) -> list[str]:
    """Return abstract methods of extension points that the class does not define."""
    return sorted(
        name
        for base in EXTENSION_POINTS.values()
        if issubclass(plugin, base)
        for name, method in vars(base).items()
        if getattr(method, "__isabstractmethod__", False) and getattr(plugin, name) is method
    )
