"""Which plugin a stack is in, for stacks as faulthandler and coroutines show them."""

import asyncio
import faulthandler
import tempfile
from collections.abc import Callable
from typing import Any

import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.daemon.supervisor.stacks import (
    Frame,
    coroutine_stack,
    find_blocking_plugin,
    find_spans,
    read_stack,
)
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.deadlines import call_with_timeout
from moorage.scheduler.framework.functions import filter_function
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, PostFilterPlugin, PostFilterResult
from moorage.scheduler.framework.status import Status
from moorage.scheduler.plugins.node_name import NodeName
from moorage.testing import make_node, make_pod

POD, NODE = make_pod("p"), NodeInfo(make_node("n"))
Look = Callable[[], None]


def helper(look: Look) -> None:
    look()


class Base(FilterPlugin):
    look: Look

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        helper(self.look)
        return None


class Inheriting(Base):
    """Defines no method: its source appears in no stack."""


class Wrapping(FilterPlugin):
    look: Look

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        (lambda: self.look())()  # noqa: PLC3002, PLW0108 - code within code is the plugin's, too
        return None


class Seen:
    look: Look = staticmethod(lambda: None)


@filter_function("no")
def first_function(pod: Pod, node: NodeInfo) -> bool:
    Seen.look()
    return True


@filter_function("no")
def second_function(pod: Pod, node: NodeInfo) -> bool:
    Seen.look()
    return True


PLUGINS: dict[str, Any] = {
    "Inheriting": Inheriting(),
    "Wrapping": Wrapping(),
    "first": first_function(),
    "second": second_function(),
    "NodeName": NodeName(),
}
SPANS = [span for name, plugin in PLUGINS.items() for span in find_spans(name, plugin)]


@pytest.mark.parametrize("name", ["Inheriting", "Wrapping", "first", "second"])
def test_the_plugin_is_named(name: str) -> None:
    with tempfile.TemporaryFile("w+") as file:

        def look() -> None:
            faulthandler.dump_traceback(file, all_threads=False)

        Seen.look = look  # type: ignore[method-assign]
        for plugin in PLUGINS.values():
            plugin.look = look
        PLUGINS[name].filter(CycleState(), POD, NODE)
        file.seek(0)
        stack = read_stack(file.read())
    assert stack[0].function == "look"
    plugin, frame = find_blocking_plugin(stack, SPANS)
    assert plugin == name
    assert frame is not None
    assert frame.file == __file__


def test_framework_code_is_not_attributed_to_a_plugin() -> None:
    assert {span.file for span in SPANS if "moorage/scheduler/framework" in span.file} == set()
    assert any(span.file.endswith("plugins/node_name.py") for span in SPANS)


def test_a_stack_without_a_plugin() -> None:
    assert find_blocking_plugin([Frame("/lib/elsewhere.py", 3, "run")], SPANS) == ("", None)
    assert find_blocking_plugin([], SPANS) == ("", None)


def test_text_without_a_stack() -> None:
    assert read_stack("Fatal Python error: none\n\x00") == []


class Waiting(PostFilterPlugin):
    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: Any) -> PostFilterResult:
        await asyncio.Event().wait()
        raise AssertionError("this never happens")


def test_where_a_coroutine_waits() -> None:
    async def main() -> list[Frame]:
        plugin = Waiting()

        async def cycle() -> None:
            await call_with_timeout(60.0, plugin.post_filter, CycleState(), POD, {})

        task = asyncio.create_task(cycle())
        for _ in range(3):
            await asyncio.sleep(0)
        stack = coroutine_stack(task.get_coro())
        task.cancel()
        return stack

    stack = asyncio.run(main())
    assert [frame.function for frame in stack][-4:] == ["post_filter", "invoke", "call_with_timeout", "cycle"]
    plugin, frame = find_blocking_plugin(stack, find_spans("Waiting", Waiting()))
    assert (plugin, frame and frame.function) == ("Waiting", "post_filter")
    assert coroutine_stack(None) == []
