"""One program as two processes: the supervisor, which was started, and its child, the scheduler.

The scheduler is forked, unlike the other child processes, which start a new interpreter:

- The processes share anonymous memory. The lease deadline and the heartbeat are visible immediately, without a message,
  even while one of the processes holds its interpreter lock or is stopped.
- The kernel ties the child to its parent before any other code runs. No moment exists in which a scheduler runs
  without a supervisor.
- The imported modules are shared by both processes, so the supervisor costs little memory and the start is not delayed.
- Flags are read and files are opened once, and errors of the child are reported by the parent.
"""

import asyncio
import mmap
import os
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from moorage.common.child_process import encode_frame
from moorage.common.clock import boot_time
from moorage.common.errors import MoorageError, explain
from moorage.common.forked_process import EXIT_FAILURE, fork
from moorage.common.memory import freeze_gc
from moorage.scheduler.daemon.supervisor.link import SchedulerFailed

#: Written by the scheduler. Times are those of :func:`moorage.common.clock.boot_time`, 0 for never.
BEAT: Final = 0
"""Time of the last iteration of the scheduler's loop."""
WAITING_SINCE: Final = 1
"""Time since which a scheduling cycle waits for a plugin; 0 if no cycle waits."""
IS_SYNCED: Final = 2
IS_STOPPING: Final = 3
#: Written by the supervisor.
HELD_UNTIL: Final = 4
"""Time until which the lease is held. No write may start later."""
_CELLS: Final = 5


class SharedState:
    """Numbers in shared memory, each with one writer, read without a lock; created before the fork.

    The two processes inform each other through it, even while one of them holds its interpreter lock.
    """

    def __init__(self) -> None:
        # A double in its own eight bytes is stored and loaded by one instruction: it is never seen half-written.
        self.cells = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")[:_CELLS]

    def __getitem__(self, cell: int) -> float:
        return self.cells[cell]

    def __setitem__(self, cell: int, number: float) -> None:
        self.cells[cell] = number

    def is_held(self) -> bool:
        """Return whether this replica holds the lease now."""
        return boot_time() < self.cells[HELD_UNTIL]


STACK_SIGNAL: Final = int(signal.SIGRTMIN) + 1 if hasattr(signal, "SIGRTMIN") else int(signal.SIGUSR1)
"""Makes the scheduler write its stack. The handler is C code, so it works while the interpreter is busy."""
_POLL_SECONDS: Final = 0.02
_MAX_POLLS: Final = 100


class Ends(Struct, frozen=True):
    """The connections of a process to the other: ``stacks`` is a pipe for stacks, ``other`` its process id."""

    state: SharedState
    socket: socket.socket
    stacks: int
    other: int


def fork_scheduler(supervise: Callable[[Ends], int], schedule: Callable[[Ends], int]) -> int:
    """Fork into supervisor and scheduler. Return the exit code of both. The child never returns.

    Call it before there are threads or a loop. A MoorageError of the child is raised in the parent.
    """
    state = SharedState()
    for_supervisor, for_scheduler = socket.socketpair()
    stacks_out, stacks_in = os.pipe()
    supervisor = os.getpid()

    def work() -> int:
        for_supervisor.close()
        os.close(stacks_out)
        # The loop closes its socket when it ends. An error may have to be sent after that.
        error_socket = for_scheduler.dup()
        try:
            return schedule(Ends(state, for_scheduler, stacks_in, supervisor))
        except MoorageError as error:
            with suppress(OSError):
                error_socket.setblocking(True)
                error_socket.sendall(encode_frame(SchedulerFailed(explain(error))))
            return EXIT_FAILURE
        except KeyboardInterrupt:
            return 128 + signal.SIGINT

    # Both processes share these objects. A collection that touches them would copy their memory.
    freeze_gc()
    child = fork(work)
    for_scheduler.close()
    os.close(stacks_in)
    os.set_blocking(stacks_out, False)
    try:
        return supervise(Ends(state, for_supervisor, stacks_out, child))
    finally:
        for_supervisor.close()
        os.close(stacks_out)


class Child:
    """The scheduler's process, from the view of the supervisor."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None

    def send(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self._code is None:
            os.kill(self._pid, number)

    def kill(self) -> None:
        """Kill the process, even if it is stopped."""
        self.send(signal.SIGKILL)

    async def wait(self) -> int:
        """Return the exit code, negative for a signal. Call it when the link is closed: the process is about to end."""
        for _ in range(_MAX_POLLS):
            if self._is_gone(os.WNOHANG):
                break
            await asyncio.sleep(_POLL_SECONDS)
        else:
            self.kill()
            self._is_gone(0)
        assert self._code is not None
        return self._code

    def _is_gone(self, options: int) -> bool:
        pid, status = os.waitpid(self._pid, options)
        if pid:
            self._code = os.waitstatus_to_exitcode(status)
        return bool(pid)
