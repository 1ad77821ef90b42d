"""Delivery of changes to the scheduler, before and while the loop runs."""

import asyncio

import pytest
from msgspec.structs import replace

from moorage.cluster.offline import DiscardingApi, NoBackground
from moorage.common.clock import VirtualClock
from moorage.kube.api.container import ResourceRequirements
from moorage.kube.api.gated import pod_adapter
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node, NodeStatus
from moorage.kube.api.pod import Pod, PodStatus
from moorage.kube.api.storage import StorageClass
from moorage.kube.client.list_watch import Change
from moorage.kube.features import FeatureGates
from moorage.scheduler.config import default_config
from moorage.scheduler.daemon.metrics.cells import CellRegistry
from moorage.scheduler.daemon.metrics.instruments import EventInstruments
from moorage.scheduler.engine.scheduler import Scheduler
from moorage.scheduler.framework.registry import Registry
from moorage.scheduler.plugins.included_plugins import IN_TREE
from moorage.scheduler.wiring.assembly import find_watched_kinds
from moorage.scheduler.wiring.scheduling_loop import Deliveries, SchedulingLoop
from moorage.testing.builders import make_node, make_pod


class EventRecorder:
    """Reads the applied events from the metrics."""

    def __init__(self) -> None:
        self.registry = CellRegistry()

    @property
    def events(self) -> list[str]:
        self.registry.fold()
        family = self.registry["scheduler_event_handling_duration_seconds"].family()
        samples = [] if family is None else family.samples
        return [sample.labels["event"] for sample in samples if sample.name.endswith("_count")]


def scheduler_of(features: FeatureGates) -> Scheduler:
    return Scheduler(
        default_config(),
        Registry(IN_TREE),
        cluster=DiscardingApi(),
        background=NoBackground(),
        clock=VirtualClock(),
        features=features,
    )


def deliver(
    *changes: Change[KubeObject], gates: str = "", through_loop: bool = False
) -> tuple[Scheduler, EventRecorder]:
    """Deliver changes one by one to a new scheduler."""

    async def work() -> tuple[Scheduler, EventRecorder]:
        features, recorder = FeatureGates.parse(gates), EventRecorder()
        scheduler = scheduler_of(features)
        loop = SchedulingLoop(scheduler)
        deliveries = Deliveries(EventInstruments(recorder.registry).wrap_apply(scheduler.handlers.apply), loop)
        if through_loop:
            deliveries.start_through_loop()
        for change in changes:
            obj = change.before if change.after is None else change.after
            deliveries.on_changes(BY_TYPE[type(obj)], [change])
        return scheduler, recorder

    return asyncio.run(work())


NODE, POD, PLACED = make_node("n"), make_pod("p"), make_pod("q", node="n")
CLASS = StorageClass(metadata=replace(NODE.metadata, name="fast"), provisioner="x")


def added(obj: KubeObject) -> Change[KubeObject]:
    return Change(None, obj)


def test_changes_are_applied_immediately_before_the_loop_runs() -> None:
    scheduler, recorder = deliver(added(NODE), added(PLACED), added(POD), added(CLASS))
    assert (len(scheduler.cache), scheduler.cache.pod_count, len(scheduler.queue)) == (1, 1, 1)
    assert scheduler.objects[StorageClass].get("fast") == CLASS
    assert recorder.events == ["NodeAdd", "AssignedPodAdd", "UnscheduledPodAdd", "storage.k8s.io/StorageClassAdd"]


def test_changes_wait_for_the_end_of_the_cycle_while_the_loop_runs() -> None:
    scheduler, recorder = deliver(added(NODE), through_loop=True)
    assert len(scheduler.cache) == 0
    assert recorder.events == []


def test_changes_and_deletions_reach_the_cache() -> None:
    bigger = replace(NODE, metadata=replace(NODE.metadata, labels={"size": "big"}))
    scheduler, _ = deliver(added(NODE), Change(NODE, bigger))
    node = scheduler.cache.node("n")
    assert node is not None
    assert node.labels["size"] == "big"
    scheduler, _ = deliver(added(NODE), added(PLACED), Change(PLACED, None), Change(NODE, None))
    assert (len(scheduler.cache), scheduler.cache.pod_count) == (0, 0)


def test_a_pod_that_was_bound_leaves_the_queue() -> None:
    scheduler, _ = deliver(added(NODE), added(POD), Change(POD, POD.on_node("n")))
    assert (scheduler.cache.pod_count, len(scheduler.queue)) == (1, 0)


WHOLE = ResourceRequirements(requests={"cpu": "3"})
IN_PLACE = make_pod("r", requests={"cpu": "1"}, resources=WHOLE, status=PodStatus(resources=WHOLE))

ADAPTED = {
    "by default pods are unchanged": ("", True, True),
    "pod-level resources do not count when their gate is off": (
        "PodLevelResources=false,PodLevelResourcesFixDefaulting=false,PodLevelResourcesFixKubeletQOSClass=false,"
        "InPlacePodLevelResourcesVerticalScaling=false",
        False,
        False,
    ),
    "resized ones do not when theirs is": ("InPlacePodLevelResourcesVerticalScaling=false", True, False),
}


@pytest.mark.parametrize(("gates", "spec", "status"), ADAPTED.values(), ids=ADAPTED)
def test_fields_of_disabled_features_are_ignored(gates: str, spec: bool, status: bool) -> None:
    adapt = pod_adapter(FeatureGates.parse(gates))
    pod = IN_PLACE if adapt is None else adapt(IN_PLACE)
    assert (pod.spec.resources is not None, pod.status.resources is not None) == (spec, status)
    scheduler, _ = deliver(added(IN_PLACE), gates=gates)
    (queued,) = scheduler.queue
    assert queued.pod.requests["cpu"] == (3000 if spec else 1000)


def test_pods_and_nodes_are_always_watched() -> None:
    assert find_watched_kinds(scheduler_of(FeatureGates()).objects)[:2] == (Node, Pod)


def test_an_object_that_cannot_be_applied_affects_no_other_object() -> None:
    bad = replace(make_node("bad"), status=NodeStatus(allocatable={"cpu": "a lot"}))
    scheduler, recorder = deliver(added(bad), added(NODE), added(PLACED))
    assert [info.name for info in scheduler.cache.columns.infos] == ["n"]
    assert recorder.events == ["NodeDelete", "NodeAdd", "AssignedPodAdd"]


def test_pending_counts_the_changes_that_are_not_applied() -> None:
    async def work() -> None:
        scheduler = scheduler_of(FeatureGates())
        loop = SchedulingLoop(scheduler)
        deliveries = Deliveries(scheduler.handlers.apply, loop)
        nodes, pods = BY_TYPE[Node], BY_TYPE[Pod]
        deliveries.on_changes(nodes, [added(NODE)])
        assert deliveries.pending[nodes] == 0, "applied immediately: the loop does not run"
        deliveries.start_through_loop()
        deliveries.on_changes(nodes, [added(make_node("m"))])
        deliveries.on_changes(pods, [added(POD), added(PLACED)])
        assert (deliveries.pending[nodes], deliveries.pending[pods]) == (1, 2)
        loop.apply_inbox()
        assert (deliveries.pending[nodes], deliveries.pending[pods]) == (0, 0)
        assert (len(scheduler.cache), len(scheduler.queue)) == (2, 1)

    asyncio.run(work())
