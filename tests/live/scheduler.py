"""`moorage scheduler`, or kube-scheduler, as a process that tests start, kill and restart."""

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.live.cluster import PATIENCE

COMMAND: Final = (sys.executable, "-c", "from moorage.cli.main import main; main()", "scheduler")
LEASE: Final = (
    "--leader-elect-lease-duration=3s",
    "--leader-elect-renew-deadline=2s",
    "--leader-elect-retry-period=500ms",
)
"""Short leases: the next replica takes over within seconds of a kill."""


class SchedulerProcess:
    """One replica, which can be restarted."""

    def __init__(
        self, kubeconfig: Path, *flags: str, leader_elect: bool = False, program: tuple[str, ...] = COMMAND
    ) -> None:
        self.log_file = Path(tempfile.mkstemp(prefix="moorage-scheduler-", suffix=".log")[1])
        election = LEASE if leader_elect else ("--leader-elect=false",)
        self._command = (*program, f"--kubeconfig={kubeconfig}", "--secure-port=0", "-v=2", *election, *flags)
        self._process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def start(self) -> None:
        """Start or restart the process."""
        with self.log_file.open("ab") as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(self._command, stdout=log, stderr=subprocess.STDOUT, env=os.environ)

    def kill(self) -> None:
        """Kill -9."""
        assert self._process is not None
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def kill_all(self) -> None:
        """Kill -9 the scheduler and its supervisor."""
        for pid in self.children():
            os.kill(pid, signal.SIGKILL)
        self.kill()

    def send(self, number: signal.Signals) -> None:
        """Send a signal."""
        assert self._process is not None
        self._process.send_signal(number)

    def wait(self) -> int:
        """Wait for the exit; return the exit code."""
        assert self._process is not None
        return self._process.wait(PATIENCE)

    def stop(self) -> int:
        """Stop the process with a signal; return its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(PATIENCE)

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The output, including earlier runs."""
        return self.log_file.read_text(errors="replace")

    @property
    def own_log(self) -> str:
        """The output since the last start."""
        with self.log_file.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    async def logged(self, text: str, seconds: float = PATIENCE) -> None:
        """Wait until a text is in the log."""
        deadline = time.monotonic() + seconds
        while text not in self.log:
            assert time.monotonic() < deadline, f"missing in the log: {text}"
            await asyncio.sleep(0.1)

    def clear(self) -> None:
        """Stop the process if it is running, and remove its log."""
        if self.is_running:
            self.kill()
        self.log_file.unlink(missing_ok=True)

    def cpu_seconds(self) -> float:
        """Return the CPU time so far, of the scheduler and its supervisor."""
        stats = (
            Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split() for pid in (self.pid, *self.children())
        )
        return sum(int(fields[11]) + int(fields[12]) for fields in stats) / os.sysconf("SC_CLK_TCK")

    @property
    def pid(self) -> int:
        """The started process: for Moorage it is the supervisor, and its child is the scheduler."""
        assert self._process is not None
        return self._process.pid

    def children(self) -> list[int]:
        """Return the running child processes."""
        return [int(pid) for pid in Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split()]


@contextmanager
def scheduler(
    kubeconfig: Path, *flags: str, leader_elect: bool = False, program: tuple[str, ...] = COMMAND
) -> Iterator[SchedulerProcess]:
    """Run a scheduler for the duration of the block, Moorage by default; print its log if the block fails."""
    process = SchedulerProcess(kubeconfig, *flags, leader_elect=leader_elect, program=program)
    process.start()
    try:
        yield process
    except BaseException as error:
        error.add_note(f"the scheduler's log ends:\n{process.log[-6000:]}")
        raise
    finally:
        process.clear()
