"""A scheduler at work as a page: its queue, its decisions, and that looking on changes nothing for others."""

import asyncio
import time
from collections.abc import Mapping
from typing import Any

import pytest
from tests.unit.insight.page.clusters import SMALL, Content, loaded, pod, policy

from moorage.cluster.files.loading import cluster_from_documents
from moorage.cluster.offline import DiscardingApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError
from moorage.insight.page.live_cluster import PAUSE_SECONDS, LiveCluster, PageObserver
from moorage.kube.api.meta import format_time
from moorage.scheduler.engine.observing import AttemptObserver
from moorage.scheduler.engine.outcomes import Outcome
from moorage.scheduler.engine.task_pool import TaskBackground
from moorage.scheduler.queue.entities import QueuedPodInfo


class Counting(AttemptObserver):
    """Counts its notifications."""

    def __init__(self) -> None:
        self.ends = 0
        self.bindings = 0

    def on_attempt_end(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        self.ends += 1

    def on_bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        self.bindings += 1


async def no_answer(question: str, _arguments: Mapping[str, Any]) -> Any:
    return {} if question == "helps" else {"asked": question}


async def worked(
    moments: VirtualClock | None = None, *more: Content
) -> tuple[LiveCluster, Counting, OfflineScheduler[DiscardingApi]]:
    """Have a scheduler try each pod once."""
    clock, counting = VirtualClock(1000.0), Counting()
    observer = PageObserver(clock)
    offline = OfflineScheduler(policy(), DiscardingApi(TaskBackground()), clock, observers=(counting, observer))
    offline.load(cluster_from_documents(loaded((*SMALL, *more)).documents).objects, arrival_interval=1.0)
    await offline.start()
    while offline.scheduler.queue.sizes().active:
        await offline.scheduler.schedule_next()
    await offline.api.background.drain()
    return LiveCluster(offline.scheduler, observer, clock, "test", no_answer, (moments or clock).now), counting, offline


def test_scheduler_state_is_shown() -> None:
    async def go() -> None:
        live, counting, offline = await worked()
        state = live.state(0, 0.0)
        assert (state.nodes, state.waiting, state.bound) == (3, 3, 1)
        assert state.queues == {"unschedulable": 2, "gated": 1}
        assert {group.reasons[0]: group.pods for group in state.groups} == {
            "Insufficient cpu": 2,
            "gated by SchedulingGates": 1,
        }
        assert [(line.pod, line.result) for line in live.decisions(0, 0.0, 0)] == [
            ("shop/big-1", "unschedulable"),
            ("shop/big-2", "unschedulable"),
            ("shop/fits", "scheduled"),
        ]
        assert [line.number for line in live.decisions(0, 0.0, 2)] == [2]
        assert (sum(live.lines(0, 0.0).placed), sum(live.lines(0, 0.0).failed)) == (1, 2)
        assert (counting.ends, counting.bindings) == (3, 1)
        await live.stop()
        await offline.close()

    asyncio.run(go())


def test_version_grows_only_with_new_data() -> None:
    async def go() -> None:
        live, _, offline = await worked()
        version = live.version
        assert live.version == version
        late = cluster_from_documents(loaded((pod("late"),)).documents).waiting[0]
        offline.scheduler.handlers.apply(None, late)
        assert live.version == version + 1
        await live.stop()
        await offline.close()

    asyncio.run(go())


def test_version_is_announced_when_its_state_is_available() -> None:
    """A client requests a version once: it must not get the previous state."""

    async def go() -> None:
        moments = VirtualClock()
        live, _, offline = await worked(moments)
        first = live.state(0, 0.0)
        offline.scheduler.handlers.apply(None, cluster_from_documents(loaded((pod("late"),)).documents).waiting[0])
        assert (live.version, live.state(0, 0.0)) == (first.version, first)
        moments.advance(PAUSE_SECONDS)
        version = live.version
        assert version > first.version
        assert live.state(0, 0.0).version == version
        await live.stop()
        await offline.close()

    asyncio.run(go())


def test_shallow_node_query_runs_in_process() -> None:
    async def go() -> None:
        live, _, offline = await worked()
        here = live.answer_now("node", {"node": "n1", "deep": "no"})
        assert here is not None
        assert [item["pod"] for item in here["pods"]] == ["shop/web-2", "shop/fits", "shop/web-1"]
        assert live.answer_now("node", {"node": "n1"}) is None
        assert await live.ask("node", {"node": "n1"}, 0, 0.0) == {"asked": "node"}
        with pytest.raises(InputError, match="node not found"):
            live.answer_now("node", {"node": "n9", "deep": "no"})
        await live.stop()
        await offline.close()

    asyncio.run(go())


def test_chart_of_pending_pods_starts_with_the_pods_that_are_pending_already() -> None:
    async def go() -> None:
        late = pod("late", "9")
        late["metadata"]["creationTimestamp"] = format_time(time.time() - 60)
        live, _, offline = await worked(None, late)
        live.state(0, 0.0)
        waiting = live.lines(0, 0.0).waiting
        assert (waiting[:170], waiting[-50:]) == ([3] * 170, [4] * 50)
        await live.stop()
        await offline.close()

    asyncio.run(go())


def test_pod_of_another_scheduler_is_pending_since_its_creation() -> None:
    async def go() -> None:
        lost = pod("lost", schedulerName="defualt-scheduler")
        lost["metadata"]["creationTimestamp"] = format_time(time.time() - 600)
        live, _, offline = await worked(None, lost)
        state = live.state(0, 0.0)
        assert state.waiting == 4
        [line] = [line for line in live.waiting(0, 0.0) if line.place == "another scheduler"]
        assert line.reasons == ("another scheduler is responsible: defualt-scheduler",)
        assert 595 < state.time - line.since < 660
        await live.stop()
        await offline.close()

    asyncio.run(go())


def test_pods_on_nodes_are_listed() -> None:
    async def go() -> None:
        live, _, offline = await worked()
        assert {"shop/web-1", "shop/web-2"} <= {pod.key for pod in live.placed(0, 0.0)}
        await live.stop()
        await offline.close()

    asyncio.run(go())
