"""Process figures from the operating system: CPU, memory, and the idle time of the machine."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

TICKS: Final = os.sysconf("SC_CLK_TCK")
PROC: Final = Path("/proc")
STOP_SECONDS: Final = 15.0
_SESSION: Final = 3
_CPU: Final = slice(11, 15)
"""Where ``/proc/<pid>/stat`` has these, counted after the name: user, system, and both of children that have ended."""


def read_cpu_seconds(pid: int) -> float:
    """Return the CPU seconds of a process, and of its children that have ended."""
    return sum(int(ticks) for ticks in _stat(PROC / str(pid))[_CPU]) / TICKS


@dataclass(frozen=True, slots=True)
class Machine:
    """CPU seconds of all cores since the machine was started."""

    idle: float
    busy: float

    @classmethod
    def now(cls) -> "Machine":
        """Read them."""
        user, nice, system, idle, iowait, irq, softirq, steal = _cpu_line()
        return cls((idle + iowait) / TICKS, (user + nice + system + irq + softirq + steal) / TICKS)


class SessionProcess:
    """A program in a separate session: its CPU and memory include all processes that it starts."""

    def __init__(self, command: Sequence[str | Path], log: Path, directory: Path) -> None:
        self.log = log
        with log.open("wb") as output:
            self.started = time.monotonic()
            self._process = subprocess.Popen(
                command, stdout=output, stderr=subprocess.STDOUT, cwd=directory, start_new_session=True
            )

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    @property
    def log_end(self) -> str:
        """The end of its output."""
        return self.log.read_text(errors="replace")[-4000:]

    def cpu(self) -> float:
        """Return the CPU seconds so far."""
        return sum(read_cpu_seconds(pid) for pid in self.members())

    def peak_mib(self) -> float:
        """Return the peak resident memory, summed over its processes.

        What they have in common, from files or since one was forked from the other, is counted once.
        """
        members = list(self.members())
        return sum(map(_peak_mib, members)) - _counted_twice_mib(members)

    def stop(self) -> None:
        """Terminate the process; kill it after a timeout."""
        if self.is_running:
            self._process.terminate()
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
        deadline = time.monotonic() + STOP_SECONDS
        # Child processes may outlive it, and a killed process does not disappear immediately.
        while (alive := [pid for pid in self.members() if _is_alive(pid)]) and time.monotonic() < deadline:
            for pid in alive:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.01)
        self._process.wait()

    def members(self) -> Iterator[int]:
        """Return the ids of its processes."""
        own = str(self._process.pid)
        for entry in PROC.iterdir():
            if entry.name.isdigit():
                fields = _stat(entry)
                if fields[_SESSION : _SESSION + 1] == [own]:
                    yield int(entry.name)


def _stat(process: Path) -> list[str]:
    try:
        # The name may contain anything, spaces and brackets included.
        return (process / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _is_alive(pid: int) -> bool:
    """Return whether a process is more than a zombie, which only has an exit code to collect."""
    return _stat(PROC / str(pid))[:1] not in ([], ["Z"], ["X"])


def _peak_mib(pid: int) -> float:
    return _mib(pid, "status", "VmHWM:")


def _counted_twice_mib(pids: Sequence[int]) -> float:
    """Return the memory that several processes share, which a sum counts more than once."""
    # Anonymous pages are shared by forks only; pages of a file may also belong to other programs.
    twice = sum(_mib(pid, "smaps_rollup", "Anonymous:") - _mib(pid, "smaps_rollup", "Pss_Anon:") for pid in pids)
    of_files: dict[str, list[int]] = {}
    for pid in pids:
        for mapping, kib in _file_pages(pid):
            of_files.setdefault(mapping, []).append(kib)
    return twice + sum(sum(each) - max(each) for each in of_files.values()) / 1024


def _file_pages(pid: int) -> Iterator[tuple[str, int]]:
    """Return the resident, unchanged bytes of mapped files by file and offset."""
    mapping = ""
    kib = 0
    for line in _lines(pid, "smaps"):
        name, *fields = line.split()
        if not name.endswith(":"):
            mapping = f"{fields[4]} {fields[1]}" if len(fields) > 4 and fields[4].startswith("/") else ""
        elif mapping and name == "Rss:":
            kib = int(fields[0])
        elif mapping and name == "Anonymous:":
            yield mapping, kib - int(fields[0])


def _mib(pid: int, file: str, field: str) -> float:
    return sum(int(line.split()[1]) for line in _lines(pid, file) if line.startswith(field)) / 1024


def _lines(pid: int, file: str) -> list[str]:
    try:
        return (PROC / str(pid) / file).read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _cpu_line() -> list[int]:
    with (PROC / "stat").open() as lines:
        return [int(ticks) for ticks in lines.readline().split()[1:9]]
