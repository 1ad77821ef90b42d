"""A plugin that kills its process once, like the loss of a machine."""

import os
import signal
from pathlib import Path

import msgspec

from moorage.kube.api.pod import Pod
from moorage.scheduler.framework.cycle import CycleState
from moorage.scheduler.framework.nodeinfo import NodeInfo
from moorage.scheduler.framework.plugin import ScorePlugin


class DiesOnceArgs(msgspec.Struct, frozen=True):
    """The file that marks a previous kill."""

    mark: str


class DiesOnce(ScorePlugin):
    """Kills its process at the first call, and then scores by name."""

    Args = DiesOnceArgs

    def __init__(self, *, args: DiesOnceArgs) -> None:
        self._mark = Path(args.mark)

    def score(self, cycle: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Prefer short names."""
        if not self._mark.exists():
            self._mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return 100 - len(node.name)
