"""Exceptions of plugins fail a test of the test kit immediately, with the original traceback."""

import asyncio
from typing import Any

import pytest

from moorage import FilterPlugin, PostFilterPlugin, PreEnqueuePlugin
from moorage.testing import Cluster, in_virtual_time


def manifest(name: str, cpu: str = "100m") -> str:
    return f"""
        apiVersion: v1
        kind: Pod
        metadata: {{name: {name}}}
        spec: {{containers: [{{name: app, image: app, resources: {{requests: {{cpu: {cpu}}}}}}}]}}
    """


class RaisingFilter(FilterPlugin):
    def filter(self, _cycle: Any, _pod: Any, _node: Any) -> None:
        raise KeyError("nope")


class RaisingGate(PreEnqueuePlugin):
    def pre_enqueue(self, _pod: Any) -> None:
        raise KeyError("nope")


class NeverReturns(PostFilterPlugin):
    async def post_filter(self, *_: Any) -> Any:
        await asyncio.Event().wait()


@pytest.mark.parametrize("plugin", [RaisingFilter, RaisingGate])
def test_exception_of_a_plugin_fails_the_test_immediately(plugin: type) -> None:
    @in_virtual_time
    async def run() -> None:
        async with Cluster(nodes=2, plugins=[plugin]) as cluster:
            await cluster.apply(manifest("a"))
            began = asyncio.get_running_loop().time()
            try:
                await cluster.wait_for(lambda: bool(cluster.running()))
            finally:
                assert asyncio.get_running_loop().time() - began < 10

    with pytest.raises(KeyError, match="nope"):
        run()


@pytest.mark.parametrize(
    ("plugin", "message"),
    [
        (RaisingFilter, "RaisingFilter.filter raised KeyError: 'nope' (test_cluster_failures.py:23)"),
        (RaisingGate, "RaisingGate.pre_enqueue raised KeyError: 'nope' (test_cluster_failures.py:28)"),
    ],
)
def test_condition_and_event_name_method_type_file_and_line(plugin: type, message: str) -> None:
    @in_virtual_time
    async def run() -> None:
        async with Cluster(nodes=2, plugins=[plugin], raise_plugin_exceptions=False) as cluster:
            await cluster.apply(manifest("a"))
            await cluster.wait_for(lambda: message in cluster.why_pending("a"))

    run()


@in_virtual_time
async def test_awaited_call_that_never_returns_fails_the_attempt_after_its_timeout() -> None:
    async with Cluster(nodes=1, shape="cpu=1", plugins=[NeverReturns], raise_plugin_exceptions=False) as cluster:
        await cluster.apply(manifest("large", cpu="8"))
        await cluster.wait_for(lambda: " did not return within 60 s" in cluster.why_pending("large"), seconds=90)
        await cluster.apply(manifest("small"))
        await cluster.wait_for(lambda: len(cluster.running()) == 1)
