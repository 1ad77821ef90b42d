"""One program as two processes: the keeper, which was started, and its child, the scheduler."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from msgspec import Struct

from moorage.common.errors import MoorageError, explain
from moorage.common.forked_process import EXIT_FAILURE, end_with_parent, exit_child
from moorage.scheduler.daemon.gc_tuning import keep_everything
from moorage.scheduler.daemon.supervisor.link import SchedulerFailed, framed
from moorage.scheduler.daemon.supervisor.page import SharedPage

STACK_SIGNAL: Final = int(signal.SIGRTMIN) + 1 if hasattr(signal, "SIGRTMIN") else int(signal.SIGUSR1)
"""Has the scheduler write where it is, in C, whatever its interpreter is at."""
_POLL_SECONDS: Final = 0.02
_MAX_POLLS: Final = 100


class Ends(Struct, frozen=True):
    """One process's ends of what connects the two: ``stacks`` is a pipe for stacks, ``other`` the other's id."""

    page: SharedPage
    socket: socket.socket
    stacks: int
    other: int


def split(keep: Callable[[Ends], int], schedule: Callable[[Ends], int]) -> int:
    """Go on as two processes; the child never returns from here, and the parent's result is that of both.

    To be called before there are threads or a loop. What the child raises for a user to fix is raised here.
    """
    page = SharedPage()
    for_keeper, for_scheduler = socket.socketpair()
    stacks_out, stacks_in = os.pipe()
    keeper = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    # What there is now stays for good, and both have it: a collection that touched it would make copies of it.
    keep_everything()
    child = os.fork()
    if child:
        for_scheduler.close()
        os.close(stacks_in)
        os.set_blocking(stacks_out, False)
        try:
            return keep(Ends(page, for_keeper, stacks_out, child))
        finally:
            for_keeper.close()
            os.close(stacks_out)
    code = EXIT_FAILURE
    # The loop closes its end of the link when it ends, which is just when there may be a last word to send.
    last_word = for_scheduler.dup()
    try:
        end_with_parent(keeper)
        for_keeper.close()
        os.close(stacks_out)
        code = schedule(Ends(page, for_scheduler, stacks_in, keeper))
    except MoorageError as error:
        with suppress(OSError):
            last_word.setblocking(True)
            last_word.sendall(framed(SchedulerFailed(explain(error))))
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        exit_child(code)


class Child:
    """The scheduler as its keeper sees it."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._code: int | None = None

    def send(self, number: int) -> None:
        """Send it a signal; one that has ended gets none."""
        if self._code is None:
            os.kill(self._pid, number)

    def kill(self) -> None:
        """End it at once, stopped or not."""
        self.send(signal.SIGKILL)

    async def wait(self) -> int:
        """Wait for its end, which is near: its end of the link is closed. Negative if a signal ended it."""
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
