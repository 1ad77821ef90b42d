"""A plugin's own metrics: counted without a server, shown under the plugin's name where there is one."""

from typing import Any

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.options import MetricsOptions
from moorage.scheduler.framework.metering import MAX_UNCOUNTED, SILENT_METER, PluginMeter, PluginMetrics


def make_plugin_metrics(meter: PluginMeter, profile: str = "default-scheduler") -> PluginMetrics:
    return PluginMetrics(meter, "LoadAware", profile)


@pytest.mark.parametrize("meter", [SILENT_METER, CellRegistry()], ids=["without a server", "with one"])
def test_counted_values_can_be_read(meter: PluginMeter) -> None:
    metrics = make_plugin_metrics(meter)
    requests = metrics.counter("requests", "Requests.", labels=("result",))
    requests.inc(result="success")
    requests.inc(2, result="error")
    load = metrics.gauge("load", "The load.", labels=("node",))
    load.set(0.5, node="a")
    load.inc(-0.25, node="a")
    took = metrics.histogram("seconds", "Time.", buckets=(1.0, 0.1))
    for value in (0.05, 0.5, 5.0):
        took.observe(value)
    assert (requests.value(result="success"), requests.value(result="error")) == (1.0, 2.0)
    assert load.value(node="a") == 0.25
    assert (took.count(), took.sum()) == (3, pytest.approx(5.55))


def page(registry: CellRegistry) -> str:
    collectors = CollectorRegistry()
    collectors.register(registry)  # type: ignore[arg-type]
    return generate_latest(collectors).decode()


def test_profiles_share_a_metric_and_have_a_label_each() -> None:
    registry = CellRegistry()
    for profile in ("first", "second"):
        metrics = make_plugin_metrics(registry, profile)
        metrics.counter("polls_total", "Polls.").inc()
        metrics.histogram("age_seconds", "Age.", buckets=(1.0,)).observe(2.0)
    text = page(registry)
    assert 'moorage_plugin_load_aware_polls_total{profile="first"} 1.0' in text
    assert 'moorage_plugin_load_aware_polls_total{profile="second"} 1.0' in text
    assert 'moorage_plugin_load_aware_age_seconds_bucket{le="1.0",profile="first"} 0.0' in text
    assert 'moorage_plugin_load_aware_age_seconds_sum{profile="second"} 2.0' in text


def test_a_metric_that_is_disabled_is_not_shown() -> None:
    registry = CellRegistry(MetricsOptions(disabled=frozenset({"moorage_plugin_load_aware_polls_total"})))
    make_plugin_metrics(registry).counter("polls", "Polls.").inc()
    assert "moorage_plugin" not in page(registry)


MISTAKES: dict[str, tuple[Any, str]] = {
    "a name with a hyphen": (lambda m: m.gauge("node-load", ""), "'node-load' cannot be the name of a metric"),
    "a label with a capital": (lambda m: m.gauge("load", "", labels=["Node"]), "'Node' cannot be the name"),
    "an automatic label": (
        lambda m: m.gauge("load", "", labels=["profile"]),
        "always has the label `profile`: omit it",
    ),
    "a label that is missing": (lambda m: m.gauge("load", "", labels=["node"]).set(1), "has the labels node, and was"),
    "a label that is too much": (lambda m: m.gauge("load", "").set(1, node="a"), "has the labels none, and was given"),
    "a counter that goes back": (lambda m: m.counter("polls", "").inc(-1), "cannot decrease: use a gauge"),
}


@pytest.mark.parametrize(("mistake", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named(mistake: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mistake(make_plugin_metrics(SILENT_METER))


def test_metric_name_is_unique() -> None:
    metrics = make_plugin_metrics(CellRegistry())
    metrics.counter("polls", "Polls.", labels=["a"])
    with pytest.raises(ValueError, match="polls_total is already registered as a counter with the labels profile, a"):
        metrics.counter("polls", "Polls.", labels=["b"])


def test_unread_observations_do_not_accumulate() -> None:
    histogram = make_plugin_metrics(SILENT_METER).histogram("seconds", "Time.")
    for _ in range(MAX_UNCOUNTED + 5):
        histogram.observe(1.0)
    assert histogram._cell({}).uncounted == 5
    assert histogram.count() == MAX_UNCOUNTED + 5
