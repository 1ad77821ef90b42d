"""A program that can always be ended: it runs in a child, and its parent does nothing but pass signals on.

A plugin that never returns, in Python or in C, keeps the interpreter from looking at its signals. The scheduler has a
keeper for that, which does much more; `moorage up` only has to end when somebody presses Ctrl-C.
"""

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import Final

from moorage.scheduler.daemon.forked import EXIT_FAILURE, die_with, leave

GRACE_SECONDS: Final = 15.0
"""More than ending in order takes: what is under way has five seconds."""
_REPEATED_SECONDS: Final = 0.3
"""One key press may arrive twice: the terminal sends it to both processes, and we pass it on."""
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def run_endable(work: Callable[[], int]) -> int:
    """Run something in a child and return its exit code; a second signal, or none heeded for long, kills it.

    To be called before there are threads or a loop.
    """
    parent = os.getpid()
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    # Blocked until they are waited for, so that none is lost in between.
    signal.pthread_sigmask(signal.SIG_BLOCK, (*_ENDING, signal.SIGCHLD))
    child = os.fork()
    if child:
        return _mind(child)
    code = EXIT_FAILURE
    try:
        die_with(parent)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (*_ENDING, signal.SIGCHLD))
        code = work()
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        leave(code)


def _mind(child: int) -> int:
    """Pass signals on until the child has ended; return the exit code for both."""
    asked, number = 0.0, 0
    while True:
        pid, status = os.waitpid(child, os.WNOHANG)
        if pid:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code
        patience = asked + GRACE_SECONDS - time.monotonic() if asked else 3600.0
        received = signal.sigtimedwait((*_ENDING, signal.SIGCHLD), max(patience, 0.0))
        if received is not None and received.si_signo in _ENDING:
            is_second = asked and time.monotonic() - asked > _REPEATED_SECONDS
            asked, number = asked or time.monotonic(), number or received.si_signo
            if not is_second:
                os.kill(child, received.si_signo)
                continue
        elif received is not None or not asked:
            continue
        sys.stderr.write("it does not end by itself, perhaps since a plugin does not return: killed\n")
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        return 128 + number
