"""The code of plugins named as module:Class: its files, and how to reload it."""

import importlib
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import cache_from_source
from pathlib import Path
from types import ModuleType
from typing import Final

from moorage.common.user_files import MAX_SETTINGS, too_large

OWN_PACKAGE: Final = __name__.partition(".")[0]


class PluginCode:
    """The modules of plugins, and imported modules from the same directory.

    Installed packages are not reloaded unless they are named.
    """

    def __init__(self, paths: Iterable[str]) -> None:
        self._packages = {path.partition(":")[0].partition(".")[0] for path in paths} - {OWN_PACKAGE}
        installed = sysconfig.get_paths()
        self._installed = {Path(installed[name]) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
        self._cached_files: tuple[int, list[Path]] = (0, [])
        self._installed.add(Path(__file__).absolute().parents[2])

    def modules(self) -> dict[str, ModuleType]:
        """Return the loaded modules; compares only names, because hundreds are checked while pods are pending."""
        if not self._packages:
            return {}
        homes = {home for name in self._packages if (home := _home(sys.modules.get(name))) is not None}
        own_prefixes = tuple(f"{home}{os.sep}" for home in homes if not self._is_installed(home))
        return {name: module for name, module in [*sys.modules.items()] if self._is_ours(name, module, own_prefixes)}

    def files(self) -> list[Path]:
        """Return the files of the modules. Called every second, so the list is cached until more modules are loaded."""
        if self._cached_files[0] != len(sys.modules):
            files = {file for module in self.modules().values() if (file := _file(module)) is not None}
            if not self._packages <= sys.modules.keys():
                # An import that failed after its timeout removes the module: its files are still followed.
                files.update(self._cached_files[1])
            self._cached_files = len(sys.modules), sorted(files)
        return self._cached_files[1]

    @contextmanager
    def imported_again(self) -> Iterator[None]:
        """Reload the code inside a block. If the block fails, restore the previous modules.

        Classes of the previous modules keep working.
        """
        for path in self.files():
            # The import system reads a whole file, whatever its size.
            if path.is_file() and path.stat().st_size > MAX_SETTINGS:
                raise too_large(str(path), MAX_SETTINGS)
        previous = self.modules()
        for name, module in previous.items():
            del sys.modules[name]
            if (file := _file(module)) is not None:
                # A file saved twice within a second with the same size would be treated as unchanged.
                with suppress(OSError, NotImplementedError):
                    Path(cache_from_source(str(file))).unlink(missing_ok=True)
        importlib.invalidate_caches()
        try:
            yield
        except BaseException:
            for name in self.modules():
                del sys.modules[name]
            sys.modules.update(previous)
            raise
        finally:
            self._cached_files = (0, self._cached_files[1])

    def _is_ours(self, name: str, module: ModuleType, own_prefixes: tuple[str, ...]) -> bool:
        if name.partition(".")[0] in self._packages:
            return True
        module_file = None if name == "__main__" else getattr(module, "__file__", None)
        if module_file is None or (os.path.isabs(module_file) and not module_file.startswith(own_prefixes)):
            return False
        file = Path(module_file).absolute()
        return str(file).startswith(own_prefixes) and not self._is_installed(file)

    def _is_installed(self, path: Path) -> bool:
        return any(map(path.is_relative_to, self._installed))


def _file(module: ModuleType | None) -> Path | None:
    file = getattr(module, "__file__", None)
    return None if file is None else Path(file).absolute()


def _home(module: ModuleType | None) -> Path | None:
    """Return the directory on Python's path in which a package, or a module that is one file, was found."""
    file = _file(module)
    if file is None:
        return None
    return file.parent.parent if hasattr(module, "__path__") else file.parent
