import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
from benchmarks.live import records, report
from benchmarks.live.medians import comparisons

ABOUT = {
    "schema": 1,
    "date": "2026-01-02",
    "machine": {"cpu": "Some CPU", "cores": 2, "memory_gib": 8.0, "system": "Linux 6"},
    "versions": {"moorage": "0.1.0", "kubernetes": "v1.37.1"},
}


def row(
    scheduler: str, *, workload: str = "basic", nodes: int = 5000, number: int = 1, **figures: Any
) -> dict[str, Any]:
    is_moorage = scheduler == "moorage"
    return {
        "workload": workload,
        "nodes": nodes,
        "pods": 10_000,
        "scheduler": scheduler,
        "number": number,
        "pods_per_second": 700.0 if is_moorage else 300.0,
        "cpu_seconds": 5.0 if is_moorage else 30.0,
        "cpu_ms_per_pod": 0.5 if is_moorage else 3.0,
        "cpu_ms_per_pod_after_start": 0.4 if is_moorage else 2.9,
        "server_cpu_ms_per_pod": 2.5,
        "seconds_to_first_bind": 2.0,
        "peak_mib": 200.0 if is_moorage else 300.0,
        "idle_share": 0.01,
        "others_share": 0.0,
        "problems": [],
        "date": "2026-01-02",
        "moorage": "0.1.0",
        **figures,
    }


JUDGEMENTS: dict[str, tuple[dict[str, Any], str]] = {
    "both goals": ({}, "met"),
    "CPU alone, and the machine is used up": ({"pods_per_second": 400.0}, "met: CPU at its goal, no core idle"),
    "CPU alone, and a core is idle": ({"pods_per_second": 400.0, "idle_share": 0.3}, "missed"),
    "CPU alone, and others used the machine": ({"pods_per_second": 400.0, "others_share": 0.5}, "missed"),
    "both goals, and a wrong result": ({"problems": ["a is over capacity"]}, "missed"),
    "speed alone": ({"cpu_ms_per_pod": 0.6}, "missed"),
    "CPU as a ratio, on a slow machine": ({"cpu_ms_per_pod": 0.58, "pods_per_second": 601.0}, "met"),
}


@pytest.mark.parametrize(("figures", "want"), JUDGEMENTS.values(), ids=JUDGEMENTS)
def test_row_is_compared_with_its_goal(figures: dict[str, Any], want: str) -> None:
    (only,) = comparisons([row("moorage", **figures), row("kube-scheduler")])
    assert only.judgement == want


def test_rounds_are_combined_by_their_median() -> None:
    speeds = [100.0, 900.0, 500.0]
    rows = [row("moorage", number=number, pods_per_second=speed) for number, speed in enumerate(speeds)]
    (only,) = comparisons([*rows, row("kube-scheduler", pods_per_second=250.0)])
    assert (only.ours["pods_per_second"], only.speedup, only.rounds) == (500.0, 2.0, 3)


def test_size_without_goals_has_no_verdict() -> None:
    (only,) = comparisons([row("moorage", nodes=1000), row("kube-scheduler", nodes=1000)])
    assert only.judgement == ""


def test_schedulers_without_bindings_are_excluded() -> None:
    (only,) = comparisons([row("moorage", bound=10), row("kube-scheduler", bound=0, problems=["only 0 of 10 bound"])])
    assert (only.judgement, only.theirs, only.problems) == ("", {}, 1)
    (only,) = comparisons([row("moorage"), *(row("kube-scheduler", number=each, bound=each) for each in (0, 1))])
    assert only.theirs


def test_page_shows_met_and_missed_goals_with_reasons(tmp_path: Path) -> None:
    latency = {"workload": "latency", "nodes": 5000, "pods": 10, "number": 1, "rate": 100.0, "problems": []}
    latency |= {"date": "2026-01-02", "moorage": "0.1.0"}
    times = {"p50": 4.0, "p90": 6.0, "p99": 9.0, "p100": 12.0, "cpu_ms_per_pod": 1.0}
    raw = tmp_path / "raw.json"
    drains = [
        *(row(name) for name in ("moorage", "kube-scheduler")),
        row("before", peak_mib=190.0),
        row("moorage", workload="mixed", cpu_ms_per_pod=1.5, pods_per_second=300.0),
        row("kube-scheduler", workload="mixed", problems=["a is over capacity"]),
        *(row(name, workload="start", nodes=15_000) for name in ("moorage", "kube-scheduler")),
        *(row(name, workload="daemonset") for name in ("moorage", "before")),
    ]
    latencies = [{**latency, **times, "scheduler": name} for name in ("moorage", "kube-scheduler")]
    raw.write_text(json.dumps({**ABOUT, "drain": drains, "latency": latencies}))
    report.write(records.read(raw), raw, tmp_path / "docs")
    page = (tmp_path / "docs" / "2026-01-02.md").read_text()
    assert "1 of 2 rows are met." in page
    assert "less CPU | 5.0 s | 30.0 s | **6.00×** | 6.00 | ≥ 9× | missed |" in page
    assert "| identical pods, 5,000 nodes | 200 | 190 | 300 |" in page
    assert "| daemonset-like, 5,000 nodes | 200 | 300 | – |" in page
    assert "| every pod its own shape, 5,000 nodes | 200" not in page
    assert "Combines several runs" not in page
    assert "2.0 times less CPU than kube-scheduler, goal 4.2: 1.50 ms a pod" in page
    assert "2 cores end at 800 pods/s" in page
    assert "first bind within 10 s: met; no more memory: met" in page
    assert "mixed, 5,000 nodes, kube-scheduler, round 1: a is over capacity" in page
    assert json.loads((tmp_path / "docs" / "2026-01-02.json").read_text())["drain"] == drains
    for name in ("cpu-5000", "speed-5000"):
        assert f"2026-01-02-{name}.svg" in page
        ET.parse(tmp_path / "docs" / f"2026-01-02-{name}.svg")


def test_rows_replace_rows_of_the_same_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "about", lambda: ABOUT)
    raw = tmp_path / "new" / "raw.json"
    records.add(raw, "drain", [row("moorage"), row("kube-scheduler")])
    records.add(raw, "drain", [row("moorage", pods_per_second=1.0)])
    records.add(raw, "latency", [{"scheduler": "moorage"}], ["--v=0"])
    content = records.read(raw)
    assert [(each["scheduler"], each["pods_per_second"]) for each in content["drain"]] == [
        ("kube-scheduler", 300.0),
        ("moorage", 1.0),
    ]
    assert content["latency"] == [{"scheduler": "moorage", "date": "2026-01-02", "moorage": "0.1.0 --v=0"}]


def test_page_of_several_runs_is_labeled() -> None:
    rows = [row("moorage"), row("kube-scheduler", moorage="0.0.9")]
    assert "**Combines several runs**: 2026-01-02, moorage 0.0.9; 2026-01-02, moorage 0.1.0." in report.page(
        {**ABOUT, "drain": rows}
    )


def test_short_drain_does_not_divide_by_zero() -> None:
    rows = [row("moorage"), row("kube-scheduler", pods_per_second=0.0)]
    assert comparisons(rows)[0].judgement == "met: CPU at its goal, no core idle"
    assert "**0.0×**" in report.page({**ABOUT, "drain": rows})
