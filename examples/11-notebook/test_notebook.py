"""Run the cells of the notebook in order, as Jupyter does: the value of the last line is displayed."""

from pathlib import Path

import pytest
from tests.support.notebooks import run_cells

DIRECTORY = Path(__file__).parent


def test_notebook_explains_the_decision(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(DIRECTORY)
    pods, filtered, scored, placed, changed = run_cells(DIRECTORY / "why_there.ipynb")
    assert [(row["pod"], row["node"]) for row in pods] == [("default/web", "")]
    assert {row["node"]: row["fits"] for row in filtered} == {"large": True, "fast": True, "tiny": False}
    assert [row["node"] for row in scored] == ["large", "fast"]
    assert (placed, changed) == ("large", ("large", "fast"))
