"""The table of metrics as a page of the documentation."""

import sys
from collections.abc import Iterator
from typing import Final

from moorage.app.metrics.table import METRICS, MetricKind, MetricSpec

INTRODUCTION: Final = """\
# Metrics

Generated from the table of metrics by `python -m moorage.app.metrics.printing`; a test keeps it true.

`/metrics` has these, under kube-scheduler's names, with its labels and buckets, and the usual `process_*` and
`python_gc_*`. `/metrics/slis` has `kubernetes_healthcheck{name,type}` and
`kubernetes_healthchecks_total{name,status,type}`.
`/metrics/resources` has `kube_pod_resource_request` and `kube_pod_resource_limit`, on the replica that leads.
`DELETE /metrics` sets all counters back to zero.

Of kube-scheduler's metrics these are missing, because there is nothing they could count here: `batch_*`,
`get_node_hint_duration_seconds` and `store_schedule_results_duration_seconds` (standing answers take the place of
opportunistic batching), `pre_queueing_hint_evaluations_total`, `async_api_call_*` and `pending_async_api_calls` (gates
without effect), everything of pod groups and placements (gates that are refused), and `go_*`, `workqueue_*`.

Not counted yet, because plugins have no hook for it: `scheduler_volume_*`, `dra_bindingconditions_*` and
`dynamic_resource_allocation_resourceclaim_creates_total`; nor are client-go's `informer_*`.
"""


def reference_page() -> str:
    """Print the documentation's page."""
    return f"{INTRODUCTION}\n{''.join(_rows())}"


def _rows() -> Iterator[str]:
    yield "| metric | type | labels | stability | buckets | meaning |\n|---|---|---|---|---|---|\n"
    for spec in METRICS.values():
        labels = ", ".join(f"`{label}`" for label in spec.labels)
        yield f"| `{spec.name}` | {spec.kind.value} | {labels} | {spec.stability} | {_buckets(spec)} | {spec.help} |\n"


def _buckets(spec: MetricSpec) -> str:
    if spec.kind is not MetricKind.HISTOGRAM:
        return ""
    return f"{spec.buckets[0]:g} … {spec.buckets[-1]:g} ({len(spec.buckets)})"


if __name__ == "__main__":
    sys.stdout.write(reference_page())
