"""The cells of the notebook are run in order: what is learned beats the default profile, and runs in `moorage up`."""

import ast
import json
import shutil
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


def test_a_policy_is_trained_and_loaded_into_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason="needs Gymnasium: pip install 'moorage[learn]'")
    folder = tmp_path / "learn"
    shutil.copytree(FOLDER, folder)
    monkeypatch.chdir(folder)
    by_default, columns, learned, (nodes_of_small, room_for_large) = run_cells(folder / "learn.ipynb")
    assert columns[:3] == ("cpu.allocatable", "cpu.free", "cpu.left")
    assert by_default < 0.6
    assert learned > 0.8
    assert (nodes_of_small, room_for_large) == (2, 4)
