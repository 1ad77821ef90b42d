"""`moorage when` on files."""

import json
from pathlib import Path

import pytest
from tests.unit.insight.explain.clusters import node
from tests.unit.insight.forecast.test_forecasting import RUNNING, job_pod

from moorage.cli.main import run

NOW = ["--now", "2026-11-18T10:00:00Z"]


@pytest.fixture(name="cluster")
def write_cluster(tmp_path: Path) -> str:
    items = [node("n1", cpu="4"), RUNNING, job_pod("w", cpu="3"), job_pod("huge", cpu="30")]
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": items}))
    return str(path)


def test_json_has_the_documented_format(cluster: str, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert run(["when", "w", "-f", cluster, "-o", "json", "--draws", "10", "--no-changes", *NOW]) == 0
    forecast = json.loads(capfdbinary.readouterr().out)
    assert forecast | {"assumptions": []} == {
        "subject": "default/w",
        "now": "2026-11-18T10:00:00Z",
        "state": "pending",
        "start": {"p10": 1800.0, "p50": 1800.0, "p90": 1800.0},
        "censored": 0.0,
        "horizon": 604800.0,
        "draws": 10,
        "assumptions": [],
        "dependsOn": [{"pod": "default/busy", "share": 1.0, "at": {"p50": 1800.0}, "text": "default/busy ends"}],
        "sooner": [],
    }


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["w", "--no-changes"], "default/w is expected to start in 30m (80% interval: 30m to 30m)"),
        (["busy"], "default/busy has been running since 2026-11-18T09:30:00Z"),
        (["huge"], "default/huge will not start: 0/1 nodes are available: 1 Insufficient cpu."),
        (["w", "--horizon", "7d", "--no-changes"], "default/w is expected to start in 30m (80% interval: 30m to 30m)"),
        (["w", "--horizon", "10m", "--no-changes"], "default/w is not expected to start within 10m"),
    ],
)
def test_text(cluster: str, arguments: list[str], expected: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["when", *arguments, "-f", cluster, *NOW]) == 0
    assert capsys.readouterr().out.startswith(expected)


def test_trace_history_requests_the_gpu_resource_of_the_cluster(
    tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    gpu_node = node("n1")
    gpu_node["status"]["allocatable"]["nvidia.com/gpu"] = "1"
    busy = job_pod("busy", on="n1", started="09:30", labels={"team": "a"})
    waiting = job_pod("w", labels={"team": "a"})
    for content in (busy, waiting):
        content["spec"]["containers"][0]["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    path = tmp_path / "cluster.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [gpu_node, busy, waiting]}))
    trace = tmp_path / "history.csv"
    lines = [f"a{number},{number * 1e6:.0f},3600,1,a" for number in range(20)]
    lines += [f"b{number},{number * 1e6 + 1:.0f},60,0,b" for number in range(20)]
    trace.write_text("\n".join(["name,arrives,runs,gpus,class", *lines]))
    assert run(["when", "w", "-f", str(path), "--history", str(trace), "--class", "team", "-o", "json", *NOW]) == 0
    forecast = json.loads(capfdbinary.readouterr().out)
    assert forecast["start"]["p50"] == pytest.approx(1800.0, rel=0.1)
    assert "40 recorded runs" in forecast["assumptions"][0]


def test_history_without_waiting_pods_does_not_correct(
    cluster: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "history.csv"
    trace.write_text("name,arrives,runs,cpuMilli\na,0,60,100\nb,900,60,100\n")
    assert run(["when", "w", "-f", cluster, "--history", str(trace), "--checks", "9", "--no-changes", *NOW]) == 0
    assert "The interval is not corrected: no pod waits" in capsys.readouterr().out
    assert run(["when", "w", "-f", cluster, "--history", str(trace), "--no-changes", *NOW]) == 0
    assert "The interval is not corrected: no pod waits" in capsys.readouterr().out
    assert run(["when", "w", "-f", cluster, "--history", str(trace), "--checks", "0", "--no-changes", *NOW]) == 0
    assert "The interval is not corrected by forecasts" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nope"], "error: Pod default/nope: not found"),
        (["w", "--now", "yesterday"], "error: --now: 'yesterday' is not a time"),
        (
            ["w", "--now", "2026-11-18T09:00:00Z"],
            "error: --now: 2026-11-18T09:00:00Z is before the start of pod default/busy (2026-11-18T09:30:00Z)",
        ),
        (["w", "--horizon", "-1h"], "--horizon"),
        (["w", "--draws", "3"], "3 is not an integer from 10"),
        (["w", "--class", "team"], "error: --class: has no effect without --history"),
        (["w", "--class-label", "team"], "error: --class: has no effect without --history"),
        (["w", "--checks", "9"], "error: --checks: has no effect without --history"),
        (["w", "--checks", "-1"], "-1 is not an integer from 0"),
        (["w", "--history", "missing.csv"], "missing.csv"),
        (["service/web"], "cannot be scheduled"),
    ],
)
def test_invalid_input_prints_one_error(
    cluster: str, arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["when", *arguments, "-f", cluster]) == 2
    assert message in capsys.readouterr().err
