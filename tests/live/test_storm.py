"""Storms of preemption, of a size for every day; ``python -m tests.live.storm`` runs them at full size."""

import asyncio

import pytest

from tests.live.storm import PER_NODE, Storm, weather
from tests.support.control_plane import ControlPlane

STORMS = {
    "room for each on a node of its own": Storm(nodes=150, preemptors=100),
    "as many as all nodes have places for": Storm(nodes=20, preemptors=20 * PER_NODE),
}


@pytest.mark.parametrize("storm", STORMS.values(), ids=STORMS)
def test_all_are_bound_and_no_pod_is_evicted_in_vain(plane: ControlPlane, storm: Storm) -> None:
    left = asyncio.run(weather(storm, plane))
    assert (left.bound, left.evicted) == (storm.preemptors, storm.preemptors), left
