"""Every metric: name, type, labels, buckets and stability of kube-scheduler's metrics, and a few additional ones."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

from msgspec.structs import replace

from moorage.kube.features import FeatureGates
from moorage.scheduler.framework.metering import DEFAULT_BUCKETS, MetricKind, MetricSpec

STABLE: Final = "STABLE"
BETA: Final = "BETA"
ALPHA: Final = "ALPHA"


def exponential(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return upper bounds that grow by a factor, multiplied out one after the other as Go does."""
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


def _counter(name: str, labels: str, text: str, stability: str = ALPHA) -> MetricSpec:
    return MetricSpec(name, MetricKind.COUNTER, tuple(labels.split()), text, stability)


def _gauge(name: str, labels: str, text: str, stability: str = ALPHA) -> MetricSpec:
    return MetricSpec(name, MetricKind.GAUGE, tuple(labels.split()), text, stability)


def _histogram(name: str, labels: str, text: str, buckets: tuple[float, ...], stability: str = ALPHA) -> MetricSpec:
    return MetricSpec(name, MetricKind.HISTOGRAM, tuple(labels.split()), text, stability, buckets)


_MILLIS: Final = exponential(0.001, 2, 15)
_CENTIS: Final = exponential(0.01, 2, 20)
_TENTHS: Final = exponential(0.0001, 2, 12)
_MICROS: Final = exponential(0.00001, 1.5, 20)
_REQUESTS: Final = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
_SIZES: Final = (64.0, 256.0, 512.0, *(1024.0 * 4**power for power in range(8)))
_INFORMER: Final = "name group version resource"
_REVIEWS: Final = (0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0)

_ALL: Final = (
    _counter("scheduler_schedule_attempts_total", "result profile", "Attempts to schedule pods, by result.", STABLE),
    _histogram(
        "scheduler_scheduling_attempt_duration_seconds",
        "result profile",
        "Time of an attempt: algorithm and binding.",
        _MILLIS,
        STABLE,
    ),
    _histogram(
        "scheduler_scheduling_algorithm_duration_seconds",
        "",
        "Time to find and choose a node, including preemption.",
        _MILLIS,
        BETA,
    ),
    _histogram("scheduler_preemption_victims", "", "Victims chosen by one preemption.", exponential(1, 2, 7), STABLE),
    _counter("scheduler_preemption_attempts_total", "", "Attempts to preempt.", STABLE),
    _gauge("scheduler_pending_pods", "queue", "Pending pods, by queue.", STABLE),
    _gauge("scheduler_queued_entities", "queue type", "Queued entities, by queue and type."),
    _gauge("scheduler_inflight_events", "event", "Events stored for pods being scheduled."),
    _gauge("scheduler_goroutines", "operation", "Background tasks, by operation.", BETA),
    _histogram(
        "scheduler_pod_scheduling_sli_duration_seconds",
        "attempts",
        "Time from a pod's first entry into the active queue to its binding.",
        _CENTIS,
        BETA,
    ),
    _histogram(
        "scheduler_pod_scheduling_attempts", "", "Attempts until a pod was bound.", exponential(1, 2, 5), STABLE
    ),
    _counter(
        "scheduler_pod_scheduled_after_flush_total", "", "Pods bound after the flush timeout instead of an event."
    ),
    _histogram(
        "scheduler_framework_extension_point_duration_seconds",
        "extension_point status profile",
        "Time of all plugins of an extension point.",
        _TENTHS,
        STABLE,
    ),
    _histogram(
        "scheduler_plugin_execution_duration_seconds",
        "plugin extension_point status",
        "Time of one plugin at an extension point, in a tenth of all attempts.",
        _MICROS,
        BETA,
    ),
    _counter(
        "scheduler_plugin_evaluation_total",
        "plugin extension_point profile",
        "Calls of a plugin at an extension point, by attempt.",
        BETA,
    ),
    _histogram(
        "scheduler_queueing_hint_execution_duration_seconds", "plugin event hint", "Time of one queueing hint.", _MICROS
    ),
    _histogram(
        "scheduler_event_handling_duration_seconds", "event", "Time to apply an event to cache and queue.", _TENTHS
    ),
    _counter("scheduler_queue_incoming_pods_total", "queue event", "Pods added to a queue, by event.", STABLE),
    _counter("scheduler_queue_incoming_entities_total", "queue event type", "Entities added to a queue, by event."),
    _histogram("scheduler_permit_wait_duration_seconds", "result", "Time of waiting in Permit.", _MILLIS, BETA),
    _gauge("scheduler_cache_size", "type", "Nodes, pods and assumed pods in the cache."),
    _gauge("scheduler_unschedulable_pods", "plugin profile", "Unschedulable pods, by rejecting plugin.", BETA),
    _counter("scheduler_preemption_goroutines_execution_total", "result", "Evictions in the background."),
    # An alpha metric is hidden in the release that deprecates it.
    replace(
        _histogram(
            "scheduler_preemption_goroutines_duration_seconds",
            "result",
            "Time of evictions in the background.",
            _CENTIS,
        ),
        deprecated="1.37.0",
        is_hidden=True,
    ),
    _counter("scheduler_podgroup_schedule_attempts_total", "result profile", "Attempts to schedule groups, by result."),
    _histogram(
        "scheduler_podgroup_scheduling_attempt_duration_seconds",
        "result profile",
        "Time of an attempt to schedule a group.",
        _MILLIS,
    ),
    _histogram(
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "",
        "Time to find nodes for a group, without preemption.",
        _MILLIS,
    ),
    _counter("scheduler_workload_preemption_attempts_total", "result", "Attempts to preempt for groups, by result."),
    _histogram(
        "scheduler_workload_preemption_victims", "", "Victims of one preemption for a group.", exponential(1, 2, 11)
    ),
    _histogram(
        "scheduler_preemption_workload_disruptions",
        "preemptor",
        "Groups that one preemption disrupts.",
        exponential(1, 2, 11),
    ),
    _histogram(
        "scheduler_preemption_evaluation_duration_seconds",
        "preemptor result",
        "Time to choose victims, with groups.",
        exponential(0.001, 2, 16),
    ),
    _histogram(
        "scheduler_preemption_execution_duration_seconds",
        "preemptor result",
        "Time to evict victims, with groups.",
        exponential(0.001, 2, 16),
    ),
    _counter(
        "scheduler_preemption_pdb_violations_total",
        "preemptor",
        "Victims protected by a disruption budget, with groups.",
    ),
    _counter("scheduler_generated_placements_total", "profile", "Generated placements of groups."),
    _counter("scheduler_placement_evaluations_total", "result profile", "Evaluated placements of groups."),
    _histogram(
        "scheduler_placement_evaluation_duration_seconds",
        "result profile",
        "Time to evaluate a placement of a group.",
        _MILLIS,
    ),
    _counter("scheduler_volume_scheduling_stage_error_total", "operation", "Volume errors, by stage."),
    _counter(
        "scheduler_dra_bindingconditions_allocations_total",
        "profile driver status",
        "Device preparations for pods, by result.",
    ),
    _histogram(
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        "profile driver status",
        "Time of waiting for prepared devices.",
        exponential(0.1, 2, 14),
    ),
    _counter(
        "dynamic_resource_allocation_resourceclaim_creates_total",
        "status admin_access owner_api_group owner_api_kind",
        "Claims created for extended resources.",
    ),
    _gauge(
        "kubernetes_build_info",
        "build_date compiler git_commit git_tree_state git_version go_version major minor platform",
        "Running version; always 1.",
        BETA,
    ),
    _gauge("version_info", "binary component emulation min_compat", "Binary and emulated version; always 1."),
    _gauge("informer_store_resource_version", _INFORMER, "Resource version of the informer's store."),
    _gauge("informer_queued_items", _INFORMER, "Changes of a resource that are not applied yet."),
    _histogram(
        "informer_processing_latency_seconds", _INFORMER, "Time to apply a change of a resource.", DEFAULT_BUCKETS
    ),
    _gauge("kubernetes_feature_enabled", "name stage", "Whether a feature gate is enabled.", BETA),
    _gauge("leader_election_master_status", "name", "Whether this replica leads, by lease."),
    _counter("rest_client_requests_total", "code method host", "Requests to the API server."),
    _histogram("rest_client_request_duration_seconds", "verb host", "Time of a request.", _REQUESTS),
    _histogram("rest_client_request_size_bytes", "verb host", "Size of a request's body.", _SIZES),
    _histogram("rest_client_response_size_bytes", "verb host", "Size of a response body.", _SIZES),
    _counter("authentication_attempts", "result", "Requests to this server, by authentication result."),
    _histogram("authentication_duration_seconds", "result", "Time of authentication.", _MILLIS),
    _counter("authenticated_user_requests", "username", "Requests to this server, by user."),
    _counter("authorization_attempts_total", "result", "Requests to this server, by authorization result."),
    _histogram("authorization_duration_seconds", "result", "Time of authorization.", _MILLIS),
    _counter("authentication_token_cache_request_total", "status", "Lookups in the token cache."),
    _counter("authentication_token_cache_fetch_total", "status", "Token reviews after a cache miss."),
    _counter("apiserver_delegated_authn_request_total", "code", "TokenReview requests, by code."),
    _histogram("apiserver_delegated_authn_request_duration_seconds", "code", "Time of a TokenReview.", _REVIEWS),
    _counter("apiserver_delegated_authz_request_total", "code", "SubjectAccessReview requests, by code."),
    _histogram(
        "apiserver_delegated_authz_request_duration_seconds", "code", "Time of a SubjectAccessReview.", _REVIEWS
    ),
    _counter("registered_metrics_total", "stability_level deprecated_version", "Registered metrics.", BETA),
    _counter("disabled_metrics_total", "", "Metrics disabled by --disabled-metrics.", BETA),
    _counter("hidden_metrics_total", "", "Hidden metrics.", BETA),
    _gauge("moorage_plugin_form", "plugin profile form", "Form of a plugin: columns or node by node; always 1."),
    _counter("moorage_malformed_objects_total", "resource", "API objects that were skipped because they were invalid."),
    _counter("moorage_list_watch_failures_total", "resource", "Lists and watches that failed and were retried."),
    _counter("moorage_events_dropped_total", "", "Events that were dropped because the server was too slow."),
    _counter("moorage_apply_failures_total", "resource", "Changes of objects that could not be applied."),
    _counter("moorage_config_reloads_total", "result", "Reloads of configuration or plugin code: success or refused."),
    _histogram(
        "moorage_config_reload_hold_seconds",
        "step",
        "How long a reload paused scheduling, by step: build (plugins), swap (pending pods are re-admitted).",
        _TENTHS,
    ),
    _gauge("moorage_config_last_reload_successful", "", "Whether the last reload succeeded: 1, or 0 if rejected."),
    _gauge(
        "moorage_config_last_reload_success_timestamp_seconds", "", "Time at which the active configuration was loaded."
    ),
    _gauge("moorage_config_info", "hash", "Hash of the active configuration; always 1."),
    _counter("moorage_stuck_total", "plugin", "Times a plugin blocked the scheduler for more than a second."),
    _counter(
        "moorage_decision_log_dropped_total",
        "reason",
        "Decisions missing in --decision-log: full buffer (buffer) or failed write (disk).",
    ),
    _gauge("moorage_shadow_up", "", "Whether --shadow compares decisions."),
    _counter(
        "moorage_shadow_decisions_total",
        "profile result",
        "Decisions that --shadow compared: agrees, differs, unsure (its cluster state differed), error.",
    ),
    _counter(
        "moorage_shadow_differences_total",
        "profile plugin",
        "Decisions that differ, by the plugin that caused the difference.",
    ),
    _counter(
        "moorage_shadow_dropped_total", "reason", "Decisions that --shadow did not compare: busy, starting, lost."
    ),
    _counter(
        "moorage_cross_check_differences_total", "profile", "Cached results found wrong by --cross-check-percent."
    ),
    _gauge(
        "moorage_fragmentation_ratio",
        "pool shape",
        "Share of the pool's GPUs that are idle but unusable for pods of a shape; from GpuShare.",
    ),
    _gauge(
        "moorage_largest_job_gpus",
        "pool",
        "Largest number of whole GPUs available to one pod on one node; from GpuShare.",
    ),
)

METRICS: Final[Mapping[str, MetricSpec]] = MappingProxyType({spec.name: spec for spec in _ALL})

_LABELS_OF_1_38: Final = {
    "scheduler_podgroup_schedule_attempts_total": "result profile type",
    "scheduler_podgroup_scheduling_attempt_duration_seconds": "result profile type",
    "scheduler_podgroup_scheduling_algorithm_duration_seconds": "profile type",
    "scheduler_generated_placements_total": "profile type",
    "scheduler_placement_evaluations_total": "result profile type",
    "scheduler_placement_evaluation_duration_seconds": "result profile type",
    # The order of the two labels is not known yet.
    "scheduler_workload_preemption_attempts_total": "preemptor result",
    "scheduler_workload_preemption_victims": "preemptor",
}
"""Labels that 1.38 changes. These changes are planned."""


def select_metrics(features: FeatureGates) -> Iterator[MetricSpec]:
    """Yield the metrics of a release with its labels."""
    labels = _LABELS_OF_1_38 if features.since(1, 38) else {}
    for spec in METRICS.values():
        yield replace(spec, labels=tuple(labels[spec.name].split())) if spec.name in labels else spec


GATED: Final = MappingProxyType(
    {
        "scheduler_podgroup_scheduling_algorithm_duration_seconds": "GenericWorkload",
        "scheduler_workload_preemption_victims": "GenericWorkload",
    }
)
"""Metrics without labels that exist only while a gate is enabled; other metrics appear with their first count."""
