"""Which pre-bind plugins run in parallel, and the undo stack of a placement."""

from typing import ClassVar

import pytest

from moorage.kube.api.pod import Pod
from moorage.scheduler.engine.binding.binding_phases import Undo, parallel_groups
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.plugin import PreBindPlugin
from moorage.scheduler.framework.status import Status


class Alone(PreBindPlugin):
    def pre_bind_pre_flight(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None

    async def pre_bind(self, cycle: CycleState, pod: Pod, node_name: str) -> Status | None:
        return None


class Parallel(Alone):
    allows_parallel: ClassVar[bool] = True


GROUPS: dict[str, tuple[list[PreBindPlugin | None], list[int]]] = {
    "two parallel plugins form one group": ([Parallel(), Parallel()], [2]),
    "a plugin that runs alone splits them": ([Parallel(), Alone(), Parallel()], [1, 1, 1]),
    "a skipped plugin that runs alone splits them, too": ([Parallel(), None, Parallel()], [1, 1]),
    "plugins that run alone have separate groups": ([Alone(), Alone()], [1, 1]),
    "without plugins there are no groups": ([], []),
}


@pytest.mark.parametrize(("plugins", "sizes"), GROUPS.values(), ids=GROUPS)
def test_adjacent_parallel_plugins_are_grouped_in_order(plugins: list[PreBindPlugin | None], sizes: list[int]) -> None:
    groups = list(parallel_groups(plugins))
    assert [len(group) for group in groups] == sizes
    assert [plugin for group in groups for plugin in group] == [plugin for plugin in plugins if plugin is not None]


def test_undo_calls_all_entries_in_reverse_order_even_if_one_raises() -> None:
    calls: list[str] = []

    def fail() -> None:
        calls.append("fails")
        raise ValueError("no")

    undo = Undo((calls.append, "first"), (fail,), (calls.append, "last"))
    with pytest.raises(ValueError, match="no"):
        undo.unwind()
    assert calls == ["last", "fails", "first"]


def test_undo_runs_once() -> None:
    calls: list[str] = []
    undo = Undo((calls.append, "reverted"))
    undo.unwind()
    undo.unwind()
    assert calls == ["reverted"]
