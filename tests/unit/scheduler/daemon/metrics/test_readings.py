"""Values that are read at a scrape."""

from types import SimpleNamespace
from typing import Any

import pytest
from tests.support.exposing import exposing
from tests.support.simulated_metrics import BUSY, PROFILE, read_samples, scheduled, simulate, value

from moorage.kube.api.container import Container, ResourceRequirements
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.node import Node
from moorage.kube.api.pod import Pod
from moorage.kube.features import FeatureGates
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.readings import (
    PodResources,
    forms,
    read_client,
    read_informers,
    read_process,
    read_scheduler,
)
from moorage.scheduler.daemon.metrics.table import METRICS
from moorage.scheduler.daemon.options import MetricsOptions
from moorage.scheduler.framework.metering import GaugeSource
from moorage.scheduler.state.objects import ObjectCache
from moorage.testing.builders import make_pod


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
