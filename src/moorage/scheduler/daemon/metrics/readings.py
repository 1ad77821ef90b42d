"""Values that are read at each scrape: sizes of queues and cache, versions, gates, forms of plugins."""

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from moorage.common.version import KUBERNETES, version_info
from moorage.kube.api.integers import to_int64
from moorage.kube.api.pod import Pod
from moorage.kube.api.requests import CPU, limits_total, spec_requests
from moorage.kube.client.informer import Informers
from moorage.kube.client.recorder import EventRecorder
from moorage.kube.features import COMPONENT, FeatureGates
from moorage.scheduler.daemon.metrics.cells import CellRegistry, LabelValues
from moorage.scheduler.daemon.metrics.instruments import informer_labels
from moorage.scheduler.engine.profile import Profile
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.metering import GaugeSource
from moorage.scheduler.state.objects import ObjectCache
from moorage.scheduler.wiring.scheduling_loop import Deliveries

if TYPE_CHECKING:
    from prometheus_client.core import Metric

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
        kinds = ("pod",) if scheduler.groups is None else ("pod", "podgroup")
        return (((name, kind), float(counts.get((name, kind), 0))) for name in pending() for kind in kinds)

    def cache_sizes() -> Values:
        cache = scheduler.cache
        yield ("nodes",), float(len(cache))
        yield ("pods",), float(cache.pod_count)
        yield ("assumed_pods",), float(cache.assumed_count)

    registry["scheduler_pending_pods"].read_from(lambda: (((name,), float(n)) for name, n in pending().items()))
    registry["scheduler_queued_entities"].read_from(entities)
    registry["scheduler_cache_size"].read_from(cache_sizes)
    registry["scheduler_goroutines"].read_from(lambda: [(("binding",), float(scheduler.binder.in_flight))])
    registry["moorage_cross_check_differences_total"].read_from(
        lambda: (
            ((name,), float(runner.filtering.cross_check.differences))
            for name, runner in scheduler.runners.items()
            if runner.filtering.cross_check is not None
        )
    )
    registry["moorage_plugin_form"].read_from(lambda: forms(p.profile for p in scheduler.runners.values()))
    for name in ("moorage_fragmentation_ratio", "moorage_largest_job_gpus"):
        registry[name].read_from(partial(_gauges, name, scheduler))


def _gauges(name: str, scheduler: Scheduler) -> Values:
    """Query the plugins with these values; of several profiles the first, as all see the same nodes."""
    plugins = (plugin for runner in scheduler.runners.values() for plugin in runner.profile.plugins.values())
    source = next((plugin for plugin in plugins if isinstance(plugin, GaugeSource)), None)
    readings = () if source is None else source.gauges()
    return ((labels, value) for metric, labels, value in readings if metric == name)


def read_client(registry: CellRegistry, recorder: EventRecorder, lease: str, leads: Callable[[], bool]) -> None:
    """Read whether we lead by a lease, empty without leader election, and the number of dropped events."""
    registry["moorage_events_dropped_total"].read_from(lambda: [((), float(recorder.dropped))])
    if lease:
        registry["leader_election_master_status"].read_from(lambda: [((lease,), float(leads()))])


def read_informers(registry: CellRegistry, informers: Informers, deliveries: Deliveries) -> None:
    """Read the positions of the watches, and the number of changes not applied yet."""

    def versions() -> Values:
        for informer in informers.all:
            if (version := to_int64(informer.machine.version)) is not None:
                # As upstream: a gauge is a float, which holds fifteen digits.
                yield informer_labels(informer.kind), float(version % 10**15)

    registry["informer_store_resource_version"].read_from(versions)
    registry["informer_queued_items"].read_from(
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
    """Report for every plugin that filters or scores whether it does so by columns or node by node."""
    for profile in profiles:
        per_node = {*profile.per_node_plugins()}
        for plugin in profile.node_plugins:
            yield (plugin.name, profile.name, "node" if plugin.name in per_node else "columns"), 1.0


class PodResources:
    """The requests and limits of pods, for /metrics/resources; nothing while another scheduler leads."""

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
