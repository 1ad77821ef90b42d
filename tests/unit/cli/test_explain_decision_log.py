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


def test_the_attempts_of_a_pod_are_told(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop/big-1", "--decision-log", str(log)]) == 0
    said = capsys.readouterr().out
    assert said.startswith("shop/big-1: 1 decision in the log\n")
    assert "attempt 1," in said
    assert "2 × NodeResourcesFit: Insufficient cpu (n1, n4)" in said
    assert run(["explain", "fits", "-n", "shop", "--decision-log", str(log)]) == 0
    said = capsys.readouterr().out
    assert "scheduled on n" in said
    assert "2 of 4 nodes were feasible" in said
    assert run(["explain", "shop/high", "--decision-log", str(log)]) == 0
    assert "could run on n1 after evicting shop/low" in capsys.readouterr().out


def test_json_has_the_lines(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop/fits", "--decision-log", str(log), "-o", "json"]) == 0
    said = json.loads(capsys.readouterr().out)["decisions"]
    assert [(line["pod"], line["result"], len(line["nodes"])) for line in said] == [("shop/fits", "scheduled", 2)]


def test_a_pod_that_is_not_in_the_log(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["explain", "shop/fitz", "--decision-log", str(log)]) == 2
    assert "did you mean 'shop/fits'?" in capsys.readouterr().err


def test_what_was_decided_is_told_as_a_simulation_is(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--decision-log", str(log), "--timeline"]) == 0
    said = capsys.readouterr().out
    assert "Timeline" in said
    assert "shop/fits placed on n" in said
    assert "4 pods: 1 scheduled, 3 unschedulable" in said
    assert run(["simulate", "--decision-log", str(log), "-o", "json"]) == 0
    assert {"decisions", "timeline", "simulated"} <= json.loads(capsys.readouterr().out).keys()


@pytest.mark.parametrize("command", [["simulate"], ["explain", "x"], ["ui", "--port", "0"]])
def test_a_bad_line_is_named(log: Path, command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes() + b"oops\n")
    count = len(log.read_bytes().splitlines())
    assert run([*command, "--decision-log", str(log)]) == 2
    said = capsys.readouterr().err
    assert f"log:{count}: " in said
    assert "oops" in said


def test_a_line_that_is_being_written_is_no_mistake(log: Path) -> None:
    count = len(list(read_log(log)))
    log.write_bytes(log.read_bytes() + b'{"pod": "de')
    assert len(list(read_log(log))) == count


def test_a_log_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--decision-log", str(tmp_path / "none")]) == 2
    assert "file not found" in capsys.readouterr().err


def test_a_log_does_not_go_with_a_cluster_to_simulate(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["simulate", "--decision-log", str(log), "-f", "x.yaml"]) == 2
    assert run(["explain", "x", "--decision-log", str(log), "-f", "x.yaml"]) == 2
    assert run(["ui", "--decision-log", str(log), "--compare", "x.yaml"]) == 2


def test_a_log_can_be_played() -> None:
    """A pod waits, takes its node, comes back when its binding fails, takes another, and is evicted for a third."""
    lines, _ = decided(node("n1"), node("n2"), pod("web"))
    placed = lines["shop/web"]
    other = "n2" if placed.node == "n1" else "n1"
    at = "2026-11-17T05:00:0{}.000000Z".format
    change = msgspec.structs.replace
    story = [
        change(placed, time=at(1), took=0.0, created=""),
        change(placed, time=at(2), result="error", node="", failed_on=placed.node, message="no"),
        change(placed, time=at(3), node=other, attempts=2),
        change(
            placed,
            time=at(5),
            pod="shop/high",
            uid="high",
            created=at(5),
            result="unschedulable",
            node="",
            post_filter={"nominatedNode": other, "victims": ["shop/web"]},
        ),
    ]
    story = msgspec.json.decode(msgspec.json.encode(story), type=list[LoggedDecision])
    logged = LoggedRun(story)
    nodes = [msgspec.convert({"metadata": {"name": name}}, Node) for name in ("n1", "n2")]
    replay = Replay(logged.recorder(nodes, []))
    assert replay.at(0.0).placed == {"shop/web": placed.node}
    assert list(replay.at(1.0).waiting) == ["shop/web"]
    assert replay.at(2.0).placed == {"shop/web": other}
    assert replay.at(4.0).placed == {}
    assert [(line.pod, line.attempt) for line in replay.decisions] == [
        ("shop/web", 1),
        ("shop/web", 1),
        ("shop/web", 2),
        ("shop/high", 1),
    ]
    (web,) = [record for record in logged.run().timeline if record.pod == "shop/web"]
    assert (web.evicted, web.evicted_by) == (4.0, "shop/high")
