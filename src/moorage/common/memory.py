"""Memory settings: rare garbage collection, and reuse of freed memory."""

import ctypes
import gc
from contextlib import suppress
from typing import Final

STARTING: Final = (100_000, 20, 100)
RUNNING: Final = (10_000, 20, 100)
"""Thresholds of garbage collection. The lower one keeps an idle process from growing by cyclic garbage."""

_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
MAX_FREE_TOP: Final = 16 << 20
MIN_MAPPED: Final = 4 << 20


def retain_freed_memory() -> None:
    """Make the C library keep freed memory for the next column instead of returning it to the kernel.

    Columns of scores are allocated for every pod. By default a block of 128 KiB is mapped and unmapped each time, and
    the end of the heap is returned: with 100,000 nodes the kernel took most of a score's time.
    """
    with suppress(AttributeError, OSError):  # other C libraries lack mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_TRIM_THRESHOLD, MAX_FREE_TOP)
        mallopt(_M_MMAP_THRESHOLD, MIN_MAPPED)


def relax_gc() -> None:
    """Collect garbage rarely during the start, which creates most objects."""
    gc.set_threshold(*STARTING)


def freeze_gc() -> None:
    """Exclude all current objects from garbage collection, and collect more often from now on."""
    gc.freeze()
    gc.set_threshold(*RUNNING)
