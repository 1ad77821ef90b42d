"""The cells of the notebook are run in order, as Jupyter does: the value of the last line is what is shown."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(__file__).parent


def run_cells(notebook: Path) -> list[Any]:
    names: dict[str, Any] = {}
    shown = []
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, notebook.name, "exec"), names)
            if isinstance(last, ast.Expr):
                shown.append(eval(compile(ast.Expression(last.value), notebook.name, "eval"), names))
    return shown


def test_the_notebook_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    pods, filtered, scored, placed, both = run_cells(FOLDER / "why_there.ipynb")
    assert [(row["pod"], row["node"]) for row in pods] == [("default/web", "")]
    assert {row["node"]: row["fits"] for row in filtered} == {"large": True, "fast": True, "tiny": False}
    assert [row["node"] for row in scored] == ["large", "fast"]
    assert (placed, both) == ("large", ("large", "fast"))
