"""The notebook runs: the trained policy beats the default profile, and works in `moorage up`."""

import shutil
from pathlib import Path

import pytest
from tests.support.notebooks import run_cells

DIRECTORY = Path(__file__).parent


def test_a_policy_is_trained_and_loaded_into_up(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    pytest.importorskip("gymnasium", reason="needs Gymnasium: pip install 'moorage[learn]'")
    directory = tmp_path / "learn"
    shutil.copytree(DIRECTORY, directory)
    monkeypatch.chdir(directory)
    by_default, columns, learned, (nodes_of_small, room_for_large) = run_cells(directory / "learn.ipynb")
    assert columns[:3] == ("cpu.allocatable", "cpu.free", "cpu.left")
    assert by_default < 0.6
    assert learned > 0.8
    assert (nodes_of_small, room_for_large) == (2, 4)
