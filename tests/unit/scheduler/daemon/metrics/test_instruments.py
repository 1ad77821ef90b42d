"""The metrics of a simulated cluster, and their recomputation from the raw events."""

import gc
import io
from collections import Counter
from random import Random
from types import SimpleNamespace
from typing import Any
from weakref import WeakSet

import pytest
from tests.support.exposing import exposing
from tests.support.simulated_metrics import BUSY, PROFILE, read_buckets, read_samples, scheduled, simulate, value

from moorage.common.clock import VirtualClock
from moorage.common.errors import ApiError
from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.daemon.log_lines import configure_logs
from moorage.scheduler.daemon.metrics import instruments as instruments_module
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import (
    MAX_ATTEMPTS,
    SLOW_SECONDS,
    EventInstruments,
    InformerInstruments,
    Instruments,
    PodResources,
    RequestMeter,
    forms,
    read_client,
    read_informers,
    read_process,
    read_scheduler,
)
from moorage.scheduler.daemon.metrics.table import METRICS
from moorage.scheduler.daemon.options import LoggingOptions, MetricsOptions
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import SeveralNodes
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Dropped, Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.framework.logs import VERBOSITY
from moorage.scheduler.framework.metering import GaugeSource
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.observer import QueueObserver
from moorage.scheduler.queue.scheduling_queue import POD_ADDED
from moorage.scheduler.state.objects import ObjectCache
from moorage.scheduler.wiring.attempt_log import ATTEMPT_LEVEL, DECISION_LEVEL
from moorage.testing.builders import make_node, make_pod


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


def test_counts_of_former_profiles_remain_without_the_profiles() -> None:
    cells, runners = CellRegistry(), WeakSet[ProfileRunner]()
    attempts = Instruments(cells, VirtualClock()).attempts

    class Remembers(AttemptObserver):
        def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: Any) -> None:
            runners.add(runner)

    simulate(BUSY, observers=[attempts, Remembers()])
    before = read_samples(cells, "scheduler_plugin_evaluation_total")
    gc.collect()
    assert len(runners) == 1, "the counts are derived from the profile"
    attempts.profiles_changed()
    gc.collect()
    assert not runners
    assert read_samples(cells, "scheduler_plugin_evaluation_total") == before
    assert before["NodeResourcesFit", "Filter", PROFILE] == 3


def test_hints_are_timed() -> None:
    registry = scheduled(
        [make_node("n1"), make_pod("p", requests={"cpu": "8"})], later=[make_node("n2", allocatable={"cpu": 9})]
    )
    name = "scheduler_queueing_hint_execution_duration_seconds_count"
    assert value(registry, name, plugin="NodeResourcesFit", event="NodeAdd", hint="Queue") == 1
    assert value(registry, "scheduler_pod_scheduling_attempts_sum") == 2


def test_requests_are_counted_by_code_method_and_host() -> None:
    cells = CellRegistry()
    meter = RequestMeter("api:6443", cells)
    for exchange in (("POST", 201, 0.1, 2, 9), ("POST", 409, 0.1, 2, 9), ("GET", 0, 0.1, 0, 0)):
        meter.note(exchange)
    registry = exposing(cells)
    counted = {
        code: registry.get_sample_value(
            "rest_client_requests_total", {"code": code, "method": method, "host": "api:6443"}
        )
        for code, method in (("201", "POST"), ("409", "POST"), ("<error>", "GET"))
    }
    assert counted == {"201": 1, "409": 1, "<error>": 1}
    timed = registry.get_sample_value(
        "rest_client_request_duration_seconds_count", {"verb": "POST", "host": "api:6443"}
    )
    assert timed == 2
    labels = {"verb": "POST", "host": "api:6443"}
    assert registry.get_sample_value("rest_client_request_size_bytes_sum", labels) == 4
    assert registry.get_sample_value("rest_client_response_size_bytes_count", labels) == 2


class RawEvents(AttemptObserver, QueueObserver):
    """Records raw events. Time passes only here, so that all durations can be recomputed."""

    search: tuple[ProfileRunner, Any]

    def __init__(self, seed: int, clock: VirtualClock) -> None:
        self.random, self.clock = Random(seed), clock
        self.now = 0.0
        self.began: dict[str, float] = {}
        self.algorithm: list[float] = []
        self.attempts: list[tuple[str, str, float]] = []
        self.bindings: list[tuple[int, float]] = []
        self.moves: Counter[tuple[str, str]] = Counter()
        self.rejections: Counter[tuple[str, str]] = Counter()
        self.events: Counter[str] = Counter()
        self.hints: list[tuple[str, str, str, float]] = []
        self.evaluations: Counter[tuple[str, str, str]] = Counter()

    def pass_time(self) -> None:
        self.now += self.random.choice((0.0004, 0.003, 0.05, 0.7))

    def on_pop(self, pod: Pod, attempt: int) -> None:
        self.pass_time()
        self.began[pod.uid] = self.now

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: Any) -> None:
        self.search = runner, result

    def _note_evaluations(self, runner: ProfileRunner, result: Any) -> None:
        profile, state = runner.profile, result.cycle
        calls = [("PreFilter", plugin) for plugin in profile.pre_filter]
        calls += [("Filter", plugin) for plugin in profile.filter if plugin.name not in state.skipped_filters]
        if isinstance(result, SeveralNodes) and result.count > 1:
            calls += [("PreScore", plugin) for plugin in profile.pre_score]
            calls += [("Score", plugin) for plugin in profile.score if plugin.name not in state.skipped_scores]
        self.evaluations.update((plugin.name, point, profile.name) for point, plugin in calls)

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        self.pass_time()
        self._note_evaluations(*self.search)  # PreScore, which follows the search, skips plugins, too
        self.algorithm.append(self.now - self.began[queued.uid])
        if isinstance(outcome, Unschedulable | Failed):
            self._note(queued, outcome)

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        self.pass_time()
        self._note(queued, None)
        assert queued.initial_attempt_timestamp is not None
        self.bindings.append((queued.attempts, self.clock.now() - queued.initial_attempt_timestamp))

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        self.pass_time()
        self._note(queued, outcome)

    def _note(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed | None) -> None:
        match outcome:
            case None:
                result = "scheduled"
            case Failed(is_rejection=False):
                result = "error"
            case _:
                result = "unschedulable"
        self.attempts.append((result, queued.pod.scheduler_name, self.now - self.began[queued.uid]))

    def on_move(self, pod: Pod, queue: str, event: str) -> None:
        self.moves[queue, event] += 1

    def on_rejection(self, plugin: str, profile: str, delta: int) -> None:
        self.rejections[plugin, profile] += delta

    def on_in_flight(self, event: str, delta: int) -> None:
        self.events[event] += delta

    def on_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        self.hints.append((plugin, event, hint, seconds))


def count_buckets(cells: CellRegistry, name: str, values: list[tuple[tuple[str, ...], float]]) -> dict[Any, Any]:
    """Count raw values as :func:`read_buckets` returns them."""
    bounds = (*cells[name].spec.buckets, float("inf"))
    by_labels: dict[tuple[str, ...], list[float]] = {}
    for key, number in values:
        by_labels.setdefault(key, []).append(number)
    return {
        key: ([float(sum(n <= bound for n in numbers)) for bound in bounds], pytest.approx(sum(numbers)))
        for key, numbers in by_labels.items()
    }


@pytest.mark.parametrize("seed", range(4))
def test_metrics_are_those_recomputed_from_raw_events(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw, random = RawEvents(seed, VirtualClock()), Random(seed)
    monkeypatch.setattr(instruments_module, "perf_counter", lambda: raw.now)
    nodes = [make_node(f"n{i}", allocatable={"cpu": 4, "pods": 20}) for i in range(4)]
    pods = [make_pod(f"p{i}", requests={"cpu": str(random.choice((1, 2, 6, 9)))}) for i in range(20)]

    def fail_some_bindings(verb: str, _: KubeObject) -> ApiError | None:
        return ApiError("no") if verb == "bind" and random.random() < 0.3 else None

    late = [make_node("large", allocatable={"cpu": 8, "pods": 20})]
    cells = simulate([*nodes, *pods], later=late, fault=fail_some_bindings, observers=[raw], clock=raw.clock)

    assert {result for result, _, _ in raw.attempts} == {"scheduled", "unschedulable", "error"}
    results = Counter((result, profile) for result, profile, _ in raw.attempts)
    assert read_samples(cells, "scheduler_schedule_attempts_total") == results
    assert read_samples(cells, "scheduler_queue_incoming_pods_total") == raw.moves
    entities = {(queue, event, "pod"): count for (queue, event), count in raw.moves.items()}
    assert read_samples(cells, "scheduler_queue_incoming_entities_total") == entities
    assert read_samples(cells, "scheduler_unschedulable_pods") == raw.rejections
    assert any(raw.rejections.values())
    assert read_samples(cells, "scheduler_inflight_events") == {(event,): count for event, count in raw.events.items()}
    assert read_samples(cells, "scheduler_plugin_evaluation_total") == raw.evaluations

    histograms: dict[str, list[tuple[tuple[str, ...], float]]] = {
        "scheduler_scheduling_attempt_duration_seconds": [((r, p), seconds) for r, p, seconds in raw.attempts],
        "scheduler_scheduling_algorithm_duration_seconds": [((), seconds) for seconds in raw.algorithm],
        "scheduler_pod_scheduling_attempts": [((), attempts) for attempts, _ in raw.bindings],
        "scheduler_pod_scheduling_sli_duration_seconds": [((str(n),), seconds) for n, seconds in raw.bindings],
        "scheduler_queueing_hint_execution_duration_seconds": [(tuple(hint), took) for *hint, took in raw.hints],
    }
    for name, values in histograms.items():
        assert values, name
        assert read_buckets(cells, name) == count_buckets(cells, name, values), name


def placed(uid: str, attempts: int, *, was_flushed: bool = False) -> QueuedPodInfo:
    queued = QueuedPodInfo(make_pod(uid), 0.0)
    queued.attempts, queued.was_flushed, queued.initial_attempt_timestamp = attempts, was_flushed, 990.0
    return queued


SLI_LABELS = {
    "the first attempt": (1, "1"),
    "the last counted attempt": (MAX_ATTEMPTS - 1, "14"),
    "the limit": (MAX_ATTEMPTS, "15+"),
    "more than the limit": (MAX_ATTEMPTS + 5, "15+"),
}


@pytest.mark.parametrize(("attempts", "label"), SLI_LABELS.values(), ids=SLI_LABELS)
def test_many_attempts_share_one_label(attempts: int, label: str) -> None:
    cells, queued = CellRegistry(), placed("p", attempts)
    observer = Instruments(cells, VirtualClock(1000.0)).attempts
    observer.on_attempt_end(queued, Placed("n"))
    observer.on_bound(queued, "n")
    samples = read_buckets(cells, "scheduler_pod_scheduling_sli_duration_seconds")
    assert [(key, total) for key, (_, total) in samples.items()] == [((label,), 10.0)]


def test_pods_bound_after_a_flush_are_counted() -> None:
    cells = CellRegistry()
    observer = Instruments(cells, VirtualClock(1000.0)).attempts
    for queued in (placed("a", 1), placed("b", 2, was_flushed=True)):
        observer.on_attempt_end(queued, Placed("n"))
        observer.on_bound(queued, "n")
    assert read_samples(cells, "scheduler_pod_scheduled_after_flush_total") == {(): 1}


def test_pods_that_were_not_tried_have_no_result() -> None:
    cells = CellRegistry()
    Instruments(cells, VirtualClock()).attempts.on_attempt_end(placed("p", 1), Dropped())
    assert read_samples(cells, "scheduler_schedule_attempts_total") == {}


def test_moves_of_pods_are_remembered() -> None:
    queue, pod = Instruments(CellRegistry(), VirtualClock()).queue, make_pod("p")
    queue.on_move(pod, "active", "PodAdd")
    queue.on_pop(pod, 1)
    assert [(step.queue, step.event) for step in queue.story.of(pod)] == [
        ("active", "PodAdd"),
        ("in-flight", "attempt 1"),
    ]


def test_in_flight_events_are_a_balance() -> None:
    cells = CellRegistry()
    queue = Instruments(cells, VirtualClock()).queue
    for event, delta in (("PodPopped", +1), ("NodeAdd", +1), ("NodeAdd", +1), ("PodPopped", -1)):
        queue.on_in_flight(event, delta)
    assert read_samples(cells, "scheduler_inflight_events") == {("PodPopped",): 0, ("NodeAdd",): 2}


def test_groups_are_counted_as_one_entity_and_by_pods() -> None:
    cells, pods = CellRegistry(), [make_pod("a"), make_pod("b"), make_pod("c")]
    queue = Instruments(cells, VirtualClock()).queue
    queue.on_group_move(pods, "active", "PodAdd")
    assert read_samples(cells, "scheduler_queue_incoming_pods_total") == {("active", "PodAdd"): 3}
    assert read_samples(cells, "scheduler_queue_incoming_entities_total") == {("active", "PodAdd", "podgroup"): 1}
    assert [step.queue for pod in pods for step in queue.story.of(pod)] == ["active"] * 3


@pytest.fixture
def log_lines() -> io.StringIO:
    stream = io.StringIO()
    configure_logs(LoggingOptions(verbosity=ATTEMPT_LEVEL), stream)
    return stream


def test_each_decision_is_logged(log_lines: io.StringIO) -> None:
    simulate(BUSY)
    lines = log_lines.getvalue()
    bound = '"Successfully bound pod to node" pod="default/small" node="n'
    assert bound in lines
    assert "evaluatedNodes=2 feasibleNodes=2" in lines
    assert '"Unable to schedule pod; no fit; waiting" pod="default/huge"' in lines
    assert '"Attempting to schedule pod" pod="default/small"' in lines
    assert '"the scheduler starts to work with those plugins" profile="default-scheduler"' in lines
    VERBOSITY.set(DECISION_LEVEL - 1)
    output = len(log_lines.getvalue())
    simulate(BUSY)
    assert "decision" not in log_lines.getvalue()[output:]
    assert "bound pod" not in log_lines.getvalue()[output:]
    assert "Unable" not in log_lines.getvalue()[output:]


def test_errors_and_slow_attempts_are_logged_at_any_level(
    log_lines: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    VERBOSITY.set(0)
    moments = iter((0.0, SLOW_SECONDS + 0.05678, 0.0, 1.0, 1.0 + SLOW_SECONDS / 2, 1.0))
    monkeypatch.setattr(instruments_module, "perf_counter", lambda: next(moments))
    instruments = Instruments(CellRegistry(), VirtualClock())
    for name, outcome in {"slow": Failed("broken"), "fast": Failed("no nodes", is_rejection=True)}.items():
        instruments.attempts.began()
        for observer in instruments.observers:
            if isinstance(observer, AttemptObserver):
                observer.on_attempt_end(placed(name, 1), outcome)
    lines = log_lines.getvalue()
    assert '"slow scheduling attempt" pod="default/slow" took_ms=156.8\n' in lines
    assert '"Error scheduling pod; retrying" pod="default/slow" err="broken"' in lines
    assert "fast" not in lines


def test_failures_of_plugins_in_the_queue_are_logged(log_lines: io.StringIO) -> None:
    Instruments(CellRegistry(), VirtualClock()).queue.on_plugin_failure("Odd", make_pod("p"), "bad hint")
    assert '"plugin failed in the queue" plugin="Odd" pod="default/p" error="bad hint"' in log_lines.getvalue()


def test_failures_of_informers_are_counted_by_resource() -> None:
    cells = CellRegistry()
    observer = InformerInstruments(cells)
    observer.object_malformed("pods")
    observer.list_watch_failed(BY_TYPE[Node], ApiError("gone"))
    observer.apply_failed("nodes")
    observer.apply_failed("nodes")
    assert read_samples(cells, "moorage_malformed_objects_total") == {("pods",): 1}
    assert read_samples(cells, "moorage_list_watch_failures_total") == {("nodes",): 1}
    assert read_samples(cells, "moorage_apply_failures_total") == {("nodes",): 2}


def test_changes_are_timed_by_event_and_by_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    cells, applied, now = CellRegistry(), list[tuple[object, object, bool]](), [0.0]
    monkeypatch.setattr(instruments_module, "perf_counter", lambda: now[0])

    def apply(before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
        applied.append((before, after, is_final))
        now[0] += 0.25

    node, pod = make_node("n"), make_pod("p", node="n")
    timed = EventInstruments(cells).wrap_apply(apply)
    changes = [(None, node), (node, node), (node, None), (None, pod), (None, make_pod("q")), (None, pod)]
    for before, after in changes:
        timed(before, after, is_final=False)
    assert applied == [(before, after, False) for before, after in changes]
    events = read_buckets(cells, "scheduler_event_handling_duration_seconds")
    assert {event: total for (event,), (_, total) in events.items()} == {
        "NodeAdd": 0.25,
        "NodeUpdate": 0.25,
        "NodeDelete": 0.25,
        "AssignedPodAdd": 0.5,
        "UnscheduledPodAdd": 0.25,
    }
    latency = read_buckets(cells, "informer_processing_latency_seconds")
    assert {key[-2:]: total for key, (_, total) in latency.items()} == {("v1", "nodes"): 0.75, ("v1", "pods"): 0.75}


@pytest.mark.release("1.37")
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
    assert value(registry, name, **about, resource="pods", unit="integer") is None, "zero is left out"
    assert value(registry, "kube_pod_resource_limit", **about, resource="cpu", unit="cores") is None


def test_limits_and_other_resources_of_pods_are_reported() -> None:
    pods: ObjectCache[Pod] = ObjectCache()
    amounts = {"example.com/gpu": "2"}
    pods.put(
        make_pod("p", containers=(Container("c", resources=ResourceRequirements(requests=amounts, limits=amounts)),))
    )
    resources = PodResources(pods)
    resources.is_leading = True
    about = {"namespace": "default", "pod": "p", "node": "", "scheduler": PROFILE, "priority": ""}
    registry = exposing(resources)
    for name in ("kube_pod_resource_request", "kube_pod_resource_limit"):
        assert value(registry, name, **about, resource="example.com/gpu", unit="integer") == 2


@pytest.mark.release("1.37")
def test_queues_are_read_with_groups_only_if_they_are_enabled() -> None:
    samples = read_samples(simulate(BUSY), "scheduler_queued_entities")
    assert {kind for _, kind in samples} == {"pod"}
    queues = {"active", "backoff", "unschedulable", "gated", "incomplete", "pending"}
    assert {queue for queue, _ in samples} == queues
    assert samples["unschedulable", "pod"] == 1
    assert sum(samples.values()) == 1


class Scheduler:
    """The parts of a scheduler that are read."""

    def __init__(self, **parts: Any) -> None:
        sizes = {"active": 1, "backoff": 2, "unschedulable": 3, "gated": 4, "incomplete": 5, "pending": 6}
        counts = {("active", "pod"): 7, ("backoff", "podgroup"): 8}
        self.queue = SimpleNamespace(sizes=lambda: SimpleNamespace(**sizes), entity_counts=lambda: counts)
        self.binder = SimpleNamespace(in_flight=9)
        self.groups: object = object()
        self.runners: dict[str, Any] = {}
        self.__dict__ |= parts


def test_sizes_of_all_queues_and_of_groups_are_read() -> None:
    cells = CellRegistry()
    read_scheduler(cells, Scheduler())  # type: ignore[arg-type]
    assert read_samples(cells, "scheduler_pending_pods") == {
        ("active",): 1,
        ("backoff",): 2,
        ("unschedulable",): 3,
        ("gated",): 4,
        ("incomplete",): 5,
        ("pending",): 6,
    }
    entities = read_samples(cells, "scheduler_queued_entities")
    assert (entities["active", "pod"], entities["backoff", "podgroup"], sum(entities.values())) == (7, 8, 15)
    assert len(entities) == 12
    assert read_samples(cells, "scheduler_goroutines") == {("binding",): 9}


class Gauges(GaugeSource):
    """A plugin with gauges."""

    def gauges(self) -> list[tuple[str, tuple[str, ...], float]]:
        return [("moorage_largest_job_gpus", ("a100",), 4.0), ("moorage_fragmentation_ratio", ("a100", "1"), 0.5)]


def test_cross_checks_and_gauges_of_plugins_are_read_by_profile() -> None:
    def runner(differences: int | None, **plugins: object) -> SimpleNamespace:
        check = None if differences is None else SimpleNamespace(differences=differences)
        profile = SimpleNamespace(plugins=plugins, per_node_plugins=tuple, node_plugins=())
        return SimpleNamespace(filtering=SimpleNamespace(cross_check=check), profile=profile)

    cells = CellRegistry()
    runners = {"checked": runner(3, plain=object(), gpu=Gauges()), "unchecked": runner(None, gpu=Gauges())}
    read_scheduler(cells, Scheduler(runners=runners))  # type: ignore[arg-type]
    assert read_samples(cells, "moorage_cross_check_differences_total") == {("checked",): 3}
    assert read_samples(cells, "moorage_largest_job_gpus") == {("a100",): 4}
    assert read_samples(cells, "moorage_fragmentation_ratio") == {("a100", "1"): 0.5}
    without = CellRegistry()
    read_scheduler(without, Scheduler(runners={"plain": runner(None, plain=object())}))  # type: ignore[arg-type]
    assert read_samples(without, "moorage_largest_job_gpus") == {}


def test_forms_of_plugins_are_columns_or_nodes() -> None:
    plugins = [SimpleNamespace(name="Fast"), SimpleNamespace(name="Slow")]
    profile: Any = SimpleNamespace(name="p", node_plugins=plugins, per_node_plugins=lambda: ["Slow"])
    assert [*forms([profile])] == [(("Fast", "p", "columns"), 1.0), (("Slow", "p", "node"), 1.0)]


@pytest.mark.parametrize(("lease", "statuses"), [("kube-scheduler", {("kube-scheduler",): 1}), ("", {})])
def test_leadership_is_read_with_a_lease_only(lease: str, statuses: dict[tuple[str, ...], float]) -> None:
    cells = CellRegistry()
    recorder: Any = SimpleNamespace(dropped=5)
    read_client(cells, recorder, lease, lambda: True)
    assert read_samples(cells, "moorage_events_dropped_total") == {(): 5}
    assert read_samples(cells, "leader_election_master_status") == statuses


def test_positions_of_watches_and_pending_changes_are_read() -> None:
    def informer(kind: type, version: str) -> SimpleNamespace:
        return SimpleNamespace(kind=BY_TYPE[kind], machine=SimpleNamespace(version=version))

    cells = CellRegistry()
    informers: Any = SimpleNamespace(all=[informer(Node, "12"), informer(Pod, "7000000000000003"), informer(Pod, "x")])
    deliveries: Any = SimpleNamespace(pending={BY_TYPE[Node]: 2, BY_TYPE[Pod]: 0})
    read_informers(cells, informers, deliveries)
    node, pod = (("kube-scheduler", "", "v1", plural) for plural in ("nodes", "pods"))
    assert read_samples(cells, "informer_store_resource_version") == {node: 12, pod: 3}
    assert read_samples(cells, "informer_queued_items") == {node: 2, pod: 0}


@pytest.mark.release("1.37")
def test_constants_of_the_process_are_counted_from_the_table() -> None:
    cells = CellRegistry(MetricsOptions(disabled=frozenset({"scheduler_goroutines", "no_such_metric"})))
    read_process(cells, FeatureGates())
    counts: dict[tuple[str, ...], float] = {}
    for spec in METRICS.values():
        counts[spec.stability, spec.deprecated] = counts.get((spec.stability, spec.deprecated), 0) + 1
    assert read_samples(cells, "registered_metrics_total") == counts
    assert read_samples(cells, "hidden_metrics_total") == {(): sum(spec.is_hidden for spec in METRICS.values())}
    assert read_samples(cells, "disabled_metrics_total") == {(): 1}
    ((build, first),) = read_samples(cells, "kubernetes_build_info").items()
    assert (build[6:8], first) == (("1", "37"), 1)
    assert read_samples(cells, "version_info") == {("1.37.1", "kube", "1.37", "1.36"): 1}
    enabled = read_samples(cells, "kubernetes_feature_enabled")
    assert enabled["DynamicResourceAllocation", ""] == 1, "stable features have no stage"
