"""Plugins for shadows with various failures."""

import os
import time

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import FilterPlugin
from moorage.scheduler.framework.status import Status

HOARD: list[bytearray] = []


class Sleeps(FilterPlugin):
    """Takes two seconds for each node."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        time.sleep(2.0)
        return None


class Raises(FilterPlugin):
    """Raises."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        raise RuntimeError("the shadow's plugin raises")


class Exits(FilterPlugin):
    """Ends its process."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        os._exit(3)


class Eats(FilterPlugin):
    """Takes more memory at each call."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        HOARD.append(bytearray(b"x" * (128 << 20)))
        return None


class Refuses(FilterPlugin):
    """Rejects nodes with names that end in 1."""

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return Status.unschedulable("one is not enough") if node.name.endswith("1") else None


class Broken(FilterPlugin):
    """Fails at construction."""

    def __init__(self) -> None:
        raise RuntimeError("the shadow's plugin cannot be built")

    def filter(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        return None
