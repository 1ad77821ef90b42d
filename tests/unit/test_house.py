"""The house stays tidy: no room too large, no function too long to read."""

import ast
from pathlib import Path

SOURCE = Path(__file__).parents[2] / "src" / "moorage"
LONGEST_MODULE = 450
LONGEST_FUNCTION = 50


def test_modules_stay_readable() -> None:
    sizes = {path.relative_to(SOURCE): len(path.read_text().splitlines()) for path in SOURCE.rglob("*.py")}
    assert {str(path): size for path, size in sizes.items() if size > LONGEST_MODULE} == {}


def test_functions_stay_readable() -> None:
    long = {
        f"{path.relative_to(SOURCE)}:{node.name}": size
        for path in SOURCE.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and (size := (node.end_lineno or node.lineno) - node.lineno + 1) > LONGEST_FUNCTION
    }
    assert long == {}
