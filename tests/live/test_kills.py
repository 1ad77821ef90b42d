"""The scheduler is killed fifty times under load, also in the middle of binding volumes and devices."""

import os
import time
from collections.abc import Callable
from typing import Final

import pytest

from tests.live.cluster import LiveCluster
from tests.live.conftest import Story
from tests.live.kills import DEVICE, MADE, THERE, Round, Tally
from tests.support.control_plane import ControlPlane

Live = Callable[[Story], None]

pytestmark = pytest.mark.usefixtures("controllers")

KILLS: Final = int(os.environ.get("MOORAGE_KILLS", "50"))
SEED: Final = int(os.environ.get("MOORAGE_SEED", "1"))
HOURS: Final = 3600.0


def test_pods_are_bound_after_fifty_kills(plane: ControlPlane, live: Live) -> None:
    async def story(cluster: LiveCluster) -> None:
        tally = Tally()
        await Round(KILLS, seed=SEED).run(cluster, plane, tally, time.monotonic() + HOURS)
        assert tally.kills == KILLS
        assert tally.leaderless <= KILLS // 3, f"too few kills of the leader: {tally.killed}"
        missed = {DEVICE, MADE, THERE} - tally.half_done.keys()
        assert not missed, f"too few kills during bindings: {tally.half_done}"

    live(story)
