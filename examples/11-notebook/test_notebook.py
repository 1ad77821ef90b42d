"""The cells of the notebook are run in order, as Jupyter does: the value of the last line is what is shown."""

from pathlib import Path

import pytest
from tests.support.notebooks import run_cells

FOLDER = Path(__file__).parent


def test_the_notebook_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    pods, filtered, scored, placed, both = run_cells(FOLDER / "why_there.ipynb")
    assert [(row["pod"], row["node"]) for row in pods] == [("default/web", "")]
    assert {row["node"]: row["fits"] for row in filtered} == {"large": True, "fast": True, "tiny": False}
    assert [row["node"] for row in scored] == ["large", "fast"]
    assert (placed, both) == ("large", ("large", "fast"))
