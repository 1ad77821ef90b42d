"""Run notebooks as Jupyter does: the cells in order; the value of a cell's last line is displayed."""

import ast
import json
from pathlib import Path
from typing import Any


def run_cells(notebook: Path) -> list[Any]:
    """Run the code cells in order, and return their output."""
    names: dict[str, Any] = {}
    recorded = []
    for cell in json.loads(notebook.read_text())["cells"]:
        if cell["cell_type"] == "code":
            tree = ast.parse("".join(cell["source"]))
            last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
            exec(compile(tree, notebook.name, "exec"), names)
            if isinstance(last, ast.Expr):
                recorded.append(eval(compile(ast.Expression(last.value), notebook.name, "eval"), names))
    return recorded
