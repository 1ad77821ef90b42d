"""Calibration on a small generated trace, and histories in files."""

from math import isnan
from pathlib import Path

import pytest
from msgspec import convert
from msgspec.structs import replace
from tests.unit.insight.plan.plan_clusters import owned

from moorage.common.errors import InputError
from moorage.insight import Recalibration, StartInterval
from moorage.kube.api.pod import Pod
from moorage.lab import (
    NodePool,
    PolicyText,
    Trace,
    TracePod,
    Trial,
    build_cluster,
    calibrate,
    check_history,
    read_history,
    write_trace,
)
from moorage.lab.forecasting import Calibration, ForecastRow
from moorage.lab.fragmentation import load_trial_policy


def make_trial() -> Trial:
    """Return one node with one slot: each pod takes 100 s, and one arrives every 90 s, so that waits grow by 10 s."""
    pods = tuple(TracePod(name=f"p{n}", arrives=90.0 * n, runs=100.0, cpu_milli=1000, kind="k") for n in range(30))
    cluster = build_cluster("one", (NodePool("one", 1, "1", "1Gi"),), "test")
    return Trial(Trace("queue", pods), cluster, PolicyText("default"), 1)


def test_forecasts_know_only_the_past_and_hit_a_regular_queue() -> None:
    result = calibrate(make_trial(), forecasts=5, draws=10, warm_up=0.5)
    assert (result.pods, result.waited) == (30, 10)
    assert len(result.rows) == 5
    for row in result.rows:
        assert row.waited is not None
        number = round(row.arrives / 90.0)
        assert row.waited == pytest.approx(10.0 * number, abs=15.0)  # recomputed: ten seconds more per pod
        # The queue at the arrival is the wait: one running pod, and those before it.
        assert row.p50 == pytest.approx(row.waited, abs=25.0)
        started = [10.0 * earlier for earlier in range(number) if 100.0 * earlier < row.arrives]
        assert row.naive == pytest.approx(sum(started) / len(started), abs=10.0)
    assert result.as_data()["medianError"] < result.as_data()["naiveError"]


def test_forecasts_are_corrected_by_earlier_ones_only() -> None:
    result = calibrate(make_trial(), forecasts=8, draws=10, warm_up=0.3)
    past = result.recalibration.forecasts
    assert [item.made for item in past] == [row.arrives for row in result.rows]
    for number, (item, row) in enumerate(zip(past, result.rows, strict=True)):
        assert (item.simulated, item.waited) == (row.simulated, row.waited)
        again = Recalibration(past[:number]).correct(item.simulated, item.made, row.naive)
        assert again.interval == StartInterval(row.p10, row.p50, row.p90)


def test_history_is_replayed_on_the_nodes_of_a_cluster(tmp_path: Path) -> None:
    trial = make_trial()
    path = tmp_path / "trace.csv"
    assert isinstance(trial.trace, Trace)
    write_trace(path, trial.trace)
    nodes, policy = [*trial.cluster.nodes], load_trial_policy(trial)
    checks = check_history(path, "", nodes, policy, forecasts=4, draws=10).forecasts
    assert len(checks) == 4
    for item in checks:
        assert item.waited == pytest.approx(item.simulated.p50, abs=25.0)
    idle = check_history(
        path, "", [*build_cluster("wide", (NodePool("wide", 9, "9", "9Gi"),), "test").nodes], policy, forecasts=4
    )
    assert idle.forecasts == []


def test_services_occupy_their_nodes_in_a_replay(tmp_path: Path) -> None:
    trial, path = make_trial(), tmp_path / "trace.csv"
    assert isinstance(trial.trace, Trace)
    write_trace(path, trial.trace)
    (large,) = build_cluster("large", (NodePool("large", 1, "2", "2Gi"),), "test").nodes
    service = convert(owned("web", on=large.name), Pod)
    service = replace(service, metadata=replace(service.metadata, namespace="default"))
    policy = load_trial_policy(trial)
    checks = check_history(path, "", [large, service], policy, forecasts=4, draws=10).forecasts
    assert [item.waited for item in checks] == [pytest.approx(item.simulated.p50, abs=25.0) for item in checks]
    assert len(checks) == 4
    assert check_history(path, "", [large], policy, forecasts=4).forecasts == []
    # A pod that the trace contains is not counted twice.
    recorded = TracePod("web", 0.0, runs=10.0, cpu_milli=1000)
    write_trace(path, replace(trial.trace, pods=(recorded, *trial.trace.pods)))
    assert check_history(path, "", [large, service], policy, forecasts=4).forecasts == []


def test_history_without_durations_cannot_be_replayed(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    path.write_text('{"pod": "shop/a", "result": "scheduled", "time": "2026-11-18T09:00:05Z"}\n')
    with pytest.raises(InputError, match="needs a trace"):
        check_history(path, "", [], load_trial_policy(make_trial()), forecasts=4)


@pytest.mark.parametrize(
    ("waited", "censored", "remaining", "is_covered"),
    [
        (50.0, 0.0, 200.0, True),
        (9.5, 0.0, 200.0, True),
        (8.0, 0.0, 200.0, False),
        (102.0, 0.0, 200.0, False),
        (102.0, 0.2, 200.0, True),
        (None, 0.0, 200.0, False),
        (None, 0.0, 60.0, None),
        (None, 0.2, 200.0, None),
    ],
)
def test_coverage(waited: float | None, censored: float, remaining: float, is_covered: bool | None) -> None:
    row = ForecastRow("p", "k", 0.0, waited, 10.0, 50.0, 100.0, 1.0, censored, remaining=remaining)
    assert row.is_covered is is_covered


def test_starts_after_the_last_arrival_are_unknown() -> None:
    result = calibrate(make_trial(), forecasts=9, draws=10, warm_up=0.5, cool_down=0.0)
    late = [row for row in result.rows if row.arrives + 10.0 * round(row.arrives / 90.0) > 2610.0 + 15.0]
    assert late
    assert all(row.waited is None for row in late)


def test_a_replay_has_a_time_limit(tmp_path: Path) -> None:
    trial = make_trial()
    assert isinstance(trial.trace, Trace)
    write_trace(tmp_path / "trace.csv", trial.trace)
    nodes, policy = [*trial.cluster.nodes], load_trial_policy(trial)
    with pytest.raises(TimeoutError):
        check_history(tmp_path / "trace.csv", "", nodes, policy, forecasts=4, seconds=0.0)


def test_history_from_a_trace(tmp_path: Path) -> None:
    path = tmp_path / "trace.csv"
    path.write_text("name,arrives,runs,cpuMilli,class,namespace\na,0,60,1000,small,shop\nb,5,,2000,large,shop\n")
    by_namespace, by_label = read_history(path, ""), read_history(path, "team")
    assert [(item.traits.group, item.seconds, item.arrived) for item in by_namespace] == [
        ("shop", 60.0, 0.0),
        ("shop", None, 5.0),
    ]
    assert [item.traits.group for item in by_label] == ["small", "large"]


def test_deeply_nested_history_is_rejected(tmp_path: Path) -> None:
    path = tmp_path / "trace.jsonl"
    path.write_text("[" * 200_000)
    with pytest.raises(InputError, match="line 1, column"):
        read_history(path, "")


def test_history_from_a_decision_log_has_arrivals(tmp_path: Path) -> None:
    path = tmp_path / "decisions.jsonl"
    line = (
        '{"pod": "shop/a", "profile": "p", "result": "scheduled", "node": "n1", "time": "2026-11-18T09:00:05Z", '
        '"created": "2026-11-18T09:00:00Z", "requests": {"cpu": "2"}, "uid": "u"}\n'
    )
    path.write_text(line)
    (past,) = read_history(path, "")
    assert (past.pod.key, past.traits.group, past.seconds, past.pod.requests) == ("shop/a", "shop", None, {"cpu": 2000})


def test_trace_without_waiting_pods_has_a_row() -> None:
    data = Calibration("idle", pods=5, waited=0, rows=()).as_data()
    assert (data["forecasts"], isnan(data["coverage"]), isnan(data["below"]), isnan(data["above"])) == (
        0,
        True,
        True,
        True,
    )


def test_corrected_intervals_end_at_the_horizon() -> None:
    result = calibrate(make_trial(), forecasts=9, draws=10, warm_up=0.5, horizon=120.0)
    assert [row.p90 for row in result.rows if row.waited is not None and row.waited > 120.0]
    assert all(row.p10 <= row.p50 <= row.p90 <= 120.0 for row in result.rows)
