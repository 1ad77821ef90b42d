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
    assert "| default | FGD | 95.39 | 0.08 | " in text
    assert "| 40% | Random | 14.93 | 0.28 | " in text
    assert "| default | BestFit | " in text.split("seed by seed")[1]
    assert [line.split(" | ")[0] for line in text.split("of equal score")[1].splitlines()[4:]] == [
        "| shuffled",
        "| name",
        "| upstream",
        "| random",
    ]
    skipped = "Skipped, because the file is missing: openb_pod_list_gpushare100.csv, openb_pod_list_multigpu50.csv."
    assert skipped in text
    assert "| gpushare100 |" not in text
    assert skipped in capsys.readouterr().out.split("of 12")[0], "before the first trial"
    assert main([str(tmp_path / "out"), "--out", str(tmp_path / "other")]) == 2
    assert NODES in capsys.readouterr().out


@pytest.mark.parametrize(
    ("values", "expected", "t"), [([1.0, 3.0], 1.0, 1.0), ([2.0, 4.0, 6.0], 4.0, 0.0), ([1.0], 0.0, None)]
)
def test_t_value_against_an_exact_number(values: list[float], expected: float, t: float | None) -> None:
    assert t_value(values, expected) == (None if t is None else pytest.approx(t))


def test_t_value_includes_the_deviation_of_both_samples() -> None:
    # Variances of the means: 2 / 2 and 3² / 9, so their root is the square root of 2.
    assert t_value([1.0, 3.0], 4.0, deviation=3.0, count=9) == pytest.approx(-2 / 2**0.5)


def test_interrupt_keeps_finished_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    write_openb_files(tmp_path)
    (tmp_path / "nodes.csv").rename(tmp_path / NODES)
    (tmp_path / "default.csv").rename(tmp_path / "openb_pod_list_default.csv")
    arguments = [str(tmp_path), "--out", str(tmp_path / "out"), "--seeds", "2", "--workers", "1"]
    with monkeypatch.context() as patch:
        patch.setattr("moorage.lab.results.Results.store", interrupt)
        with pytest.raises(SystemExit) as exit_:
            main(arguments)
        assert exit_.value.code == 130
    assert "run the same command to resume" in capsys.readouterr().err
    assert main(arguments) == 0
