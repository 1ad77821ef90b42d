"""The metrics of a simulated cluster."""

import asyncio
from collections.abc import Iterable
from random import Random

from prometheus_client import CollectorRegistry
from tests.support.exposing import exposing

from moorage.cluster.simulation.simulated_cluster import Fault, SimulatedCluster, no_faults
from moorage.cluster.simulation.simulation import Simulation
from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import Instruments
from moorage.scheduler.daemon.metrics.readings import PodResources, read_process, read_scheduler
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.catalogue import IN_TREE
from moorage.scheduler.queue.scheduling_queue import POD_ADDED
from moorage.scheduler.state.objects import ObjectCache
from moorage.scheduler.wiring.assembly import Observers
from moorage.scheduler.wiring.policy import Policy
from moorage.testing.builders import make_node, make_pod


class AlwaysSampling(Random):
    """Draws zero, so every cycle is sampled."""

    def random(self) -> float:
        return 0.0


def scheduled(
    objects: Iterable[KubeObject], *, later: Iterable[KubeObject] = (), fault: Fault = no_faults
) -> CollectorRegistry:
    """Schedule a cluster, add the later objects after a second, and return the final metrics."""
    clock, cells = VirtualClock(), CellRegistry()
    instruments = Instruments(cells, clock, AlwaysSampling())

    async def work() -> Simulation:
        world = SimulatedCluster(clock, fault=fault)
        simulation = Simulation(
            world,
            Policy(default_config(), Registry(IN_TREE), FeatureGates()),
            observers=Observers(instruments.attempts, instruments.queue, cells),
        )
        instruments.sampler.watch(placement.profile for placement in simulation.scheduler.runners.values())
        simulation.load(objects)
        world.start_watching(simulation.loop)
        asyncio.get_running_loop().call_later(1.0, lambda: world.add(*later))
        await simulation.run_until_quiet(max_seconds=20.0)
        await asyncio.sleep(2.0)
        await simulation.run_until_quiet(max_seconds=20.0)
        return simulation

    simulation = run_virtual(work(), clock)
    read_scheduler(cells, simulation.scheduler)
    read_process(cells, FeatureGates())
    return exposing(cells)


def value(registry: CollectorRegistry, name: str, /, **labels: str) -> float | None:
    return registry.get_sample_value(name, labels)


PROFILE = "default-scheduler"
BUSY = [
    make_node("n1"),
    make_node("n2"),
    make_pod("small", requests={"cpu": "1"}),
    make_pod("other", requests={"cpu": "1"}),
    make_pod("huge", requests={"cpu": "100"}),
]


def test_attempts_are_counted_by_result() -> None:
    registry = scheduled(BUSY)
    assert value(registry, "scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) == 2
    assert value(registry, "scheduler_schedule_attempts_total", result="unschedulable", profile=PROFILE) == 1
    timed = "scheduler_scheduling_attempt_duration_seconds_count"
    assert value(registry, timed, result="scheduled", profile=PROFILE) == 2
    assert value(registry, "scheduler_scheduling_algorithm_duration_seconds_count") == 3
    assert value(registry, "scheduler_pod_scheduling_attempts_count") == 2
    assert value(registry, "scheduler_pod_scheduling_sli_duration_seconds_count", attempts="1") == 2
    assert value(registry, "scheduler_preemption_attempts_total") == 1


def test_a_binding_that_fails_is_an_error() -> None:
    failures = iter([ApiError("no")])

    def fault(verb: str, _: KubeObject) -> ApiError | None:
        return next(failures, None) if verb == "bind" else None

    registry = scheduled([make_node("n1"), make_pod("p")], fault=fault)
    assert value(registry, "scheduler_schedule_attempts_total", result="error", profile=PROFILE) == 1
    assert value(registry, "scheduler_schedule_attempts_total", result="scheduled", profile=PROFILE) == 1
    assert value(registry, "scheduler_pod_scheduling_attempts_sum") == 2
    incoming = "scheduler_queue_incoming_pods_total"
    assert value(registry, incoming, queue="backoff", event="ScheduleAttemptFailure") == 1


def test_the_queue_is_counted() -> None:
    registry = scheduled(BUSY)
    assert value(registry, "scheduler_pending_pods", queue="unschedulable") == 1
    assert value(registry, "scheduler_pending_pods", queue="active") == 0
    assert value(registry, "scheduler_queued_entities", queue="unschedulable", type="pod") == 1
    incoming = "scheduler_queue_incoming_pods_total"
    assert value(registry, incoming, queue="active", event=POD_ADDED) == 3
    assert value(registry, incoming, queue="unschedulable", event="ScheduleAttemptFailure") == 1
    assert value(registry, "scheduler_unschedulable_pods", plugin="NodeResourcesFit", profile=PROFILE) == 1
    assert value(registry, "scheduler_inflight_events", event="PodPopped") == 0


def test_extension_points_are_timed() -> None:
    registry = scheduled(BUSY)
    name = "scheduler_framework_extension_point_duration_seconds_count"
    for point in ("Reserve", "Permit", "Bind", "PostBind", "PreBindPreFlight"):
        assert value(registry, name, extension_point=point, status="Success", profile=PROFILE) == 2, point
    for point in ("PreFilter", "Filter"):
        assert value(registry, name, extension_point=point, status="Success", profile=PROFILE) == 3, point
    assert value(registry, name, extension_point="Score", status="Success", profile=PROFILE) == 2
    assert value(registry, name, extension_point="PostFilter", status="Unschedulable", profile=PROFILE) == 1


def test_plugins_are_timed_in_sampled_cycles() -> None:
    registry = scheduled(BUSY)
    name = "scheduler_plugin_execution_duration_seconds_count"
    assert value(registry, name, plugin="DefaultBinder", extension_point="Bind", status="Success") == 2
    # Measuring adds no calls: this plugin skips pods without volumes.
    assert value(registry, name, plugin="VolumeBinding", extension_point="Reserve", status="Success") is None
    fit = value(registry, name, plugin="NodeResourcesFit", extension_point="Filter", status="Success")
    assert fit is not None
    assert fit >= 1


def test_evaluations_count_cycles_that_called_the_plugin() -> None:
    registry = scheduled(BUSY)
    name = "scheduler_plugin_evaluation_total"
    assert value(registry, name, plugin="NodeResourcesFit", extension_point="Filter", profile=PROFILE) == 3
    assert value(registry, name, plugin="NodePorts", extension_point="Filter", profile=PROFILE) is None
    assert value(registry, name, plugin="NodeResourcesFit", extension_point="Score", profile=PROFILE) == 2


def test_hints_are_timed() -> None:
    registry = scheduled(
        [make_node("n1"), make_pod("p", requests={"cpu": "8"})], later=[make_node("n2", allocatable={"cpu": 9})]
    )
    name = "scheduler_queueing_hint_execution_duration_seconds_count"
    assert value(registry, name, plugin="NodeResourcesFit", event="NodeAdd", hint="Queue") == 1
    assert value(registry, "scheduler_pod_scheduling_attempts_sum") == 2


def test_gauges_read_the_scheduler_state() -> None:
    registry = scheduled(BUSY)
    assert value(registry, "scheduler_cache_size", type="nodes") == 2
    assert value(registry, "scheduler_cache_size", type="pods") == 2
    assert value(registry, "scheduler_cache_size", type="assumed_pods") == 0
    assert value(registry, "moorage_plugin_form", plugin="NodeResourcesFit", profile=PROFILE, form="columns") == 1
    assert value(registry, "kubernetes_feature_enabled", name="SchedulerAsyncPreemption", stage="BETA") == 1
    assert value(registry, "kubernetes_feature_enabled", name="GenericWorkload", stage="BETA") == 0


def test_only_the_leader_reports_pod_resources() -> None:
    pods: ObjectCache[Pod] = ObjectCache()
    pods.put(make_pod("p", node="n1", priority=7, requests={"cpu": "250m", "memory": "1Ki", "pods": 0}))
    resources = PodResources(pods)
    assert list(resources.collect()) == []
    resources.is_leading = True
    about = {"namespace": "default", "pod": "p", "node": "n1", "scheduler": PROFILE, "priority": "7"}
    registry = exposing(resources)
    name = "kube_pod_resource_request"
    assert value(registry, name, **about, resource="cpu", unit="cores") == 0.25
    assert value(registry, name, **about, resource="memory", unit="bytes") == 1024
