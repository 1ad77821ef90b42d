"""Two replicas of `moorage scheduler`, with one leader; ended processes are restarted, as by a Deployment."""

import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from moorage.kube.api.pod import Pod
from tests.live.cluster import bound
from tests.live.scheduler import SchedulerProcess

SHORT_LEASE: Final = (
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1500ms",
    "--leader-elect-retry-period=250ms",
)
"""The standby has started long before it takes over: a kill costs the rest of a lease, and no start."""
LOST: Final = "Leaderelection lost"


class Replicas:
    """Both replicas; ``losses`` counts replicas that exited because a busy machine let the lease expire."""

    def __init__(self, kubeconfig: Path, *flags: str, own_flags: Sequence[Sequence[str]] = ((), ())) -> None:
        self.losses = 0
        self._gone: list[SchedulerProcess] = []
        self._led: set[int] = set()
        self._all = [SchedulerProcess(kubeconfig, *SHORT_LEASE, *flags, *own, leader_elect=True) for own in own_flags]

    @contextmanager
    def running(self) -> Iterator["Replicas"]:
        """Run both for the duration of the block; print their logs if the block fails."""
        for replica in self._all:
            replica.start()
        try:
            yield self
        except BaseException as error:
            for replica in self._all:
                error.add_note(f"a replica's log ends:\n{replica.log[-4000:]}")
            error.add_note(f"{self.losses} leases were lost")
            raise
        finally:
            for replica in self._all:
                replica.clear()

    def leading(self) -> list[SchedulerProcess]:
        """Return the leader, if there is one."""
        running = [replica for replica in self._all if replica.is_running]
        # A log is long, and a leader leads until it ends.
        self._led |= {each.pid for each in running if each.pid not in self._led and "became leader" in each.own_log}
        return [replica for replica in running if replica.pid in self._led]

    def kill_leader(self, *, only_child: bool = False, start_again: bool = True) -> bool:
        """Kill -9 the leader (without one, both replicas) or only its scheduler; return whether there was a leader."""
        leading = self.leading()
        self._kill(leading or self._all, only_child=only_child, start_again=start_again)
        return bool(leading)

    def kill_standby(self, *, only_child: bool = False) -> None:
        """Kill -9 the standby, and restart it."""
        leading = self.leading()
        self._kill([each for each in self._all if each not in leading], only_child=only_child, start_again=True)

    def _kill(self, replicas: Sequence[SchedulerProcess], *, only_child: bool, start_again: bool) -> None:
        for replica in replicas:
            if replica.is_running:
                kill_child(replica) if only_child else replica.kill()
            if start_again:
                replica.start()
            else:
                self._gone.append(replica)

    @property
    def all(self) -> Sequence[SchedulerProcess]:
        """Both replicas, in the order of their flags."""
        return self._all

    def keep_up(self) -> None:
        """Restart replicas that exited because they lost the lease."""
        for replica in self._all:
            if not replica.is_running and replica not in self._gone:
                assert LOST in replica.own_log, f"a replica ended:\n{replica.own_log[-4000:]}"
                self.losses += 1
                replica.start()


def kill_child(replica: SchedulerProcess) -> None:
    """Kill -9 the scheduler of a replica, and wait for the supervisor, which ends with it."""
    children = replica.children()
    if not children:  # it was started just now
        replica.kill()
        return
    for pid in children:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    code = replica.wait()
    # Either the kill was first, or the end of a lease that a busy machine could not renew.
    is_expected = code == 128 + signal.SIGKILL or LOST in replica.own_log
    assert is_expected, f"the supervisor exited with {code}:\n{replica.own_log[-4000:]}"


def all_bound(replicas: Replicas) -> Callable[[dict[str, Pod]], bool]:
    """Return a condition to wait for, while replicas that lose the lease are restarted."""

    def holds(pods: dict[str, Pod]) -> bool:
        replicas.keep_up()
        return bound(pods)

    return holds
