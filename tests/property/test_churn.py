"""Memory: after any number of created and deleted pods, the scheduler holds as much as after the first thousand."""

import gc
import sys
from collections.abc import Callable

import pytest
from tests.support.churn import KINDS, Churn, Guests, for_nodes_of_its_own

from moorage.common.clock import VirtualClock
from moorage.common.virtual_time import run_virtual

WARM_UP = 1536
"""More pods than entries in any cache."""
MORE = 1024
"""Caches drop half of their entries at a time and their limits are powers of two: each is now as full as before."""
MAX_GROWTH = 4.0
"""Memory blocks for each additional pod: caches are not quite as full as before. Past leaks were 6 to 140 per pod."""


@pytest.fixture(autouse=True)
def collections_are_quick() -> None:
    """Exclude existing objects from garbage collections."""
    gc.collect()
    gc.freeze()


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_deleted_pods_leave_no_memory(kind: Callable[[int], Guests]) -> None:
    clock = VirtualClock()

    async def run() -> None:
        churn = Churn(clock, [kind])
        await churn.run(WARM_UP)
        before = blocks_in_use()
        await churn.run(MORE)
        assert churn.cluster.bound or kind is for_nodes_of_its_own, "no pod was bound"
        growth = (blocks_in_use() - before) / MORE
        assert growth < MAX_GROWTH, f"{growth:.1f} blocks per pod remain after {churn.came} pods"

    run_virtual(run(), clock)


def blocks_in_use() -> int:
    gc.collect()
    return sys.getallocatedblocks()
