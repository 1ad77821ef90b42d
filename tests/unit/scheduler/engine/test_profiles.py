"""A plugin is started before the first pod is tried and closed after the last; what it left running ends with it."""

import asyncio
from typing import Any

import pytest

from moorage.common.errors import PluginError
from moorage.kube.api.cluster import PriorityClass
from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.profiles import CLOSE_SECONDS, START_SECONDS
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, Plugin, PostBindPlugin
from moorage.scheduler.framework.status import Status
from moorage.testing import Cluster, in_virtual_time

POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p"},
    "spec": {"containers": [{"name": "main", "image": "app:1"}]},
}


class Accepting(FilterPlugin):
    """A plugin that accepts all, and writes down what happens to it."""

    def __init__(self, *, handle: Handle) -> None:
        self.handle = handle
        self.story: list[str] = []
        self.classes = handle.lister(PriorityClass)

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        self.story.append("asked")
        return None


class Lively(Accepting, PostBindPlugin):
    async def start(self) -> None:
        self.story.append(f"started with {len(list(self.classes.list()))} priority classes")
        self.handle.in_background(self.tick(), name="ticking")
        self.handle.call_later(3600.0, lambda: self.story.append("too late"))

    async def tick(self) -> None:
        try:
            while True:
                await asyncio.sleep(1.0)
                self.ticks = getattr(self, "ticks", 0) + 1
        finally:
            self.story.append("ticking ended")

    async def post_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> None:
        self.handle.in_background(self.clean_up(), name="cleaning up", must_finish=True)

    async def clean_up(self) -> None:
        await asyncio.sleep(2.0)
        self.story.append("cleaned up")

    async def close(self) -> None:
        self.story.append("closed")
        self.handle.in_background(self.tick(), name="ticking again")


@in_virtual_time
async def test_plugin_lifecycle_runs_from_start_to_close() -> None:
    loop = asyncio.get_running_loop()
    async with Cluster(nodes=1, plugins=[Lively]) as cluster:
        await cluster.wait_for(lambda: cluster.plugin(Lively).story != [])
        await cluster.apply(POD)
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
        await cluster.sleep(30)
        await cluster.apply(POD | {"metadata": {"name": "q"}})
        await cluster.wait_for(lambda: len(cluster.running()) == 2)
        plugin, end_time = cluster.plugin(Lively), loop.time()
        assert plugin.ticks >= 30
    # The second pod's cleaning up is waited for, the ticking is not.
    assert loop.time() - end_time <= 2.0
    assert plugin.story[0] == "started with 2 priority classes"
    # Work that close starts is also cancelled.
    assert plugin.story[-4:] == ["cleaned up", "closed", "ticking ended", "ticking ended"]
    await asyncio.sleep(7200)
    assert plugin.story[-1] == "ticking ended"


class FailsToStart(Accepting):
    async def start(self) -> None:
        raise ConnectionError("no route to the service")


class NeverStarts(Accepting):
    async def start(self) -> None:
        await asyncio.sleep(1e9)


class LeavesInStart(Accepting):
    async def start(self) -> None:
        raise SystemExit(3)


STARTS: dict[str, tuple[type[Plugin], str]] = {
    "one that raises": (
        FailsToStart,
        r"'FailsToStart': FailsToStart.start raised ConnectionError: no route .* \(test_profiles.py:\d+\)",
    ),
    "one that takes too long": (
        NeverStarts,
        rf"NeverStarts.start \(test_profiles.py:\d+\) did not return within {START_SECONDS:g} s; start long work with",
    ),
    "one that would leave": (
        LeavesInStart,
        r"'LeavesInStart': LeavesInStart.start raised SystemExit: 3",
    ),
}


@pytest.mark.parametrize(("plugin", "message"), STARTS.values(), ids=STARTS)
def test_a_plugin_that_cannot_start_ends_the_scheduler(plugin: type[Plugin], message: str) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[plugin]) as cluster:
            await cluster.sleep(2 * START_SECONDS)
            await cluster.wait_for(lambda: False)

    with pytest.raises(PluginError, match=message):
        story()


class FailsToClose(Accepting):
    async def close(self) -> None:
        raise OSError("disk full")


class NeverCloses(Accepting):
    async def close(self) -> None:
        await asyncio.sleep(1e9)


class Closes(Accepting):
    async def close(self) -> None:
        self.story.append("closed")


def test_error_in_close_does_not_prevent_other_closes(logged: list[Any]) -> None:
    @in_virtual_time
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with Cluster(nodes=1, plugins=[Closes, FailsToClose, NeverCloses]) as cluster:
            await cluster.sleep(1)
            first, end_time = cluster.plugin(Closes), loop.time()
        assert first.story == ["closed"]
        assert loop.time() - end_time == pytest.approx(CLOSE_SECONDS, abs=0.5)

    story()
    messages = [(line["event"], line["plugin"]) for line in logged if "close" in str(line)]
    assert messages == [
        ("plugin takes too long to close", "NeverCloses"),
        ("plugin raised an exception", "FailsToClose"),
    ]


class Careless(Accepting):
    """Its background work fails in every way."""

    async def start(self) -> None:
        self.handle.in_background(self.fail(ValueError("no number")), name="reading")
        self.handle.in_background(self.fail(SystemExit(1)), name="leaving")
        self.handle.call_later(1.0, self.stumble)

    async def fail(self, error: BaseException) -> None:
        await asyncio.sleep(1.0)
        raise error

    def stumble(self) -> None:
        raise KeyError("gone")


def test_failed_background_work_is_logged_by_plugin(logged: list[Any]) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Careless], raise_plugin_exceptions=False) as cluster:
            await cluster.sleep(5)
            await cluster.apply(POD)
            await cluster.wait_for(lambda: len(cluster.running()) == 1)

    story()
    failed = {
        (line["event"], line.get("work"), line["plugin"], line["profile"])
        for line in logged
        if "failed" in line["event"]
    }
    assert failed == {
        ("background work failed", "reading", "Careless", "default-scheduler"),
        ("background work failed", "leaving", "Careless", "default-scheduler"),
        ("delayed action failed", None, "Careless", "default-scheduler"),
    }


def test_plugins_are_built_once_although_resizes_have_profiles() -> None:
    built: list[Accepting] = []

    class Counted(Accepting):
        async def start(self) -> None:
            built.append(self)

    @in_virtual_time
    async def story() -> None:
        gate = "InPlacePodVerticalScalingSchedulerPreemption=true"
        async with Cluster(nodes=1, plugins=[Counted], feature_gates=gate) as cluster:
            await cluster.sleep(1)
            assert built == [cluster.plugin(Counted)]

    story()


class Stubborn(Accepting):
    """Its background work ignores cancellation."""

    async def start(self) -> None:
        self.handle.in_background(self.go_on(), name="going on")

    async def go_on(self) -> None:
        while True:
            try:
                await asyncio.sleep(1.0)
            except asyncio.CancelledError:
                self.story.append("cancelled")


def test_work_that_ignores_cancellation_ends(logged: list[Any]) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[Stubborn]) as cluster:
            await cluster.sleep(5)
            plugin = cluster.plugin(Stubborn)
        assert plugin.story == ["cancelled"]
        assert [task.get_name() for task in asyncio.all_tasks() if "Stubborn" in task.get_name()] == []

    story()
    assert [line["work"] for line in logged if "continues after it was" in line["event"]] == ["Stubborn: going on"]


class ListsTooLate(Accepting):
    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        from moorage.kube.api.workloads import CronJob

        self.handle.lister(CronJob)
        return None


@in_virtual_time
async def test_kind_requested_too_late_raises_an_error() -> None:
    async with Cluster(nodes=1, plugins=[ListsTooLate]) as cluster:
        await cluster.apply(POD)
        message = "CronJob is not listed: request the lister in the constructor of ListsTooLate"
        await cluster.wait_for(lambda: message in cluster.why_pending("p"))
