"""The report of a shadow's log, as text and as JSON."""

import json
from pathlib import Path

import msgspec
import pytest

from moorage.cli.main import run
from moorage.insight.shadow.messages import AGREES, DIFFERS, UNSURE, Comparison
from moorage.scheduler.decisions.decision import NodeEntry


def line(number: int, result: str, node: str = "n1", other: str = "n1", because: str = "") -> Comparison:
    scores = {"n1": NodeEntry(total=500), "n2": NodeEntry(total=480)}
    turned = {"n1": NodeEntry(total=500), "n2": NodeEntry(total=530)}
    scores_by_side = {"in_charge": scores, "shadow": turned} if result == DIFFERS and node and other else {}
    time, pod = f"2026-11-17T05:00:{number:02}Z", f"default/p{number}"
    return Comparison(number, time, pod, "default-scheduler", result, node, other, because, **scores_by_side)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    lines = [line(number, AGREES) for number in range(7)]
    lines += [line(10, DIFFERS, "n1", "n2", "ImageLocality"), line(11, DIFFERS, "n1", "n2", "ImageLocality")]
    lines += [line(12, DIFFERS, "n1", "", "Refuses"), line(13, UNSURE)]
    path = tmp_path / "shadow.jsonl"
    path.write_bytes(b"".join(msgspec.json.encode(item) + b"\n" for item in lines))
    return path


def test_report_as_text(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["shadow", "report", str(log)]) == 0
    output = capsys.readouterr().out.splitlines()
    assert output[0] == "11 decisions compared: the shadow differs in 3 (30.0%)"
    assert output[1].startswith("1 could not be compared")
    assert [text.split() for text in output[3:5]] == [["2", "ImageLocality"], ["1", "Refuses"]]
    assert "       2 n1 → n2" in output
    scores = "(active 500 against 480, shadow 500 against 530)"
    assert output[-2].endswith(f"on n1; on n2 in the shadow: ImageLocality {scores}")
    assert output[-1].endswith("default/p12: on n1; infeasible in the shadow: Refuses rejects the node")


def test_report_as_json(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["shadow", "report", "-o", "json", str(log)]) == 0
    output = json.loads(capsys.readouterr().out)
    assert (output["compared"], output["results"]["differs"], output["plugins"]) == (
        11,
        3,
        {"ImageLocality": 2, "Refuses": 1},
    )


def test_invalid_line_is_reported(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes() + b'{"no": "time"}\n')
    assert run(["shadow", "report", str(log)]) == 2
    assert "shadow.jsonl, line 12: " in capsys.readouterr().err
