"""Background work of plugins that were built for a rejected change: it must end, because close is never called."""

import asyncio

import pytest

from moorage.common.errors import PluginError
from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.handle import Handle
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin
from moorage.scheduler.framework.status import Status
from moorage.testing import Cluster, in_virtual_time
from tests.integration.test_reload import BREAKS, TWO_PROFILES, FailsToBuild, FailsToStart

lines: list[str] = []


class BeginsAtOnce(FilterPlugin):
    """Starts background work and a timer in its constructor."""

    def __init__(self, *, handle: Handle) -> None:
        handle.in_background(self._go_round(), name="going round")
        handle.call_later(5.0, lambda: lines.append("its timer went off"))

    async def _go_round(self) -> None:
        try:
            while True:
                lines.append("it goes round")
                await asyncio.sleep(1.0)
        finally:
            lines.append("it was ended")

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None


IN_TWO_PROFILES = TWO_PROFILES.replace("- schedulerName: other", BREAKS.replace("Breaks", "BeginsAtOnce")) + (
    "- schedulerName: other\n" + BREAKS.replace("Breaks", "FailsToBuild")
)


CASES: list[tuple[type[FilterPlugin], str]] = [(FailsToBuild, ""), (FailsToBuild, IN_TWO_PROFILES), (FailsToStart, "")]


@pytest.mark.parametrize(("broken", "config"), CASES)
def test_background_work_of_a_rejected_change_is_cancelled(broken: type[FilterPlugin], config: str) -> None:
    @in_virtual_time
    async def story() -> None:
        async with Cluster(nodes=1) as cluster:
            lines.clear()
            with pytest.raises(PluginError):
                await cluster.reload(plugins=[BeginsAtOnce, broken], config=config)
            await cluster.sleep(1.0)
            assert lines.count("it was ended") == lines.count("it goes round")
            lines.clear()
            await cluster.sleep(30.0)
            assert lines == []

    story()
