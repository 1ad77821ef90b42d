"""Counting in cells, and how it is exposed."""

import pytest
from prometheus_client.exposition import generate_latest
from tests.support.exposing import exposing

from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.options import MetricsOptions
from moorage.scheduler.framework.metering import MetricKind, MetricSpec

SPECS = (
    MetricSpec("a_total", MetricKind.COUNTER, ("result",), "Attempts.", "STABLE"),
    MetricSpec("g", MetricKind.GAUGE, (), "Size."),
    MetricSpec("h_seconds", MetricKind.HISTOGRAM, ("point",), "Time.", "BETA", (0.5, 1.0)),
    MetricSpec("old", MetricKind.GAUGE, (), "Gone soon.", is_hidden=True),
)


def registry(**options: object) -> CellRegistry:
    return CellRegistry(MetricsOptions(**options), SPECS)  # type: ignore[arg-type]


def exposed(cells: CellRegistry) -> list[str]:
    return generate_latest(exposing(cells)).decode().splitlines()


def test_counters_gauges_and_histograms_are_exposed_as_upstream_does() -> None:
    cells = registry()
    cells["a_total"].number("scheduled").inc()
    cells["a_total"].number("scheduled").inc(2)
    cells["g"].number().set(7)
    for value in (0.5, 0.7, 3.0):
        cells["h_seconds"].histogram("Filter").observe(value)
    assert exposed(cells) == [
        "# HELP a_total [STABLE] Attempts.",
        "# TYPE a_total counter",
        'a_total{result="scheduled"} 3.0',
        "# HELP g [ALPHA] Size.",
        "# TYPE g gauge",
        "g 7.0",
        "# HELP h_seconds [BETA] Time.",
        "# TYPE h_seconds histogram",
        'h_seconds_bucket{le="0.5",point="Filter"} 1.0',
        'h_seconds_bucket{le="1.0",point="Filter"} 2.0',
        'h_seconds_bucket{le="+Inf",point="Filter"} 3.0',
        'h_seconds_count{point="Filter"} 3.0',
        'h_seconds_sum{point="Filter"} 4.2',
    ]


def test_metric_with_labels_appears_with_its_first_child_and_others_immediately() -> None:
    assert exposed(registry()) == ["# HELP g [ALPHA] Size.", "# TYPE g gauge", "g 0.0"]


def test_disabled_metric_is_not_counted() -> None:
    cells = registry(disabled=frozenset({"g"}))
    cells["g"].number().inc()
    assert exposed(cells) == []


def test_label_values_that_are_not_allowed_become_one() -> None:
    cells = registry(allowed_labels={"a_total,result": frozenset({"scheduled"})})
    for result in ("scheduled", "error", "unschedulable"):
        cells["a_total"].number(result).inc()
    assert [line for line in exposed(cells) if line.startswith("a_total{")] == [
        'a_total{result="scheduled"} 1.0',
        'a_total{result="unexpected"} 2.0',
    ]


def test_hidden_metrics_are_shown_on_request() -> None:
    assert not any(line.startswith("old") for line in exposed(registry()))
    assert "old 0.0" in exposed(registry(show_hidden=True))


def test_reset_starts_at_zero_and_keeps_bound_cells() -> None:
    cells = registry()
    counter, histogram = cells["a_total"].number("x"), cells["h_seconds"].histogram("y")
    counter.inc()
    histogram.observe(1)
    cells.reset()
    counter.inc(5)
    assert 'a_total{result="x"} 5.0' in exposed(cells)
    assert 'h_seconds_sum{point="y"} 0.0' in exposed(cells)


def test_readings_are_taken_on_scrape() -> None:
    cells, sizes = registry(), [3]
    cells["g"].set_reader(lambda: [((), float(sizes[0]))])
    sizes[0] = 9
    assert "g 9.0" in exposed(cells)


def test_plugins_register_their_own_metrics() -> None:
    cells = registry()
    spec = MetricSpec("mine_total", MetricKind.COUNTER, ("profile",), "Own.")
    seconds = MetricSpec("mine_seconds", MetricKind.HISTOGRAM, (), "Own time.", buckets=(1.0,))
    for each in (spec, spec, seconds):
        cells.register(each)
    cells.number(spec, "default").inc(3)
    cells.histogram(seconds).observe(0.5)
    assert {*cells.names()} == {"a_total", "g", "h_seconds", "old", "mine_total", "mine_seconds"}
    assert 'mine_total{profile="default"} 3.0' in exposed(cells)
    assert "mine_seconds_sum 0.5" in exposed(cells)
    other = MetricSpec("mine_total", MetricKind.GAUGE, ("profile", "node"), "Another.")
    with pytest.raises(
        ValueError, match=r"mine_total is already registered as a counter with the labels profile .'Own.'"
    ):
        cells.register(other)


def test_meters_count_by_name() -> None:
    cells = registry()
    cells.count("a_total", "scheduled")
    cells.observe("h_seconds", 2.5, "Filter")
    assert 'a_total{result="scheduled"} 1.0' in exposed(cells)
    assert 'h_seconds_sum{point="Filter"} 2.5' in exposed(cells)


def test_deferred_counts_are_added_before_each_read() -> None:
    cells, deferred = registry(), [1, 2, 4]
    counter, histogram = cells["a_total"].number("x"), cells["h_seconds"].histogram("y")

    def add() -> None:
        counter.inc(deferred.pop(0) if deferred else 0)
        histogram.observe(0.25)

    cells.call_before_scrape(add)
    assert 'a_total{result="x"} 1.0' in exposed(cells)
    cells.fold()
    assert (counter.value, histogram.uncounted) == (3, 0)
    cells.reset()
    assert 'a_total{result="x"} 0.0' in exposed(cells), "values from before the reset are not counted after it"


def test_other_labels_of_a_restricted_metric_keep_their_values() -> None:
    spec = MetricSpec("b_total", MetricKind.COUNTER, ("result", "profile"), "Both.")
    cells = CellRegistry(MetricsOptions(allowed_labels={"b_total,result": frozenset({"ok"})}), [spec])
    for labels in (("ok", "p"), ("odd", "p"), ("odd", "q")):
        cells["b_total"].number(*labels).inc()
    assert [line for line in exposed(cells) if line.startswith("b_total{")] == [
        'b_total{profile="p",result="ok"} 1.0',
        'b_total{profile="p",result="unexpected"} 1.0',
        'b_total{profile="q",result="unexpected"} 1.0',
    ]


def test_readings_are_added_to_counted_values() -> None:
    cells = registry()
    cells["a_total"].number("counted").inc()
    cells["a_total"].set_reader(lambda: [(("read",), 4.0)])
    assert [line for line in exposed(cells) if line.startswith("a_total{")] == [
        'a_total{result="counted"} 1.0',
        'a_total{result="read"} 4.0',
    ]


def test_wrong_number_of_labels_is_an_error() -> None:
    with pytest.raises(AssertionError, match="a_total"):
        registry()["a_total"].number()
    with pytest.raises(AssertionError, match="h_seconds"):
        registry()["h_seconds"].histogram("Filter", "extra")


def test_counters_without_the_usual_suffix_have_no_type() -> None:
    cells = CellRegistry(specs=[MetricSpec("attempts", MetricKind.COUNTER, (), "Old name.")])
    assert exposed(cells) == ["# HELP attempts [ALPHA] Old name.", "# TYPE attempts untyped", "attempts 0.0"]
