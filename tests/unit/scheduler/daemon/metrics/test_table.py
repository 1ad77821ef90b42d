"""The table of metrics against kube-scheduler's own."""

from fnmatch import fnmatch

import pytest
from manual.tables import ABSENT_METRICS

from moorage.scheduler.daemon.metrics.table import METRICS, exponential

#: Name, type, stability, labels and, for histograms, start, factor and number of buckets, as upstream registers them.
UPSTREAM = """
scheduler_schedule_attempts_total counter STABLE result,profile
scheduler_scheduling_attempt_duration_seconds histogram STABLE result,profile 0.001 2 15
scheduler_scheduling_algorithm_duration_seconds histogram BETA - 0.001 2 15
scheduler_preemption_victims histogram STABLE - 1 2 7
scheduler_preemption_attempts_total counter STABLE -
scheduler_pending_pods gauge STABLE queue
scheduler_queued_entities gauge ALPHA queue,type
scheduler_inflight_events gauge ALPHA event
scheduler_goroutines gauge BETA operation
scheduler_pod_scheduling_sli_duration_seconds histogram BETA attempts 0.01 2 20
scheduler_pod_scheduling_attempts histogram STABLE - 1 2 5
scheduler_pod_scheduled_after_flush_total counter ALPHA -
scheduler_framework_extension_point_duration_seconds histogram STABLE extension_point,status,profile 0.0001 2 12
scheduler_plugin_execution_duration_seconds histogram BETA plugin,extension_point,status 0.00001 1.5 20
scheduler_plugin_evaluation_total counter BETA plugin,extension_point,profile
scheduler_queueing_hint_execution_duration_seconds histogram ALPHA plugin,event,hint 0.00001 1.5 20
scheduler_event_handling_duration_seconds histogram ALPHA event 0.0001 2 12
scheduler_queue_incoming_pods_total counter STABLE queue,event
scheduler_queue_incoming_entities_total counter ALPHA queue,event,type
scheduler_permit_wait_duration_seconds histogram BETA result 0.001 2 15
scheduler_cache_size gauge ALPHA type
scheduler_unschedulable_pods gauge BETA plugin,profile
scheduler_preemption_goroutines_execution_total counter ALPHA result
scheduler_preemption_goroutines_duration_seconds histogram ALPHA result 0.01 2 20
scheduler_podgroup_schedule_attempts_total counter ALPHA result,profile
scheduler_podgroup_scheduling_attempt_duration_seconds histogram ALPHA result,profile 0.001 2 15
scheduler_podgroup_scheduling_algorithm_duration_seconds histogram ALPHA - 0.001 2 15
scheduler_workload_preemption_attempts_total counter ALPHA result
scheduler_workload_preemption_victims histogram ALPHA - 1 2 11
scheduler_preemption_workload_disruptions histogram ALPHA preemptor 1 2 11
scheduler_preemption_evaluation_duration_seconds histogram ALPHA preemptor,result 0.001 2 16
scheduler_preemption_execution_duration_seconds histogram ALPHA preemptor,result 0.001 2 16
scheduler_preemption_pdb_violations_total counter ALPHA preemptor
scheduler_generated_placements_total counter ALPHA profile
scheduler_placement_evaluations_total counter ALPHA result,profile
scheduler_placement_evaluation_duration_seconds histogram ALPHA result,profile 0.001 2 15
scheduler_volume_scheduling_stage_error_total counter ALPHA operation
scheduler_dra_bindingconditions_allocations_total counter ALPHA profile,driver,status
scheduler_dra_bindingconditions_wait_duration_seconds histogram ALPHA profile,driver,status 0.1 2 14
dynamic_resource_allocation_resourceclaim_creates_total counter ALPHA status,admin_access,owner_api_group,owner_api_kind
version_info gauge ALPHA binary,component,emulation,min_compat
informer_store_resource_version gauge ALPHA name,group,version,resource
informer_queued_items gauge ALPHA name,group,version,resource
informer_processing_latency_seconds histogram ALPHA name,group,version,resource
rest_client_request_size_bytes histogram ALPHA verb,host
rest_client_response_size_bytes histogram ALPHA verb,host
authentication_attempts counter ALPHA result
authentication_duration_seconds histogram ALPHA result 0.001 2 15
authenticated_user_requests counter ALPHA username
authorization_attempts_total counter ALPHA result
authorization_duration_seconds histogram ALPHA result 0.001 2 15
leader_election_master_status gauge ALPHA name
kubernetes_feature_enabled gauge BETA name,stage
rest_client_requests_total counter ALPHA code,method,host
"""


#: Metrics of Kubernetes' libraries, checked against a running kube-scheduler in tests/live.
COMPONENT_BASE = {
    "apiserver_delegated_authn_request_duration_seconds",
    "apiserver_delegated_authn_request_total",
    "apiserver_delegated_authz_request_duration_seconds",
    "apiserver_delegated_authz_request_total",
    "authentication_token_cache_fetch_total",
    "authentication_token_cache_request_total",
    "disabled_metrics_total",
    "hidden_metrics_total",
    "kubernetes_build_info",
    "registered_metrics_total",
    "rest_client_request_duration_seconds",
}


@pytest.mark.parametrize("line", UPSTREAM.strip().splitlines(), ids=lambda line: line.split()[0])
def test_every_upstream_metric_is_as_upstream_has_it(line: str) -> None:
    name, kind, stability, labels, *buckets = line.split()
    spec = METRICS[name]
    assert (spec.kind.value, spec.stability) == (kind, stability)
    assert ",".join(spec.labels) == labels.replace("-", "")
    if buckets:
        assert spec.buckets == exponential(float(buckets[0]), float(buckets[1]), int(buckets[2]))


def test_other_metrics_are_metrics_of_upstream() -> None:
    upstream_names = {line.split()[0] for line in UPSTREAM.strip().splitlines()} | COMPONENT_BASE
    assert {name for name in METRICS if not name.startswith("moorage_")} == upstream_names


def test_absent_metrics_are_not_defined() -> None:
    assert not [name for name in METRICS if any(fnmatch(name, pattern) for pattern in ABSENT_METRICS)]


def test_bounds_grow_by_a_factor() -> None:
    assert exponential(1, 2, 5) == (1, 2, 4, 8, 16)
