"""Fronts of the areas: every exported name can be imported, and no name is missing from ``__all__``."""

import ast
from importlib import import_module
from pathlib import Path

import pytest

FRONTS = ("moorage", "moorage.cluster", "moorage.contrib", "moorage.insight", "moorage.lab")


@pytest.mark.parametrize("name", FRONTS)
def test_front_exports_the_names_that_the_type_checker_sees(name: str) -> None:
    front = import_module(name)
    assert front.__file__ is not None
    imports = [
        alias.name
        for node in ast.walk(ast.parse(Path(front.__file__).read_text(encoding="utf-8")))
        if isinstance(node, ast.If)
        for statement in node.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    ]
    assert sorted(imports) == sorted(front.__all__)
    for exported in front.__all__:
        assert getattr(front, exported) is not None
        assert exported in dir(front)


@pytest.mark.parametrize("name", FRONTS)
def test_front_rejects_other_names(name: str) -> None:
    with pytest.raises(AttributeError, match=f"module '{name}' has no attribute 'missing'"):
        _ = import_module(name).missing
