"""Two replicas of `moorage scheduler`, one of which leads; whoever ends is started again, as a Deployment would."""

from pathlib import Path
from typing import Final

from tests.live.scheduler import SchedulerProcess

SHORT_LEASE: Final = (
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1500ms",
    "--leader-elect-retry-period=250ms",
)
"""The next replica has started long before it takes over: a kill costs the rest of a lease, and no start."""


class Replicas:
    """Both of them; ``losses`` counts those that ended by themselves because the machine let the lease run out."""

    def __init__(self, kubeconfig: Path, *flags: str) -> None:
        self.losses = 0
        self._all = [SchedulerProcess(kubeconfig, *SHORT_LEASE, *flags, leader_elect=True) for _ in range(2)]

    def start(self) -> None:
        """Start both."""
        for replica in self._all:
            replica.start()

    def kill_leader(self) -> bool:
        """Kill -9 who leads, or both if nobody does, and start again; tell whether somebody did."""
        leading = [replica for replica in self._all if replica.is_running and "became leader" in replica.own_log]
        for replica in leading or self._all:
            if replica.is_running:
                replica.kill()
            replica.start()
        return bool(leading)

    def keep_up(self) -> None:
        """Start those again that ended by themselves, for which there is one good reason."""
        for replica in self._all:
            if not replica.is_running:
                assert "Leaderelection lost" in replica.own_log, f"a replica ended:\n{replica.own_log[-4000:]}"
                self.losses += 1
                replica.start()

    def log(self) -> str:
        """Return the ends of both logs."""
        return "\n".join(f"a replica's log ends:\n{replica.log[-4000:]}" for replica in self._all)

    def clear(self) -> None:
        """End both and remove their logs."""
        for replica in self._all:
            replica.clear()
