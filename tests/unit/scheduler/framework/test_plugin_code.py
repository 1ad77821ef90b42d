"""Reloading plugin code: modules in use remain unchanged, and rejected code leaves no trace."""

import importlib
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from moorage.common.errors import InputError
from moorage.scheduler.framework.plugin_code import PluginCode


@pytest.fixture
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory on Python's path with a plugin's module and a helper module."""
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in ("reloaded_plugin", "reloaded_helper", "reloaded_package", "reloaded_package.inner"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    (tmp_path / "reloaded_plugin.py").write_text("import reloaded_helper\ndef tell(): return reloaded_helper.WORD\n")
    (tmp_path / "reloaded_helper.py").write_text("WORD = 'one'\n")
    return tmp_path


def loaded(name: str = "reloaded_plugin") -> Any:
    return import_module(name)


def test_change_in_a_helper_module_is_loaded_and_the_old_code_keeps_working(directory: Path) -> None:
    before, code = loaded(), PluginCode(["reloaded_plugin:Class"])
    assert code.files() == [directory / "reloaded_helper.py", directory / "reloaded_plugin.py"]
    # Saved within the same second, and as long as before: the compiled file would be taken for it.
    (directory / "reloaded_helper.py").write_text("WORD = 'two'\n")
    with code.imported_again():
        after = loaded()
    assert (before.tell(), after.tell()) == ("one", "two")
    assert loaded() is after


def test_failed_import_restores_the_previous_modules(directory: Path) -> None:
    before, code = loaded(), PluginCode(["reloaded_plugin:Class"])
    (directory / "reloaded_helper.py").write_text("WORD = !\n")
    with pytest.raises(SyntaxError), code.imported_again():
        loaded()
    assert loaded() is before
    assert loaded().tell() == "one"


def test_a_huge_file_is_not_imported(directory: Path) -> None:
    before, code = loaded(), PluginCode(["reloaded_plugin:Class"])
    with (directory / "reloaded_helper.py").open("wb") as file:
        file.truncate(7 << 30)
    with pytest.raises(InputError, match=r"reloaded_helper.py: the file is too large"), code.imported_again():
        loaded()
    assert loaded() is before


def test_files_of_a_module_that_a_late_failure_removed_are_followed(directory: Path) -> None:
    loaded()
    code = PluginCode(["reloaded_plugin:Class"])
    files = code.files()
    del sys.modules["reloaded_plugin"]
    assert code.files() == files
    with code.imported_again():
        loaded()
    assert code.files() == files


def test_packages_are_loaded_completely(directory: Path) -> None:
    package = directory / "reloaded_package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("WORD = 1\n")
    before, code = loaded("reloaded_package.inner"), PluginCode(["reloaded_package.inner:Class"])
    (package / "inner.py").write_text("WORD = 2\n")
    with code.imported_again():
        assert loaded("reloaded_package.inner").WORD == 2
    assert before.WORD == 1


def test_installed_packages_and_moorage_are_not_reloaded() -> None:
    importlib.import_module("msgspec")
    before = {**sys.modules}
    code = PluginCode(["moorage.scheduler.plugins.node_name:NodeName", "msgspec:Struct"])
    assert {name.partition(".")[0] for name in code.modules()} == {"msgspec"}
    assert PluginCode(()).modules() == {}
    assert before.keys() <= sys.modules.keys()
