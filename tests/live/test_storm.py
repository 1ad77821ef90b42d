"""Preemption storms of a moderate size; ``python -m tests.live.storm`` runs them at full size."""

import asyncio

import pytest

from moorage.kube.client.rest import ApiClient
from tests.live.cluster import LiveCluster
from tests.live.storm import PER_NODE, Storm, weather
from tests.support.control_plane import ControlPlane

STORMS = {
    "a separate node for each preemptor": Storm(nodes=150, preemptors=100),
    "as many preemptors as all nodes can hold": Storm(nodes=20, preemptors=20 * PER_NODE),
}


async def clear(plane: ControlPlane) -> None:
    async with ApiClient(plane.connection()) as client:
        await LiveCluster(client).clear()


@pytest.mark.parametrize("storm", STORMS.values(), ids=STORMS)
def test_preemptors_are_bound_without_unnecessary_evictions(plane: ControlPlane, storm: Storm) -> None:
    try:
        remaining = asyncio.run(weather(storm, plane))
    finally:
        asyncio.run(clear(plane))
    assert (remaining.bound, remaining.evicted) == (storm.preemptors, storm.preemptors), remaining
