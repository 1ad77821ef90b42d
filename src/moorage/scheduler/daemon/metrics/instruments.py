"""Observers that count attempts, queue events, informer failures and API requests."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence, Set
from functools import partial
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Final

import structlog

from moorage.common.clock import Clock
from moorage.common.errors import MoorageError
from moorage.common.observers import Observer
from moorage.common.version import KUBERNETES, version_info
from moorage.kube.api.integers import to_int64
from moorage.kube.api.kinds import BY_TYPE, Kind
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import CPU, limits_total, spec_requests
from moorage.kube.client.informer import InformerObserver, Informers
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.client.rest import Exchange
from moorage.kube.features import COMPONENT, FeatureGates
from moorage.scheduler.daemon.metrics.cells import CellRegistry, LabelValues
from moorage.scheduler.daemon.metrics.sampling import PluginSampler, time_phase
from moorage.scheduler.engine.cycle.profile_runner import ProfileRunner
from moorage.scheduler.engine.cycle.search_result import ExtendedNodes, NoNode, OneNode, SearchResult
from moorage.scheduler.engine.event_handlers import find_event_resource
from moorage.scheduler.engine.extension_points import FILTER, PRE_FILTER, PRE_SCORE, SCORE
from moorage.scheduler.engine.observing import Apply, ApplyObserver, AttemptObserver
from moorage.scheduler.engine.outcomes import Failed, Outcome, Placed, Unschedulable
from moorage.scheduler.engine.phases import F, Phase
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.events import Action, ClusterEvent
from moorage.scheduler.framework.metering import GaugeSource, HistogramCell, NumberCell
from moorage.scheduler.framework.plugin import Plugin
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.queue.observer import QueueObserver, Story
from moorage.scheduler.state.objects import ObjectCache
from moorage.scheduler.wiring.attempt_log import AttemptLogger
from moorage.scheduler.wiring.scheduling_loop import Deliveries

if TYPE_CHECKING:
    from prometheus_client.core import Metric

MAX_ATTEMPTS: Final = 15
SLOW_SECONDS: Final = 0.1
"""Attempts that take longer are always logged."""
GROUP: Final = "podgroup"
COMPOSITE: Final = "compositepodgroup"
SCHEDULED: Final = "scheduled"
UNSCHEDULABLE: Final = "unschedulable"
ERROR: Final = "error"

Evaluated = tuple[ProfileRunner, Set[str], Set[str] | None]
"""A profile, the skipped filters and the skipped scores, or ``None`` if no scores were needed."""
Noted = tuple[Evaluated, NumberCell]

log = structlog.get_logger(__name__)


class Instruments:
    """All observers that count into one registry."""

    def __init__(self, registry: CellRegistry, clock: Clock, chance: Random | None = None) -> None:
        self.registry = registry
        self.sampler = PluginSampler(registry, chance or Random())
        self.attempts = AttemptInstruments(registry, self.sampler, clock)
        self.queue = QueueInstruments(registry, self.attempts)
        self.events = EventInstruments(registry)
        self.informers = InformerInstruments(registry)
        self.observers: tuple[Observer, ...] = (
            AttemptLogger(),
            self.attempts,
            self.queue,
            self.events,
            self.informers,
            registry,
        )


class AttemptInstruments(AttemptObserver):
    """Counts attempts, their results and how long they took."""

    def __init__(self, registry: CellRegistry, sampler: PluginSampler, clock: Clock) -> None:
        self._registry = registry
        self._sampler = sampler
        self._clock = clock
        self._began = 0.0
        self._search: tuple[ProfileRunner, SearchResult | ExtendedNodes] | None = None
        self._bindings: dict[str, float] = {}
        self._results: dict[tuple[str, str], tuple[NumberCell, HistogramCell]] = {}
        self._algorithm = registry["scheduler_scheduling_algorithm_duration_seconds"].histogram()
        self._attempts = registry["scheduler_pod_scheduling_attempts"].histogram()
        sli = registry["scheduler_pod_scheduling_sli_duration_seconds"]
        self._sli = [sli.histogram(str(n)) for n in range(1, MAX_ATTEMPTS)] + [sli.histogram(f"{MAX_ATTEMPTS}+")]
        self._after_flush = registry["scheduler_pod_scheduled_after_flush_total"].number()
        self._evaluated: dict[Evaluated, NumberCell] = {}
        self._latest: Noted | None = None
        self._of_former_profiles: list[tuple[tuple[str, ...], float]] = []
        registry["scheduler_plugin_evaluation_total"].set_reader(self._evaluations)

    def wrap_phase(self, run: F, phase: Phase, profile: str) -> F:
        """Time the extension points of a profile."""
        return time_phase(run, phase, profile, self._registry)

    def began(self) -> None:
        """Note that a pod was popped: its attempt begins."""
        self._began = perf_counter()
        self._sampler.cycle_begins()

    def on_search(self, queued: QueuedPodInfo, runner: ProfileRunner, result: SearchResult | ExtendedNodes) -> None:
        """Remember the runner: at its end it lists the plugins that ran."""
        self._search = runner, result

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        """Count an attempt that failed. An attempt that continues to its binding is counted when the binding ends."""
        took = perf_counter() - self._began
        self._algorithm.observe(took)
        if took > SLOW_SECONDS:
            log.info("slow scheduling attempt", pod=queued.key, took_ms=round(took * 1000, 1))
        self._note_evaluations()
        if isinstance(outcome, Placed):
            self._bindings[queued.pod.metadata.uid] = self._began
        elif isinstance(outcome, Unschedulable | Failed):
            self._count_failure(queued, outcome, self._began)

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        """Count a pod that got its node."""
        self._count(queued, SCHEDULED, self._bindings.pop(queued.pod.metadata.uid))
        attempts = queued.attempts
        self._attempts.observe(attempts)
        if queued.initial_attempt_timestamp is not None:
            cell = self._sli[attempts - 1 if attempts < MAX_ATTEMPTS else -1]
            cell.observe(self._clock.now() - queued.initial_attempt_timestamp)
        if queued.was_flushed:
            self._after_flush.inc()

    def on_binding_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed) -> None:
        """Count a pod with a failed binding cycle."""
        self._count_failure(queued, outcome, self._bindings.pop(queued.uid))

    def _count_failure(self, queued: QueuedPodInfo, outcome: Unschedulable | Failed, began: float) -> None:
        if isinstance(outcome, Failed) and not outcome.is_rejection:
            self._count(queued, ERROR, began)
        else:
            self._count(queued, UNSCHEDULABLE, began)

    def _count(self, queued: QueuedPodInfo, result: str, start: float) -> None:
        key = (result, queued.pod.scheduler_name)
        cells = self._results.get(key)
        if cells is None:
            cells = self._results[key] = (
                self._registry["scheduler_schedule_attempts_total"].number(*key),
                self._registry["scheduler_scheduling_attempt_duration_seconds"].histogram(*key),
            )
        cells[0].value += 1
        cells[1].observe(perf_counter() - start)

    def _note_evaluations(self) -> None:
        if self._search is None:
            return
        (cycle, result), self._search = self._search, None
        if isinstance(result, ExtendedNodes):
            result = result.result
        count = 0 if isinstance(result, NoNode) else 1 if isinstance(result, OneNode) else result.count
        state, latest = result.cycle, self._latest
        evaluated: Evaluated = (cycle, state.skipped_filters, state.skipped_scores if count > 1 else None)
        # Usually the same plugins as in the previous cycle: comparing sets is faster than freezing and hashing them.
        if latest is None or latest[0] != evaluated:
            key = (cycle, frozenset(evaluated[1]), None if evaluated[2] is None else frozenset(evaluated[2]))
            latest = self._latest = key, self._evaluated.setdefault(key, NumberCell())
        latest[1].value += 1

    def profiles_changed(self) -> None:
        """Keep the counts of the former profiles, but not the profiles, whose plugins and caches need memory."""
        self._of_former_profiles = self._evaluations()
        self._evaluated.clear()
        self._latest = None

    def _evaluations(self) -> list[tuple[tuple[str, ...], float]]:
        """Derive from the cycles how often each plugin ran: counting each plugin in each cycle would cost more."""
        counts: dict[tuple[str, ...], float] = defaultdict(float, self._of_former_profiles)
        for (runner, skipped_filters, skipped_scores), cycles in self._evaluated.items():
            profile = runner.profile
            points: list[tuple[str, Sequence[Plugin], Set[str]]] = [
                (PRE_FILTER.name, profile.pre_filter, frozenset()),
                (FILTER.name, profile.filter, skipped_filters),
            ]
            if skipped_scores is not None:
                points += [
                    (PRE_SCORE.name, profile.pre_score, frozenset()),
                    (SCORE.name, profile.score, skipped_scores),
                ]
            for point, plugins, skipped in points:
                for plugin in plugins:
                    if plugin.name not in skipped:
                        counts[plugin.name, point, profile.name] += cycles.value
        return list(counts.items())


class QueueInstruments(QueueObserver):
    """Counts queue events, and stores the last moves of every pod."""

    def __init__(self, registry: CellRegistry, attempts: AttemptInstruments) -> None:
        self.story = Story()
        self._attempts = attempts
        self._incoming = registry["scheduler_queue_incoming_pods_total"]
        self._entities = registry["scheduler_queue_incoming_entities_total"]
        self._has_types = registry.has_group_types
        self._unschedulable = registry["scheduler_unschedulable_pods"]
        self._in_flight: Counter[str] = Counter()
        self._cells: dict[tuple[str, str], tuple[NumberCell, NumberCell]] = {}
        self._hints = registry["scheduler_queueing_hint_execution_duration_seconds"]
        registry["scheduler_inflight_events"].set_reader(
            lambda: [((event,), float(count)) for event, count in self._in_flight.items()]
        )

    def on_move(self, pod: Pod, queue: str, event: str) -> None:
        """Count a pod that enters a queue."""
        cells = self._cells.get((queue, event))
        if cells is None:
            cells = self._cells[queue, event] = (
                self._incoming.number(queue, event),
                self._entities.number(queue, event, "pod"),
            )
        cells[0].value += 1
        cells[1].value += 1
        self.story.on_move(pod, queue, event)

    def on_group_move(self, pods: Sequence[Pod], queue: str, event: str, group_type: str = GROUP) -> None:
        """Count a group that enters a queue, and its pods."""
        self._incoming.number(queue, event).inc(len(pods))
        self._entities.number(queue, event, group_type if self._has_types else GROUP).inc()
        for pod in pods:
            self.story.on_move(pod, queue, event)

    def on_rejection(self, plugin: str, profile: str, delta: int) -> None:
        """Count waiting pods by the plugin that rejected them."""
        self._unschedulable.number(plugin, profile).inc(delta)

    def on_in_flight(self, event: str, delta: int) -> None:
        """Count events remembered for pods in flight."""
        self._in_flight[event] += delta

    def on_pop(self, pod: Pod, attempt: int) -> None:
        """Note that an attempt begins."""
        self._attempts.began()
        self.story.on_pop(pod, attempt)

    def on_hint(self, plugin: str, event: str, hint: str, seconds: float) -> None:
        """Count how long a queueing hint took."""
        self._hints.histogram(plugin, event, hint).observe(seconds)

    def on_plugin_failure(self, plugin: str, pod: Pod, problem: str) -> None:
        """Log a plugin that raised in a queueing hint or in PreEnqueue."""
        log.error("plugin failed in the queue", plugin=plugin, pod=pod.key, error=problem)


def informer_labels(kind: Kind) -> tuple[str, ...]:
    """Return the labels under which client-go's metrics name a resource."""
    group, _, version = kind.api_version.rpartition("/")
    return ("kube-scheduler", group, version, kind.plural)


_ACTIONS: Final = {(True, False): Action.ADD, (False, False): Action.UPDATE, (False, True): Action.DELETE}
"""The action of a change, by whether the object is new and whether it was deleted."""

ChangeKey = tuple[type[KubeObject], bool, bool, bool]
"""The kind, whether it is a pod with a node, and whether the event is an addition or a deletion."""


class EventInstruments(ApplyObserver):
    """Times the application of changes to cache and queue, by event and by kind."""

    def __init__(self, registry: CellRegistry) -> None:
        self._handling = registry["scheduler_event_handling_duration_seconds"]
        self._latency = registry["informer_processing_latency_seconds"]

    def wrap_apply(self, apply: Apply) -> Apply:
        """Time each change."""
        # One lookup per change: deriving the labels takes longer than most changes.
        cells: dict[ChangeKey, tuple[HistogramCell, HistogramCell]] = {}

        def apply_timed(before: KubeObject | None, after: KubeObject | None, *, is_final: bool = True) -> None:
            began = perf_counter()
            apply(before, after, is_final=is_final)
            took = perf_counter() - began
            kube_object = before if after is None else after
            assert kube_object is not None
            has_node = kube_object.__class__ is Pod and kube_object.spec.node_name != ""
            key = (kube_object.__class__, has_node, before is None, after is None)
            if key not in cells:
                event = ClusterEvent(find_event_resource(kube_object), _ACTIONS[key[2:]])
                labels = informer_labels(BY_TYPE[type(kube_object)])
                cells[key] = self._handling.histogram(event.label), self._latency.histogram(*labels)
            handling, latency = cells[key]
            handling.observe(took)
            latency.observe(took)

        return apply_timed


class InformerInstruments(InformerObserver):
    """Counts failures of lists, watches and applied changes."""

    def __init__(self, registry: CellRegistry) -> None:
        self._malformed = registry["moorage_malformed_objects_total"]
        self._failures = registry["moorage_list_watch_failures_total"]
        self._unapplied = registry["moorage_apply_failures_total"]

    def object_malformed(self, resource: str) -> None:
        """Count an object that was skipped."""
        self._malformed.number(resource).inc()

    def list_watch_failed(self, kind: Kind, error: MoorageError) -> None:
        """Count a list or watch that failed."""
        self._failures.number(kind.plural).inc()

    def apply_failed(self, resource: str) -> None:
        """Count a change that could not be applied."""
        self._unapplied.number(resource).inc()


NO_ANSWER: Final = "<error>"


class RequestMeter:
    """Counts and times the requests of a client. Watches, which last, are not timed.

    Every pod costs two requests, so they are only noted, and counted at a scrape or after a few seconds.
    """

    def __init__(self, host: str, registry: CellRegistry) -> None:
        self._host = host
        self._total = registry["rest_client_requests_total"]
        self._seconds = registry["rest_client_request_duration_seconds"]
        self._request_bytes = registry["rest_client_request_size_bytes"]
        self._received = registry["rest_client_response_size_bytes"]
        self._noted: list[Exchange] = []
        self.note = self._noted.append
        """Records a finished request."""
        registry.call_before_scrape(self._count)

    def _count(self) -> None:
        noted = self._noted.copy()
        self._noted.clear()
        for method, status in {exchange[:2] for exchange in noted}:
            _, _, seconds, sent_bytes, received = zip(
                *[e for e in noted if e[0] == method and e[1] == status], strict=True
            )
            labels = (method, self._host)
            self._total.number(str(status or NO_ANSWER), *labels).inc(len(seconds))
            self._seconds.histogram(*labels).observe_all(seconds)
            if status:
                self._request_bytes.histogram(*labels).observe_all(sent_bytes)
                self._received.histogram(*labels).observe_all(received)


Values = Iterable[tuple[LabelValues, float]]
_UNITS: Final = {"cpu": "cores", "memory": "bytes", "ephemeral-storage": "bytes", "storage": "bytes"}


def read_scheduler(registry: CellRegistry, scheduler: Scheduler) -> None:
    """Read sizes from a scheduler."""

    def pending() -> dict[str, int]:
        sizes = scheduler.queue.sizes()
        by_queue = {"active": sizes.active, "backoff": sizes.backoff, "unschedulable": sizes.unschedulable}
        # Pods of groups wait in two more places, which are empty unless the gate of groups is on.
        return {**by_queue, "gated": sizes.gated, "incomplete": sizes.incomplete, "pending": sizes.pending}

    def entities() -> Values:
        counts = scheduler.queue.entity_counts()
        kinds = ("pod",) if scheduler.groups is None else ("pod", GROUP)
        if scheduler.groups is not None and registry.has_group_types:
            kinds = (*kinds, COMPOSITE)
        else:
            # Until 1.37, a composite group is treated as a PodGroup.
            for name in pending():
                counts[name, GROUP] = counts.get((name, GROUP), 0) + counts.get((name, COMPOSITE), 0)
        return (((name, kind), float(counts.get((name, kind), 0))) for name in pending() for kind in kinds)

    def cache_sizes() -> Values:
        cache = scheduler.cache
        yield ("nodes",), float(len(cache))
        yield ("pods",), float(cache.pod_count)
        yield ("assumed_pods",), float(cache.assumed_count)

    registry["scheduler_pending_pods"].set_reader(lambda: (((name,), float(n)) for name, n in pending().items()))
    registry["scheduler_queued_entities"].set_reader(entities)
    registry["scheduler_cache_size"].set_reader(cache_sizes)
    registry["scheduler_goroutines"].set_reader(lambda: [(("binding",), float(scheduler.binder.in_flight))])
    registry["moorage_cross_check_differences_total"].set_reader(
        lambda: (
            ((name,), float(runner.filtering.cross_check.differences))
            for name, runner in scheduler.runners.items()
            if runner.filtering.cross_check is not None
        )
    )
    registry["moorage_plugin_form"].set_reader(lambda: forms(p.profile for p in scheduler.runners.values()))
    for name in ("moorage_fragmentation_ratio", "moorage_largest_job_gpus"):
        registry[name].set_reader(partial(_gauges, name, scheduler))


def _gauges(name: str, scheduler: Scheduler) -> Values:
    """Query the plugins with these values; of several profiles the first, as all see the same nodes."""
    plugins = (plugin for runner in scheduler.runners.values() for plugin in runner.profile.plugins.values())
    source = next((plugin for plugin in plugins if isinstance(plugin, GaugeSource)), None)
    readings = () if source is None else source.gauges()
    return ((labels, value) for metric, labels, value in readings if metric == name)


def read_client(registry: CellRegistry, recorder: EventRecorder, lease: str, leads: Callable[[], bool]) -> None:
    """Read whether we lead by a lease, empty without leader election, and the number of dropped events."""
    registry["moorage_events_dropped_total"].set_reader(lambda: [((), float(recorder.dropped))])
    if lease:
        registry["leader_election_master_status"].set_reader(lambda: [((lease,), float(leads()))])


def read_informers(registry: CellRegistry, informers: Informers, deliveries: Deliveries) -> None:
    """Read the positions of the watches, and the number of changes not applied yet."""

    def versions() -> Values:
        for informer in informers.all:
            if (version := to_int64(informer.machine.version)) is not None:
                # As upstream: a gauge is a float, which holds fifteen digits.
                yield informer_labels(informer.kind), float(version % 10**15)

    registry["informer_store_resource_version"].set_reader(versions)
    registry["informer_queued_items"].set_reader(
        lambda: ((informer_labels(i.kind), float(deliveries.pending[i.kind])) for i in informers.all)
    )


def read_process(registry: CellRegistry, features: FeatureGates) -> None:
    """Read constant metrics: version, gates and number of metrics."""
    info = version_info()
    build = ("buildDate", "compiler", "gitCommit", "gitTreeState", "gitVersion", "goVersion", "major", "minor")
    registry["kubernetes_build_info"].number(*(info[name] for name in build), info["platform"]).set(1)
    binary = KUBERNETES.removeprefix("v")
    registry["version_info"].number(binary, COMPONENT, features.release, features.oldest).set(1)
    for gate in features.gates.values():
        stage = "" if gate.stage.value == "GA" else gate.stage.value
        registry["kubernetes_feature_enabled"].number(gate.name, stage).set(float(features.enabled(gate.name)))
    for name in registry.names():
        spec = registry[name].spec
        registry["registered_metrics_total"].number(spec.stability, spec.deprecated).inc()
        registry["hidden_metrics_total"].number().inc(spec.is_hidden)
    registry["disabled_metrics_total"].number().inc(len(registry.options.disabled & {*registry.names()}))


def forms(profiles: Iterable[Profile]) -> Iterator[tuple[LabelValues, float]]:
    """Report for every plugin that filters or scores whether it uses columns or single nodes."""
    for profile in profiles:
        per_node = {*profile.per_node_plugins()}
        for plugin in profile.node_plugins:
            yield (plugin.name, profile.name, "node" if plugin.name in per_node else "columns"), 1.0


class PodResources:
    """The requests and limits of pods, for /metrics/resources, or nothing while another scheduler leads."""

    def __init__(self, pods: ObjectCache[Pod]) -> None:
        self._pods = pods
        self.is_leading = False

    def collect(self) -> "Iterator[Metric]":
        """Yield both families."""
        from prometheus_client.core import GaugeMetricFamily

        labels = ("namespace", "pod", "node", "scheduler", "priority", "resource", "unit")
        request = GaugeMetricFamily(
            "kube_pod_resource_request",
            "[STABLE] Resources requested by pods, by the scheduler's count.",
            labels=labels,
        )
        limit = GaugeMetricFamily("kube_pod_resource_limit", "[STABLE] Resource limits of pods.", labels=labels)
        for pod in self._pods.list() if self.is_leading else ():
            priority = "" if pod.spec.priority is None else str(pod.spec.priority)
            about = (pod.namespace, pod.name, pod.node_name, pod.scheduler_name, priority)
            for family, amounts in ((request, spec_requests(pod)), (limit, limits_total(pod))):
                for resource, amount in amounts.items():
                    if amount:
                        value = amount / 1000 if resource == CPU else amount
                        family.add_metric((*about, resource, _UNITS.get(resource, "integer")), value)
        yield from (family for family in (request, limit) if family.samples)
