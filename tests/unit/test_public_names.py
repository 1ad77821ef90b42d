"""The public names of ``from moorage import …``."""

import subprocess
import sys

import pytest

import moorage


@pytest.mark.parametrize("name", moorage.__all__)
def test_every_public_name_is_there(name: str) -> None:
    assert getattr(moorage, name).__name__ == name
    assert name in dir(moorage)


def test_there_are_few() -> None:
    assert len(set(moorage.__all__)) == len(moorage.__all__) <= 32


def test_unknown_public_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'moorage' has no attribute 'FilterPlugins'"):
        _ = moorage.FilterPlugins  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_heavy() -> None:
    script = "import sys, moorage; print([name for name in ('numpy', 'msgspec', 'yaml') if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"
