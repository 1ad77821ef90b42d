"""Forecasts on small clusters with a known result."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from tests.unit.insight.explain.clusters import Object, node, pod
from tests.unit.insight.plan.plan_clusters import owned

from moorage.common.errors import InputError
from moorage.insight import (
    CheckedForecast,
    Forecast,
    ForecastOptions,
    PastPod,
    PodTraits,
    Recalibration,
    Session,
    StartInterval,
    find_size,
    forecast_queue,
    forecast_start,
    queue_lines,
)
from moorage.insight.whatif.edits import decode_edit
from moorage.kube.api.meta import parse_time

NOW = parse_time("2026-11-18T10:00:00Z")


def job_pod(
    name: str, *, started: str = "", on: str = "", deadline: int = 0, runs: str = "", cpu: str = "1", **more: Any
) -> Object:
    content = pod(name, on=on, requests={"cpu": cpu}, **more)
    content["spec"]["restartPolicy"] = "Never"
    if deadline:
        content["spec"]["activeDeadlineSeconds"] = deadline
    if runs:
        content["metadata"]["annotations"] = {"moorage.io/run-for": runs}
    if started:
        content["status"] = {"phase": "Running", "startTime": f"2026-11-18T{started}:00Z"}
    return content


@contextmanager
def opened(*objects: Object, **settings: Any) -> Iterator[Session]:
    with Session.open(*objects, **settings) as session:
        yield session


def forecast(name: str, *objects: Object, gates: str = "", **options: Any) -> Forecast:
    settings = ForecastOptions(**{"now": NOW, "draws": 10, "with_changes": False, **options})
    with opened(*objects, feature_gates=gates) as session:
        return forecast_start(session, name, "default", settings)


def median_start(result: Forecast) -> float:
    assert result.start is not None, result
    return result.start.p50


HIGH = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 100}
RUNNING = job_pod("busy", on="n1", cpu="3", started="09:30", deadline=3600)


def test_pod_waits_for_a_deadline() -> None:
    result = forecast("w", node("n1", cpu="4"), RUNNING, job_pod("w", cpu="3"))
    assert result.state == "pending"
    assert result.start is not None
    assert (result.start.p10, result.start.p90) == (1800.0, 1800.0)
    assert result.censored == 0.0
    assert [(item.pod, item.share, item.at) for item in result.depends_on] == [("default/busy", 1.0, 1800.0)]
    assert "activeDeadlineSeconds" in result.assumptions[0]


def test_annotation_is_the_duration() -> None:
    busy = job_pod("busy", on="n1", cpu="3", started="09:30", runs="45m")
    assert median_start(forecast("w", node("n1", cpu="4"), busy, job_pod("w", cpu="3"))) == 900.0


def test_earlier_pods_go_first() -> None:
    first = job_pod("first", cpu="3", runs="10m")
    result = forecast("w", node("n1", cpu="4"), RUNNING, first, job_pod("w", cpu="3"))
    assert median_start(result) == pytest.approx(1800.0 + 600.0, abs=1.0)
    assert {(item.pod, item.text) for item in result.depends_on} == {
        ("default/busy", "default/busy ends"),
        ("default/first", "default/first ends"),
        ("default/first", "default/first is scheduled"),
    }


def test_higher_priority_preempts_now() -> None:
    preemptor = job_pod("w", cpu="3", priorityClassName="high")
    assert median_start(forecast("w", node("n1", cpu="4"), HIGH, RUNNING, preemptor)) < 5.0


def test_fitting_pod_starts_now() -> None:
    assert median_start(forecast("w", node("n1", cpu="4"), job_pod("w", cpu="3"))) == 0.0


def test_running_pod() -> None:
    result = forecast("busy", node("n1", cpu="4"), RUNNING)
    assert (result.state, result.started_at) == ("running", "2026-11-18T09:30:00Z")


def test_pod_that_never_fits() -> None:
    result = forecast("w", node("n1", cpu="4"), RUNNING, job_pod("w", cpu="5"))
    assert (result.state, result.start) == ("never", None)
    assert "Insufficient cpu" in result.reason


def test_pod_of_another_scheduler_is_not_forecast() -> None:
    result = forecast("w", node("n1", cpu="4"), job_pod("w", schedulerName="volcano"))
    assert result.state == "never"
    assert "'volcano'" in result.reason
    assert "would not fit" not in result.reason


def test_services_do_not_end() -> None:
    service = owned("web", on="n1", requests={"cpu": "3"})
    assert forecast("w", node("n1", cpu="4"), service, job_pod("w", cpu="3")).state == "never"


def test_gated_pod_is_forecast_without_its_gates() -> None:
    gated = job_pod("w", cpu="3")
    gated["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    result = forecast("w", node("n1", cpu="4"), RUNNING, gated)
    assert (result.state, median_start(result)) == ("gated", 1800.0)
    assert result.depends_on[0].event == "gate example.com/quota is removed"


def past(runs: float, *, every: float = 1e9, count: int = 40, **more: Any) -> list[PastPod]:
    with opened(node("n1"), job_pod("old", **more)) as session:
        old = session.pod("default/old")
    return [PastPod(every * number, old, PodTraits("default", find_size(old)), runs) for number in range(count)]


def test_durations_come_from_the_history() -> None:
    busy = job_pod("busy", on="n1", cpu="3", started="09:30")
    result = forecast("w", node("n1", cpu="4"), busy, job_pod("w", cpu="3"), past=past(7200.0, cpu="3"), draws=20)
    assert median_start(result) == pytest.approx(7200.0 - 1800.0, rel=0.1)
    assert "40 recorded runs" in result.assumptions[0]


def test_arrivals_of_the_history_use_freed_resources() -> None:
    busy = [
        job_pod(f"busy-{number}", on="n1", cpu="2", started="09:30", runs=f"{60 + 10 * number}m") for number in (0, 1)
    ]
    cluster = (node("n1", cpu="4"), *busy, job_pod("w", cpu="4"))
    alone = forecast("w", *cluster)
    crowded = forecast("w", *cluster, past=past(1200.0, every=700.0, cpu="2", count=200), horizon=36000.0)
    assert median_start(alone) == 2400.0
    assert median_start(crowded) > 2 * median_start(alone)


def test_same_seed_gives_the_same_forecast() -> None:
    busy = job_pod("busy", on="n1", cpu="3", started="09:30")
    cluster = (node("n1", cpu="4"), busy, job_pod("w", cpu="3"))
    assert forecast("w", *cluster) == forecast("w", *cluster)
    assert forecast("w", *cluster) != forecast("w", *cluster, seed=2)


def test_censored_draws_are_treated_as_the_horizon() -> None:
    result = forecast("w", node("n1", cpu="4"), RUNNING, job_pod("w", cpu="3"), horizon=600.0)
    assert (median_start(result), result.censored) == (600.0, 1.0)


def test_other_pods_can_preempt() -> None:
    victim = job_pod("busy", on="n1", cpu="3", started="09:30", runs="2h")
    boss = job_pod("boss", cpu="3", priorityClassName="high", runs="1h")
    result = forecast("w", victim, node("n1", cpu="4"), HIGH, boss, job_pod("w", cpu="3"))
    assert median_start(result) == pytest.approx(3600.0, abs=30.0)
    assert [item.pod for item in result.depends_on] == ["default/busy", "default/boss", "default/boss"]


def test_suggested_changes_make_the_pod_start_earlier() -> None:
    cluster = (node("n1", cpu="4"), RUNNING, job_pod("w", cpu="3"))
    result = forecast("w", *cluster, with_changes=True)
    assert result.sooner
    for change in result.sooner:
        with opened(*cluster) as session:
            session.apply(*(decode_edit(edit) for edit in change.edits))
            again = forecast_start(session, "w", "default", ForecastOptions(now=NOW, draws=10, with_changes=False))
        assert median_start(again) == change.p50 < 1800.0, change


def test_starts_after_changes_are_corrected_by_earlier_forecasts() -> None:
    cluster = (node("n1", cpu="4"), *(job_pod(f"b{n}", on="n1", cpu="2", started="09:30") for n in range(2)))
    subject = job_pod("w", cpu="4")
    interval = StartInterval(50.0, 100.0, 200.0)
    late = [CheckedForecast(1000.0 * n, interval, interval, (100.0,), 900.0) for n in range(30)]
    recalibration = Recalibration(late, until=1e6)
    plain = forecast("w", *cluster, subject, with_changes=True)
    result = forecast("w", *cluster, subject, with_changes=True, recalibration=recalibration)
    assert [change.text for change in result.sooner] == [change.text for change in plain.sooner]
    assert result.sooner
    for change, before in zip(result.sooner, plain.sooner, strict=True):
        with opened(*cluster, subject) as session:
            session.apply(*(decode_edit(edit) for edit in change.edits))
            settings = ForecastOptions(now=NOW, draws=10, with_changes=False, recalibration=recalibration)
            again = forecast_start(session, "w", "default", settings)
        assert median_start(again) == change.p50
        assert change.p50 == before.p50 if before.p50 < 1.0 else change.p50 > before.p50
    assert any(change.p50 > 1.0 for change in result.sooner)


def test_job_starts_when_all_its_pods_do() -> None:
    template = {"spec": job_pod("x", cpu="2", runs="1h")["spec"]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "j", "namespace": "default"},
        "spec": {"parallelism": 2, "completions": 2, "template": template},
    }
    busy = job_pod("busy", on="n1", cpu="2", started="09:30", deadline=3600)
    result = forecast("job/j", node("n1", cpu="4"), busy, job)
    assert (result.subject, median_start(result)) == ("job/j", 1800.0)
    assert any("all 2 pending pods" in sentence for sentence in result.assumptions)


def test_ended_pod_is_rejected() -> None:
    ended = {**job_pod("w", on="n1"), "status": {"phase": "Succeeded"}}
    with pytest.raises(InputError, match="already ended"):
        forecast("w", node("n1"), ended)


def test_unknown_pod_is_rejected_with_a_suggestion() -> None:
    with pytest.raises(InputError, match="default/worker"):
        forecast("worked", node("n1"), job_pod("worker"))


QUEUE = (
    node("n1", cpu="4"),
    RUNNING,
    job_pod("first", cpu="3", runs="10m"),
    job_pod("second", cpu="3"),
    job_pod("too-large", cpu="5"),
    job_pod("gated", cpu="1", schedulingGates=[{"name": "quota"}]),
    job_pod("foreign", cpu="1", schedulerName="volcano"),
)


def test_queue_is_forecast_in_the_order_of_starts() -> None:
    with opened(*QUEUE) as session:
        result = forecast_queue(session, ForecastOptions(now=NOW, draws=10))
        alone = [
            forecast_start(session, f"default/{name}", "default", ForecastOptions(now=NOW, draws=10))
            for name in ("first", "second")
        ]
    assert [(item.pod, item.state) for item in result.pods] == [
        ("default/first", "pending"),
        ("default/second", "pending"),
        ("default/too-large", "never"),
        ("default/gated", "gated"),
    ]
    assert [item.start for item in result.pods[:2]] == [forecast.start for forecast in alone]
    assert result.pods[0].start is not None
    assert result.pods[0].start.p50 == 1800.0
    lines = list(queue_lines(result))
    assert lines[0] == "default/first      is expected to start in 30m (80% interval: 30m to 30m)"
    assert lines[2] == "default/too-large  does not start unless the cluster changes"


def test_forecast_of_the_queue_reports_few_simulated_futures() -> None:
    with opened(*QUEUE) as session:
        with pytest.raises(InputError, match="longer than the time limit"):
            forecast_queue(session, ForecastOptions(now=NOW), seconds=0.0)
        assert forecast_queue(session, ForecastOptions(now=NOW), namespace="other").pods == ()
