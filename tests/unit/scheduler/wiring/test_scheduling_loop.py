"""Delivery of changes to the scheduler, before and while the loop runs."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from moorage.cluster.offline import DiscardingApi, NoBackground
from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual
from moorage.kube.api.container import ResourceRequirements
from moorage.kube.api.kinds import BY_TYPE
from moorage.kube.api.meta import KubeObject
from moorage.kube.api.node import Node, NodeStatus
from moorage.kube.api.originals import pod_adapter
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
from moorage.scheduler.wiring.scheduling_loop import CYCLES_PER_TURN, Deliveries, SchedulingLoop
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


def get_scheduler(features: FeatureGates, clock: VirtualClock | None = None) -> Scheduler:
    return Scheduler(
        default_config(),
        Registry(IN_TREE),
        cluster=DiscardingApi(),
        background=NoBackground(),
        clock=clock or VirtualClock(),
        features=features,
    )


def deliver(
    *changes: Change[KubeObject], gates: str = "", through_loop: bool = False
) -> tuple[Scheduler, EventRecorder]:
    """Deliver changes one by one to a new scheduler."""

    async def work() -> tuple[Scheduler, EventRecorder]:
        features, recorder = FeatureGates.parse(gates), EventRecorder()
        scheduler = get_scheduler(features)
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


def test_an_object_that_cannot_be_applied_affects_no_other_object() -> None:
    bad = replace(make_node("bad"), status=NodeStatus(allocatable={"cpu": "a lot"}))
    scheduler, recorder = deliver(added(bad), added(NODE), added(PLACED))
    assert [info.name for info in scheduler.cache.columns.infos] == ["n"]
    assert recorder.events == ["NodeDelete", "NodeAdd", "AssignedPodAdd"]


def test_pending_counts_the_changes_that_are_not_applied() -> None:
    async def work() -> None:
        scheduler = get_scheduler(FeatureGates())
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


def test_object_is_re_applied_after_its_correction() -> None:
    async def work() -> None:
        scheduler = get_scheduler(FeatureGates())
        deliveries = Deliveries(scheduler.handlers.apply, SchedulingLoop(scheduler))
        nodes = BY_TYPE[Node]
        bad = replace(NODE, status=NodeStatus(allocatable={"cpu": "a lot"}))
        deliveries.on_changes(nodes, [added(bad)])
        assert (len(scheduler.cache), len(deliveries.retry.failed_objects)) == (0, 1)
        corrected = replace(NODE, metadata=replace(NODE.metadata, resource_version="2"))
        deliveries.on_changes(nodes, [Change(bad, corrected)])
        assert (len(scheduler.cache), len(deliveries.retry.failed_objects)) == (1, 0)
        deliveries.on_changes(nodes, [Change(corrected, None)])
        assert len(scheduler.cache) == 0

    asyncio.run(work())


class Bench:
    """A scheduler with a loop in virtual time; the test delivers changes."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.scheduler = get_scheduler(FeatureGates(), clock)
        self.loop = SchedulingLoop(self.scheduler)
        self.deliveries = Deliveries(self.scheduler.handlers.apply, self.loop)


def with_bench(use: Callable[[Bench], Awaitable[None]]) -> None:
    clock = VirtualClock()

    async def work() -> None:
        await use(Bench(clock))

    run_virtual(work(), clock)


def test_action_runs_immediately_before_the_loop_runs() -> None:
    async def use(bench: Bench) -> None:
        assert await bench.deliveries.between_cycles(lambda: 7) == 7

    with_bench(use)


def test_action_runs_between_cycles_after_earlier_changes() -> None:
    async def use(bench: Bench) -> None:
        bench.deliveries.start_through_loop()
        bench.deliveries.on_changes(BY_TYPE[Node], [added(NODE)])
        counting = asyncio.create_task(bench.deliveries.between_cycles(lambda: len(bench.scheduler.cache)))
        failing = asyncio.create_task(bench.deliveries.between_cycles(lambda: 1 // 0))
        calls: list[int] = []
        cancelled = asyncio.create_task(bench.deliveries.between_cycles(lambda: calls.append(1)))
        await asyncio.sleep(0)
        assert (len(bench.scheduler.cache), bench.loop.has_changes) == (0, True)
        cancelled.cancel()
        await asyncio.sleep(0)
        assert not await bench.loop.step()
        assert not bench.loop.has_changes
        assert await counting == 1
        with pytest.raises(ZeroDivisionError):
            await failing
        assert calls == [], "its caller does not wait any longer"

    with_bench(use)


def test_other_tasks_run_between_cycles() -> None:
    async def use(bench: Bench) -> None:
        bench.deliveries.on_changes(BY_TYPE[Node], [added(NODE)])
        pods = [make_pod(f"p{number}") for number in range(2 * CYCLES_PER_TURN + 1)]
        bench.deliveries.on_changes(BY_TYPE[Pod], [added(pod) for pod in pods])
        running = asyncio.create_task(bench.loop.run())
        seen: list[int] = []
        for _ in range(100):
            if bench.loop.cycles == len(pods):
                break
            await asyncio.sleep(0)
            seen.append(bench.loop.cycles)
        assert {CYCLES_PER_TURN, 2 * CYCLES_PER_TURN} <= set(seen)
        assert set(seen) <= {CYCLES_PER_TURN, 2 * CYCLES_PER_TURN, len(pods)}, "a turn costs time"
        bench.loop.stop()
        await running
        assert (bench.loop.cycles, len(bench.scheduler.queue)) == (len(pods), 0)

    with_bench(use)


def test_loop_sleeps_until_a_change_or_a_time() -> None:
    async def use(bench: Bench) -> None:
        began = bench.clock.now()
        await bench.loop.sleep(until=began + 30.0)
        assert bench.clock.now() - began == pytest.approx(30.0)

        asyncio.get_running_loop().call_later(12.0, bench.loop.deliver, lambda: None)
        await bench.loop.sleep(until=began + 100.0)
        assert bench.clock.now() - began == pytest.approx(42.0)

        assert not await bench.loop.step(), "there is no pod"
        await bench.loop.sleep(until=began + 100.0)
        assert bench.clock.now() - began == pytest.approx(100.0), "the change was applied and wakes only once"
        await bench.loop.sleep(until=began)
        assert bench.clock.now() - began == pytest.approx(100.0), "the time has passed"

    with_bench(use)


def test_unschedulable_pod_is_retried_when_the_queue_wakes() -> None:
    async def use(bench: Bench) -> None:
        bench.deliveries.on_changes(BY_TYPE[Pod], [added(POD)])
        assert await bench.loop.step()
        wakeup = bench.scheduler.queue.next_wakeup()
        assert wakeup is not None
        assert not await bench.loop.step()
        await bench.loop.sleep()
        assert bench.clock.now() == pytest.approx(wakeup)
        await bench.loop.step()
        following = bench.scheduler.queue.next_wakeup()
        assert following is not None
        assert following > wakeup, "the queue was flushed"

    with_bench(use)
