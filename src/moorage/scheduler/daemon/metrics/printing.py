"""The table of metrics as a page of the documentation."""

import sys
from collections.abc import Iterator
from typing import Final

from moorage.scheduler.daemon.metrics.table import METRICS
from moorage.scheduler.framework.metering import MetricKind, MetricSpec

INTRODUCTION: Final = """\
# Metrics

Generated from the table of metrics by `python -m moorage.scheduler.daemon.metrics.printing`; a test keeps it true.

`/metrics` has these, under kube-scheduler's names, with its labels and buckets, and the usual `process_*` and
`python_gc_*`. `/metrics/slis` has `kubernetes_healthcheck{name,type}` and
`kubernetes_healthchecks_total{name,status,type}`.
`/metrics/resources` has `kube_pod_resource_request` and `kube_pod_resource_limit`, on the replica that leads.
A plugin's own metrics are called `moorage_plugin_<plugin>_<name>` and have a label `profile`.
`DELETE /metrics` sets all counters back to zero.

Of kube-scheduler's metrics these are not here:

"""

#: Upstream's metrics that are not here, by pattern, and why.
ABSENT: Final = {
    "scheduler_batch_*": "cached results replace opportunistic batching",
    "scheduler_get_node_hint_duration_seconds": "as above",
    "scheduler_store_schedule_results_duration_seconds": "as above",
    "scheduler_pre_queueing_hint_evaluations_total": "its gate changes nothing here",
    "scheduler_async_api_call_*": "its gate changes nothing here",
    "scheduler_pending_async_api_calls": "its gate changes nothing here",
    "scheduler_volume_binder_cache_requests_total": "upstream registers it and never counts",
    "go_*": "this is not Go",
    "workqueue_*": "there are no work queues",
    "rest_client_rate_limiter_duration_seconds": "requests are limited where they are queued, if at all",
    "rest_client_transport_*": "there is one connection pool for each client, and no cache of them",
    "rest_client_exec_plugin_*": "credentials are refreshed when they expire",
    "authentication_token_cache_active_fetch_count": "token reviews run one at a time",
    "authentication_token_cache_request_duration_seconds": "see apiserver_delegated_authn_request_duration_seconds",
    "cardinality_enforcement_unexpected_categorizations_total": "labels are looked up once, not at every count",
    "apiserver_client_certificate_expiration_seconds": "part of Kubernetes' server library",
    "apiserver_audit_*": "part of Kubernetes' server library",
    "apiserver_envelope_*": "part of Kubernetes' server library",
    "apiserver_storage_*": "part of Kubernetes' server library",
    "apiserver_validation_*": "part of Kubernetes' server library",
    "apiserver_webhooks_*": "part of Kubernetes' server library",
    "aggregator_*": "part of Kubernetes' server library",
    "leader_election_slowpath_total": "a lease is renewed in one way only",
}


def reference_page() -> str:
    """Print the documentation's page."""
    return f"{INTRODUCTION}{''.join(_absent())}\n{''.join(_rows())}"


def _absent() -> Iterator[str]:
    yield "| metric | why not |\n|---|---|\n"
    for pattern, reason in ABSENT.items():
        yield f"| `{pattern}` | {reason} |\n"


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
