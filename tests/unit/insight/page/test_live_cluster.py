"""A scheduler at work as a page: its queue, its decisions, and that looking on changes nothing for others."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.unit.insight.page.clusters import SMALL, loaded, pod, policy

from moorage.cluster.files.loading import cluster_of
from moorage.cluster.offline import DiscardingApi, OfflineScheduler
from moorage.common.clock import VirtualClock
from moorage.common.errors import InputError
from moorage.insight.page.api_types import WaitingGroup
from moorage.insight.page.live_cluster import PAUSE_SECONDS, LiveCluster
from moorage.insight.page.observer import PageObserver
from moorage.insight.page.suggestions import SuggestionSearch
from moorage.scheduler.engine.binding.task_pool import TaskBackground
from moorage.scheduler.engine.observing import AttemptObserver, observed_by
from moorage.scheduler.engine.outcomes import Outcome
from moorage.scheduler.queue.entities import QueuedPodInfo
from moorage.scheduler.wiring.assembly import Observers


class Counting(AttemptObserver):
    """Counts its notifications."""

    def __init__(self) -> None:
        self.ends = 0
        self.bindings = 0

    def ended(self, queued: QueuedPodInfo, outcome: Outcome) -> None:
        self.ends += 1

    def bound(self, queued: QueuedPodInfo, node_name: str) -> None:
        self.bindings += 1


async def no_answer(question: str, _asked: Mapping[str, Any]) -> Any:
    return {} if question == "helps" else {"asked": question}


async def worked(moments: VirtualClock | None = None) -> tuple[LiveCluster, Counting, OfflineScheduler[DiscardingApi]]:
    """Have a scheduler try each pod once."""
    clock, counting = VirtualClock(1000.0), Counting()
    observer = PageObserver(clock)
    observers = observed_by(counting, observer)
    offline = OfflineScheduler(
        policy(), DiscardingApi(TaskBackground()), clock, observers=Observers(attempts=observers)
    )
    offline.load(cluster_of(loaded(SMALL).documents).objects, arrival_interval=1.0)
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


def test_a_version_is_new_only_when_something_is() -> None:
    async def go() -> None:
        live, _, offline = await worked()
        version = live.version
        assert live.version == version
        late = cluster_of(loaded((pod("late"),)).documents).waiting[0]
        offline.scheduler.handlers.apply(None, late)
        assert live.version == version + 1
        await live.stop()
        await offline.close()

    asyncio.run(go())


def test_version_is_announced_when_its_state_is_available() -> None:
    """A client that learns of a version requests it once: it must not get the previous state."""

    async def go() -> None:
        moments = VirtualClock()
        live, _, offline = await worked(moments)
        first = live.state(0, 0.0)
        offline.scheduler.handlers.apply(None, cluster_of(loaded((pod("late"),)).documents).waiting[0])
        assert (live.version, live.state(0, 0.0)) == (first.version, first)
        moments.advance(PAUSE_SECONDS)
        version = live.version
        assert version > first.version
        assert live.state(0, 0.0).version == version
        await live.stop()
        await offline.close()

    asyncio.run(go())


def test_failed_search_is_retried() -> None:
    async def go() -> None:
        searches: list[Sequence[str]] = []

        async def ask(pods: Sequence[str]) -> Mapping[str, str]:
            searches.append(pods)
            if len(searches) == 1:
                raise TimeoutError
            return {pods[0]: "a larger node"}

        helping = SuggestionSearch(ask, retry_seconds=0.0)
        group = WaitingGroup("g", ("Insufficient cpu",), ("NodeResourcesFit",), 1, ("shop/a",), "no node", 0.0)
        for _ in range(2):
            version = helping.version
            helping.search_for([group])
            async with asyncio.timeout(60):
                while (
                    helping.version == version
                ):  # a failure must notify the observers too; otherwise the search never runs again
                    await asyncio.sleep(0)
            await helping.stop()
        assert (len(searches), helping.found["g"].text) == (2, "a larger node")

    asyncio.run(go())


def test_shallow_node_query_runs_in_process() -> None:
    async def go() -> None:
        live, _, offline = await worked()
        here = await live.ask("node", {"node": "n1", "deep": "no"}, 0, 0.0)
        assert [item["pod"] for item in here["pods"]] == ["shop/web-2", "shop/fits", "shop/web-1"]
        assert await live.ask("node", {"node": "n1"}, 0, 0.0) == {"asked": "node"}
        with pytest.raises(InputError, match="node not found"):
            await live.ask("node", {"node": "n9", "deep": "no"}, 0, 0.0)
        await live.stop()
        await offline.close()

    asyncio.run(go())
