"""The published comparison as one command, on small files in the format of the trace."""

from pathlib import Path

import pytest
from benchmarks.paper_fgd import NODES, main, t_value
from tests.integration.test_published_table import write_openb_files


def test_table_has_published_and_own_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_openb_files(tmp_path)
    (tmp_path / "nodes.csv").rename(tmp_path / NODES)
    (tmp_path / "default.csv").rename(tmp_path / "openb_pod_list_default.csv")
    arguments = [str(tmp_path), "--out", str(tmp_path / "out"), "--seeds", "2", "--workers", "1", "--ties"]
    assert main(arguments) == 0
    text = (tmp_path / "out/table.md").read_text()
    assert "| default | FGD | 95.39 | " in text
    assert "| 40% | Random | 14.9 | " in text
    assert "| default | BestFit | " in text.split("seed by seed")[1]
    assert [line.split(" | ")[0] for line in text.split("of equal score")[1].splitlines()[4:]] == [
        "| shuffled",
        "| name",
        "| upstream",
        "| random",
    ]
    assert "gpushare100" not in text, "its list is missing"
    capsys.readouterr()
    assert main([str(tmp_path / "out"), "--out", str(tmp_path / "other")]) == 2
    assert NODES in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "expected", "t"), [([1.0, 3.0], 1.0, 1.0), ([2.0, 4.0, 6.0], 4.0, 0.0), ([1.0], 0.0, None)]
)
def test_t_value(values: list[float], expected: float, t: float | None) -> None:
    assert t_value(values, expected) == (None if t is None else pytest.approx(t))
