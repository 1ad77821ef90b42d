"""A page of memory that keeper and scheduler share: plain numbers, each with one writer, read without a lock.

It is how the two can inform each other whatever the other is doing, even while one holds its interpreter's lock.
"""

import mmap
from typing import Final

from moorage.common.clock import boot_time

#: Written by the scheduler. Times are those of :func:`moorage.common.clock.boot_time`, 0 for never.
BEAT: Final = 0
"""When the scheduler's loop last took a turn."""
WAITING_SINCE: Final = 1
"""Since when a scheduling cycle waits for a plugin that is to come back to it; 0 if none does."""
IS_SYNCED: Final = 2
IS_STOPPING: Final = 3
#: Written by the keeper.
HELD_UNTIL: Final = 4
"""Until when the lease is held; nothing may be written later."""
_CELLS: Final = 5


class SharedPage:
    """The shared numbers; made before the fork."""

    def __init__(self) -> None:
        # A double in its own eight bytes is stored and loaded by one instruction: it is never seen half-written.
        self.cells = memoryview(mmap.mmap(-1, mmap.PAGESIZE)).cast("d")[:_CELLS]

    def __getitem__(self, cell: int) -> float:
        return self.cells[cell]

    def __setitem__(self, cell: int, number: float) -> None:
        self.cells[cell] = number

    def is_held(self) -> bool:
        """Return whether the lease is ours at this moment."""
        return boot_time() < self.cells[HELD_UNTIL]
