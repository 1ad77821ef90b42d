"""The four combinations of {real, embedded} API server and {real, Moorage} scheduler pass the same scenarios."""

from collections.abc import Iterator
from itertools import count
from typing import Final

import pytest

from moorage.kube.client.rest import ApiClient
from tests.live.scenarios import (
    devices,
    neighbors,
    nodes,
    preempting,
    resources,
    spreading,
    volumes,
    waiting,
    workloads,
)
from tests.live.scenarios.combinations import COMBINATIONS, SERVERS, Stage, scheduling
from tests.live.scenarios.listing import Scenario, scenarios_in
from tests.live.scenarios.scene import Scene

SCENARIOS: Final = scenarios_in(
    devices, neighbors, nodes, preempting, resources, spreading, volumes, waiting, workloads
)
NUMBERS: Final = count()


@pytest.fixture(scope="module", params=COMBINATIONS.values(), ids=tuple(COMBINATIONS))
def combination(request: pytest.FixtureRequest) -> Iterator[Stage]:
    """Run an API server with a scheduler."""
    server, program = request.param
    with SERVERS[server]() as stage, scheduling(stage.kubeconfig, program):
        yield stage


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_scenario(combination: Stage, scenario: Scenario) -> None:
    async def play(client: ApiClient) -> None:
        async with Scene(client, f"scene-{next(NUMBERS)}") as scene:
            await scenario(scene)

    combination.run(play)
