"""The examples in docstrings are true."""

import doctest
import importlib
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src"
WITH_EXAMPLES = sorted(path.relative_to(SOURCE) for path in SOURCE.rglob("*.py") if ">>> " in path.read_text())


@pytest.mark.release("1.37")
@pytest.mark.parametrize("path", WITH_EXAMPLES, ids=str)
def test_examples_in_docstrings(path: Path) -> None:
    name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
    result = doctest.testmod(importlib.import_module(name))
    assert result.failed == 0
    assert result.attempted > 0
