"""Every awaited method of a plugin × every way not to return: the attempt ends in time, and other pods are bound."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.deadlines import CANCEL_SECONDS, DeadlineExceeded, call_with_timeout
from moorage.scheduler.framework.group_plugins import GroupPostFilterResult, PodGroupPostFilterPlugin
from moorage.scheduler.framework.plugin import (
    BindPlugin,
    FilterPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterResult,
    PreBindPlugin,
)
from moorage.scheduler.framework.status import Status
from moorage.testing import Cluster, in_virtual_time
from tests.support.groups import GroupBench, a_node, alone, gang, member


async def wait_for_ever() -> None:
    await asyncio.Event().wait()


async def suppress_cancellation() -> None:
    while True:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            continue


async def clean_up_for_ever() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.Event().wait()


async def return_after_cancellation() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return


async def exit_after_cancellation() -> None:
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        raise SystemExit(3) from None


WAYS: dict[str, tuple[Callable[[], Awaitable[None]], bool]] = {
    "it waits for ever": (wait_for_ever, False),
    "it suppresses each cancellation": (suppress_cancellation, True),
    "its clean-up never ends": (clean_up_for_ever, True),
    "it returns after its cancellation": (return_after_cancellation, False),
    "it exits after its cancellation": (exit_after_cancellation, False),
}


class Stuck(Plugin):
    """Does not return for pods labeled ``unlucky``."""

    call_timeout = 5.0
    way: Callable[[], Awaitable[None]] = staticmethod(wait_for_ever)

    async def hang(self, pod: Pod) -> None:
        if "unlucky" in pod.labels:
            await type(self).way()


class StuckPostFilter(Stuck, PostFilterPlugin):
    async def post_filter(self, _cycle: Any, pod: Pod, _statuses: Any) -> PostFilterResult:
        await self.hang(pod)
        return PostFilterResult(Status.unschedulable())


class StuckPreBind(Stuck, PreBindPlugin):
    def pre_bind_pre_flight(self, _cycle: Any, _pod: Pod, _node_name: str) -> Status | None:
        return None

    async def pre_bind(self, _cycle: Any, pod: Pod, _node_name: str) -> Status | None:
        await self.hang(pod)
        return None


class StuckBind(Stuck, BindPlugin):
    async def bind(self, _cycle: Any, pod: Pod, _node_name: str) -> Status | None:
        await self.hang(pod)
        return Status.skip()


class StuckPostBind(Stuck, PostBindPlugin):
    async def post_bind(self, _cycle: Any, pod: Pod, _node_name: str) -> None:
        await self.hang(pod)


CONFIG = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: default-scheduler
  plugins:
    %s: {disabled: [{name: "*"}], enabled: [%s]}
"""
POINTS: dict[str, tuple[type[Stuck], str, str, str]] = {
    "post_filter": (StuckPostFilter, "post_filter", "1000", CONFIG % ("postFilter", "{name: StuckPostFilter}")),
    "pre_bind": (StuckPreBind, "pre_bind", "1", CONFIG % ("preBind", "{name: StuckPreBind}")),
    "bind": (StuckBind, "bind", "1", CONFIG % ("bind", "{name: StuckBind}, {name: DefaultBinder}")),
    "post_bind": (StuckPostBind, "post_bind", "1", CONFIG % ("postBind", "{name: StuckPostBind}")),
}


def manifest(name: str, cpu: str = "1", **labels: str) -> dict[str, Any]:
    container = {"name": "main", "image": "a", "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container]}}


@pytest.mark.parametrize(("way", "is_abandoned"), WAYS.values(), ids=WAYS)
@pytest.mark.parametrize(("plugin", "method", "cpu", "config"), POINTS.values(), ids=POINTS)
def test_attempt_ends_in_time_and_other_pods_are_bound(
    plugin: type[Stuck],
    method: str,
    cpu: str,
    config: str,
    way: Callable[[], Awaitable[None]],
    is_abandoned: bool,
    monkeypatch: pytest.MonkeyPatch,
    logged: list[Any],
) -> None:
    monkeypatch.setattr(plugin, "way", staticmethod(way))

    @in_virtual_time
    async def story() -> None:
        loop = asyncio.get_running_loop()
        async with Cluster(nodes=2, config=config, plugins=[plugin], raise_plugin_exceptions=False) as cluster:
            await cluster.sleep(1)
            began = loop.time()
            await cluster.apply(manifest("unlucky", cpu, unlucky="yes"))
            await cluster.sleep(0.1)
            await cluster.apply(manifest("later"))
            await cluster.wait_for(lambda: "later" in {pod.name for pod in cluster.running()})
            assert loop.time() - began < 5.0 + 2 * CANCEL_SECONDS
            await cluster.sleep(5.0 + 2 * CANCEL_SECONDS)

    story()
    location = rf"{plugin.__name__}.{method} (test_awaited_plugins.py:"
    problem = "did not return within 5 s"
    reports = [str(line) for line in logged if location in str(line) and problem in str(line)]
    assert reports
    assert all(("ignores its cancellation" in report) == is_abandoned for report in reports)


class StuckGroup(Stuck, PodGroupPostFilterPlugin):
    async def post_filter_group(self, _cycle: Any, group: Any) -> GroupPostFilterResult:
        await type(self).way()
        return GroupPostFilterResult(Status.unschedulable())


@pytest.mark.parametrize(("way", "is_abandoned"), WAYS.values(), ids=WAYS)
def test_attempt_of_a_group_ends_in_time(
    way: Callable[[], Awaitable[None]], is_abandoned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StuckGroup, "way", staticmethod(way))

    @in_virtual_time
    async def story() -> None:
        bench = GroupBench(config=CONFIG % ("podGroupPostFilter", "{name: StuckGroup}"), plugins=[StuckGroup])
        bench.add(a_node("n"), gang(minimum=None), member("a", cpu="1000"), member("b", cpu="1000"))
        await bench.wait(5.0 + 2 * CANCEL_SECONDS)
        condition = bench.condition()
        assert condition is not None
        assert "StuckGroup.post_filter_group (test_awaited_plugins.py:" in condition[2]
        assert ("ignores its cancellation" in condition[2]) == is_abandoned
        bench.add(alone("single"))
        await bench.wait(2.0)
        assert "single" in bench.placed()

    story()


class Accepting(FilterPlugin):
    def filter(self, _cycle: Any, _pod: Pod, _node: Any) -> Status | None:
        return None


class StuckStart(Accepting):
    async def start(self) -> None:
        await suppress_cancellation()


class StuckClose(Accepting):
    async def close(self) -> None:
        await suppress_cancellation()


def test_start_that_suppresses_cancellation_fails() -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[StuckStart]) as cluster:
            await cluster.sleep(120)
            await cluster.wait_for(lambda: False)

    with pytest.raises(PluginError, match=r"StuckStart.start \(test_awaited_plugins.py:\d+\) did not return within"):
        story()


def test_close_that_suppresses_cancellation_ends(logged: list[Any]) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1, plugins=[StuckClose]) as cluster:
            await cluster.sleep(1)

    story()
    assert "StuckClose.close (test_awaited_plugins.py:" in str(logged)


def test_loop_ends_with_an_abandoned_call() -> None:
    async def call() -> None:
        with pytest.raises(DeadlineExceeded, match="ignores its cancellation"):
            await call_with_timeout(0.001, suppress_cancellation)

    asyncio.run(call())


def test_cancelled_caller_cancels_the_call() -> None:
    ended: list[str] = []

    async def method() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("clean-up")

    async def call() -> None:
        caller = asyncio.ensure_future(call_with_timeout(60.0, method))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        caller.cancel()
        with pytest.raises(asyncio.CancelledError):
            await caller
        ended.append("caller")

    asyncio.run(call())
    assert ended == ["clean-up", "caller"]
