"""Plugins that misbehave for pods with certain names."""

import asyncio
import os
import re
import time
from pathlib import Path
from typing import Final

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.node_statuses import NodeStatuses
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin, PostFilterPlugin, PostFilterResult
from moorage.scheduler.framework.status import Status

ONCE: Final = "MOORAGE_TEST_ONCE"
"""Names a file: only the process that creates it may misbehave."""


def may_misbehave() -> bool:
    try:
        Path(os.environ[ONCE]).touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Sleeper(FilterPlugin):
    """Sleeps, like a plugin with a synchronous request."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if pod.name.startswith("sleep-") and may_misbehave():
            time.sleep(float(pod.name.partition("-")[2]))
        return None


class Hog(FilterPlugin):
    """Never returns, and never releases the interpreter's lock."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        if pod.name.startswith("hog-") and may_misbehave():
            re.match(r"(a+)+$", "a" * 64 + "!")
        return None


class Waiter(PostFilterPlugin):
    """Waits forever without blocking the event loop."""

    async def post_filter(self, cycle: CycleState, pod: Pod, statuses: NodeStatuses) -> PostFilterResult:
        await asyncio.Event().wait()
        raise AssertionError("this never happens")
