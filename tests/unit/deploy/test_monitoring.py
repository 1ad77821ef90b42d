"""The dashboard and the alerts of deploy/: every metric and label in them is one that we have."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from moorage.scheduler.daemon.metrics.table import METRICS
from moorage.scheduler.framework.metering import MetricKind

MONITORING = Path(__file__).parents[3] / "deploy" / "monitoring"
FUNCTIONS = frozenset(("sum", "max", "rate", "increase", "deriv", "topk", "histogram_quantile"))
WORDS = frozenset(("by", "and", "or", "le", "job"))
GIVEN = frozenset(("job", "le"))
"""Labels that Prometheus gives."""
SUFFIXES = ("_bucket", "_sum", "_count")
METRIC = re.compile(r"([a-z][a-z_]*)\s*(?:\{([^}]*)\})?")
GROUPED = re.compile(r"by \(([^)]*)\)")


def panels() -> list[dict[str, Any]]:
    dashboard_panels: list[dict[str, Any]] = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    return dashboard_panels


def rules() -> list[dict[str, Any]]:
    groups = yaml.safe_load((MONITORING / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> dict[str, str]:
    targets = [(panel["title"], target) for panel in panels() for target in panel.get("targets", ())]
    panel_expressions = {f"{title} {target['refId']}": target["expr"] for title, target in targets}
    return panel_expressions | {rule["alert"]: rule["expr"] for rule in rules()}


def metrics_in(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Find the names of metrics, and the labels that they are chosen by."""
    plain = GROUPED.sub(" ", re.sub(r"\[[^\]]*\]", " ", expression))
    for name, selector in METRIC.findall(re.sub(r'"[^"]*"', '""', plain)):
        if name not in FUNCTIONS | WORDS:
            yield name, set(re.findall(r"(\w+)\s*(?:=|!)", selector))


def read_spec(name: str) -> Any:
    for suffix in ("", *SUFFIXES):
        base = name.removesuffix(suffix) if suffix else name
        if base in METRICS and (not suffix or METRICS[base].kind is MetricKind.HISTOGRAM):
            return METRICS[base]
    return None


@pytest.mark.parametrize("expression", expressions().values(), ids=expressions())
def test_every_metric_and_label_exists(expression: str) -> None:
    labels_by_metric = dict(metrics_in(expression))
    assert labels_by_metric, "there is a metric in it"
    specs = {name: read_spec(name) for name in labels_by_metric}
    assert [name for name, spec in specs.items() if spec is None] == []
    for name, labels in labels_by_metric.items():
        assert labels <= set(specs[name].labels) | GIVEN, name
    common = set.intersection(*(set(spec.labels) for spec in specs.values()))
    for names in GROUPED.findall(expression):
        assert {label.strip() for label in names.split(",")} <= common | GIVEN


def test_a_name_that_does_not_exist_would_be_found() -> None:
    assert dict(metrics_in('sum by (queue) (rate(scheduler_pending{queue="active"}[5m])) > 1')) == {
        "scheduler_pending": {"queue"}
    }
    assert read_spec("scheduler_pending") is None
    assert read_spec("scheduler_pending_pods_bucket") is None


def test_our_error_metrics_have_alerts() -> None:
    used_metrics = {name for expression in expressions().values() for name, _ in metrics_in(expression)}
    assert {name for name in METRICS if name.startswith("moorage_") and name.endswith("_total")} <= used_metrics


def test_every_alert_has_instructions() -> None:
    for rule in rules():
        assert rule["labels"]["severity"] in ("critical", "warning", "info"), rule["alert"]
        assert set(rule["annotations"]) == {"summary", "description"}, rule["alert"]


def test_panels_have_unique_ids_and_do_not_overlap() -> None:
    occupied: set[tuple[int, int]] = set()
    for panel in panels():
        position = panel["gridPos"]
        across, down = (range(position[at], position[at] + position[size]) for at, size in (("x", "w"), ("y", "h")))
        cells = {(x, y) for x in across for y in down}
        assert not cells & occupied, panel["title"]
        occupied |= cells
    assert len({panel["id"] for panel in panels()}) == len(panels())
