"""Processes that were forked: how they end, and with whom. Programs fork before they import much."""

import ctypes
import os
import signal
import sys
from contextlib import suppress
from typing import Final, NoReturn

EXIT_FAILURE: Final = 1
_PR_SET_PDEATHSIG: Final = 1


def leave(code: int) -> NoReturn:
    """End a forked process at once, with what it printed written, and without what its parent does at its end."""
    with suppress(OSError, ValueError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def die_with(parent: int) -> None:
    """Have the kernel kill this process when its parent is gone, whatever it is doing then."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(EXIT_FAILURE)
