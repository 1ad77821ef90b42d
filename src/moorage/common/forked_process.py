"""Forked processes and their end. Programs fork before they import much, so this module imports little.

A plugin that never returns, in Python or in C, prevents the interpreter from handling signals. Commands that run
plugins therefore run in a child, and the parent forwards signals and kills the child if it does not end.
"""

import ctypes
import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Final

EXIT_FAILURE: Final = 1
GRACE_SECONDS: Final = 15.0
"""More than an orderly shutdown takes: running operations have five seconds."""
_REPEATED_SECONDS: Final = 0.3
"""One key press may arrive twice: the terminal sends it to both processes, and the parent forwards it."""
_SHUTDOWN: Final = (signal.SIGINT, signal.SIGTERM)
_PR_SET_PDEATHSIG: Final = 1


def fork(work: Callable[[], int]) -> int:
    """Run a function in a forked child, which exits with its result. Return the process id of the child.

    Call it before there are threads or a loop. The child ends with its parent and never returns.
    """
    parent = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    if child := os.fork():
        return child
    code = EXIT_FAILURE
    try:
        end_with_parent(parent)
        code = work()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        # Not sys.exit: the exit handlers belong to the parent.
        os._exit(code)


def run_in_child(work: Callable[[], int]) -> int:
    """Run a function in a forked child, forward signals to it, and return its exit code.

    A second signal kills the child, as does a first signal without effect for :data:`GRACE_SECONDS`.
    """

    def run() -> int:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_SHUTDOWN, signal.SIGCHLD))
        return work()

    # Block the signals until sigtimedwait: none may be lost in between.
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_SHUTDOWN, signal.SIGCHLD))
    return _forward_signals(fork(run))


def _forward_signals(child: int) -> int:
    """Forward signals until the child has ended. Return the exit code of the program."""
    first_signal_at, number = 0.0, 0
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        timeout = first_signal_at + GRACE_SECONDS - time.monotonic() if first_signal_at else 3600.0
        received = signal.sigtimedwait((*_SHUTDOWN, signal.SIGCHLD), max(timeout, 0.0))
        if received is not None and received.si_signo in _SHUTDOWN:
            is_second = first_signal_at and time.monotonic() - first_signal_at > _REPEATED_SECONDS
            first_signal_at, number = first_signal_at or time.monotonic(), number or received.si_signo
            if not is_second:
                os.kill(child, received.si_signo)
                continue
        elif received is not None or not first_signal_at:
            continue
        sys.stderr.write("shutdown timed out (is a plugin blocking?); killed\n")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return 128 + number


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_FAILURE)
