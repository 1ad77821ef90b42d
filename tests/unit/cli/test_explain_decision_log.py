"""`explain`, `simulate` and `ui` on a decision log, as users type them."""

import json
from pathlib import Path

import msgspec
import pytest
from tests.unit.insight.page.clusters import SMALL, node, pod
from tests.unit.scheduler.daemon.decision_log.test_recording import run as decided

from moorage.cli.main import run
from moorage.cluster.runs.logged_run import LoggedRun
from moorage.cluster.runs.replay import Replay
from moorage.kube.api.node import Node
from moorage.scheduler.decisions.decision_log import LoggedDecision, read_log


def written(path: Path, lines: list[LoggedDecision]) -> Path:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))
    return path


@pytest.fixture
def log(tmp_path: Path) -> Path:
    evicting = decided(node("n1"), pod("low", "3", node="n1"), pod("high", "4", priority=100))[0]
    first = list(decided(*SMALL, node("n4", allocatable={"cpu": "2"}))[0].values())
    return written(tmp_path / "log", [*first, *evicting.values()])


def test_attempts_of_a_pod_are_printed(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop/big-1", "--decision-log", str(log)]) == 0
    output = capsys.readouterr().out
    assert output.startswith("shop/big-1: 1 decision in the log\n")
    assert "attempt 1," in output
    assert "2 × NodeResourcesFit: Insufficient cpu (n1, n4)" in output
    assert run(["explain", "fits", "-n", "shop", "--decision-log", str(log)]) == 0
    output = capsys.readouterr().out
    assert "scheduled on n" in output
    assert "2 of 4 nodes were feasible" in output
    assert run(["explain", "shop/high", "--decision-log", str(log)]) == 0
    assert "could run on n1 after evicting shop/low" in capsys.readouterr().out


def test_json_has_the_lines(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop/fits", "--decision-log", str(log), "-o", "json"]) == 0
    output = json.loads(capsys.readouterr().out)["decisions"]
    assert [(line["pod"], line["result"], len(line["nodes"])) for line in output] == [("shop/fits", "scheduled", 2)]


def test_a_pod_that_is_not_in_the_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop/fitz", "--decision-log", str(log)]) == 2
    assert "did you mean 'shop/fits'?" in capsys.readouterr().err


def test_decisions_are_printed_like_a_simulation(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--decision-log", str(log), "--timeline"]) == 0
    output = capsys.readouterr().out
    assert "Timeline" in output
    assert "shop/fits placed on n" in output
    assert "4 pods: 1 scheduled, 3 unschedulable" in output
    assert run(["simulate", "--decision-log", str(log), "-o", "json"]) == 0
    assert {"decisions", "timeline", "simulated"} <= json.loads(capsys.readouterr().out).keys()


@pytest.mark.parametrize("command", [["simulate"], ["explain", "x"], ["ui", "--port", "0"]])
def test_invalid_line_is_reported(log: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes() + b"oops\n")
    count = len(log.read_bytes().splitlines())
    assert run([*command, "--decision-log", str(log)]) == 2
    errors = capsys.readouterr().err
    assert f"log, line {count}: invalid JSON: " in errors
    assert "oops" in errors


def test_incomplete_last_line_is_not_an_error(log: Path) -> None:
    count = len(list(read_log(log)))
    log.write_bytes(log.read_bytes() + b'{"pod": "de')
    assert len(list(read_log(log))) == count


def test_missing_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--decision-log", str(tmp_path / "none")]) == 2
    assert "the file does not exist" in capsys.readouterr().err


def test_a_log_does_not_go_with_a_cluster_to_simulate(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--decision-log", str(log), "-f", "x.yaml"]) == 2
    assert run(["explain", "x", "--decision-log", str(log), "-f", "x.yaml"]) == 2
    assert run(["ui", "--decision-log", str(log), "--compare", "x.yaml"]) == 2


def test_a_log_can_be_played() -> None:
    """A pod waits, gets a node, is retried when its binding fails, gets another node, and is evicted for a third."""
    lines, _ = decided(node("n1"), node("n2"), pod("web"))
    placed = lines["shop/web"]
    second_node = "n2" if placed.node == "n1" else "n1"
    at = "2026-11-17T05:00:0{}.000000Z".format
    change = msgspec.structs.replace
    story = [
        change(placed, time=at(1), took=0.0, created=""),
        change(placed, time=at(2), result="error", node="", failed_on=placed.node, message="no"),
        change(placed, time=at(3), node=second_node, attempts=2),
        change(
            placed,
            time=at(5),
            pod="shop/high",
            uid="high",
            created=at(5),
            result="unschedulable",
            node="",
            post_filter={"nominatedNode": second_node, "victims": ["shop/web"]},
        ),
    ]
    story = msgspec.json.decode(msgspec.json.encode(story), type=list[LoggedDecision])
    logged = LoggedRun(story)
    nodes = [msgspec.convert({"metadata": {"name": name}}, Node) for name in ("n1", "n2")]
    replay = Replay(logged.recorder(nodes, []))
    assert replay.at(0.0).placed == {"shop/web": placed.node}
    assert list(replay.at(1.0).waiting) == ["shop/web"]
    assert replay.at(2.0).placed == {"shop/web": second_node}
    assert replay.at(4.0).placed == {}
    assert [(line.pod, line.attempt) for line in replay.decisions] == [
        ("shop/web", 1),
        ("shop/web", 1),
        ("shop/web", 2),
        ("shop/high", 1),
    ]
    (web,) = [record for record in logged.run().timeline if record.pod == "shop/web"]
    assert (web.evicted, web.evicted_by) == (4.0, "shop/high")
